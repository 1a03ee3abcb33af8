/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict, typed reading of one JSON document: what is unknown, duplicate, mistyped or out of range is refused
 * with a JSON pointer (RFC 6901). Pure.
 *
 * The first failure latches: it fills the caller's error, and whatever is read afterwards is the fallback. So
 * a decoder reads all it wants and looks at `rc` where it matters, at the latest at its end.
 *
 *	struct json_reader r;
 *	enum { NAME, PORT, N };
 *	static const char *const names[N] = {[NAME] = "name", [PORT] = "port"};
 *	struct json_value root, m[N];
 *
 *	json_open(&r, "InvalidConfig", text, len, 1 << 20, err);
 *	root = json_root(&r);
 *	json_members(&root, names, N, m);
 *	port = json_int(&m[PORT], 1, 65535, 9444);
 *	...
 *	rc = r.rc;
 *	json_close(&r);
 */
#ifndef VGW_MODEL_JSON_READER_H
#define VGW_MODEL_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netcfg/base/err.h"

struct cJSON;

enum {
	JSON_MAX_DEPTH = 32 /* objects and arrays inside each other; deeper is TooLarge */
};

struct json_reader {
	const char *reason;  /* of every refusal but TooLarge: "InvalidSpec" */
	struct vgw_err *err; /* may be NULL */
	int rc;		     /* of the first failure, or 0 */
	struct cJSON *root;
};

/* A place in the document: a value, or (item NULL) a member that was left out. */
struct json_value {
	struct json_reader *reader;
	const struct json_value *parent; /* outlives this one; NULL for the root */
	const char *key;		 /* a member's name; NULL for an element */
	size_t index;			 /* an element's index */
	const struct cJSON *item;
};

/*
 * Parse. -EINVAL when TEXT is not exactly one JSON text (RFC 8259) in UTF-8, or has U+0000 in a string;
 * -E2BIG when it is longer than MAX_BYTES or nested too deeply; -ENOMEM. Also latched in R, so that the
 * return value may be ignored; json_close in either case. TEXT may go away afterwards.
 */
int json_open(struct json_reader *r, const char *reason, const char *text, size_t len, size_t max_bytes,
	      struct vgw_err *err);
void json_close(struct json_reader *r);
struct json_value json_root(struct json_reader *r);

/*
 * The members of an object: OUT[i] is the one called NAMES[i]. Unknown and duplicate ones are refused. Of an
 * object that was left out, all members are.
 */
void json_members(const struct json_value *object, const char *const *names, size_t n,
		  struct json_value *out);

bool json_given(const struct json_value *v);
/* Given, and a string: for a member of two types. */
bool json_is_string(const struct json_value *v);
/* Refuse V when it was left out. */
void json_require(const struct json_value *v);

/* Each gives FALLBACK when the value was left out or anything has failed. Strings live until json_close. */
const char *json_string(const struct json_value *v, const char *fallback);
bool json_bool(const struct json_value *v, bool fallback);
/* Exact: digits only, without fraction or exponent, over the whole range of int64_t. */
int64_t json_int(const struct json_value *v, int64_t min, int64_t max, int64_t fallback);
/* The index of the word in WORDS (case matters). */
int json_enum(const struct json_value *v, const char *const *words, size_t n, int fallback);
/* The number of elements; 0 when left out or failed. More than MAX is TooLarge. */
size_t json_array(const struct json_value *v, size_t max);
/* for (struct json_value e = json_elements(&array); e.item; json_next(&e)): ends at the first failure. */
struct json_value json_elements(const struct json_value *array);
void json_next(struct json_value *element);
/* Number INDEX of ARRAY, for naming it in a failure only: `item` is not set. */
struct json_value json_element_at(const struct json_value *array, size_t index);
/* The member called KEY, for naming it in a failure only. */
struct json_value json_member_at(const struct json_value *object, const char *key);

/* Refuse V, with the reader's reason or TooLarge. Return the latched code. */
int json_fail(const struct json_value *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int json_fail_large(const struct json_value *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int json_fail_memory(struct json_reader *r);

/* The RFC 6901 pointer of V into OUT, cut at a character, control characters as '?'; returns OUT. */
const char *json_pointer(const struct json_value *v, char *out, size_t size);

/* Foreign text fit for a message: cut at a character, control characters as '?'. */
struct json_quoted {
	char s[72];
};
const char *json_quote(const char *s, struct json_quoted *out);

#endif
