/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/json_reader.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/model/json_scan.h"

/* Copy one character (all bytes of it) of S to OUT if it fits into SIZE with a NUL; its length, or 0. */
static size_t put_char(char *out, size_t size, const char *s)
{
	size_t n = 1;

	while (((unsigned char)s[0] & 0xc0) == 0xc0 && ((unsigned char)s[n] & 0xc0) == 0x80)
		n++;
	if (size <= n)
		return 0;
	memcpy(out, s, n);
	/* These end on terminals and in logs: C0, DEL and C1 (U+0080 to U+009F) do not. */
	if ((unsigned char)s[0] < 0x20 || s[0] == 0x7f ||
	    ((unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0))
		memset(out, '?', n);
	return n;
}

const char *json_quote(const char *s, struct json_quoted *out)
{
	size_t n = 0, one;

	for (; *s; s += one, n += one) {
		one = put_char(out->s + n, sizeof(out->s) - n, s);
		if (!one)
			break;
	}
	out->s[n] = '\0';
	return out->s;
}

/* Append V's pointer at OUT[N]; the new length, or SIZE when it did not fit (OUT is then full, but ended). */
static size_t put_pointer(const struct json_value *v, char *out, size_t size, size_t n)
{
	char number[24];
	const char *s = v->key;

	if (!v->parent)
		return n;
	n = put_pointer(v->parent, out, size, n);
	if (n + 1 >= size)
		return size;
	out[n++] = '/';
	if (!s) {
		snprintf(number, sizeof(number), "%zu", v->index);
		s = number;
	}
	while (*s) {
		const char *c = *s == '~' ? "~0" : *s == '/' ? "~1" : s;
		size_t one = c == s ? put_char(out + n, size - n, s) : n + 2 < size ? 2 : 0;

		if (c != s && one)
			memcpy(out + n, c, 2);
		if (!one) {
			out[n] = '\0';
			return size;
		}
		n += one;
		s += c == s ? one : 1;
	}
	out[n] = '\0';
	return n;
}

const char *json_pointer(const struct json_value *v, char *out, size_t size)
{
	out[0] = '\0';
	put_pointer(v, out, size, 0);
	return out;
}

__attribute__((format(printf, 4, 0))) static int fail(const struct json_value *v, int rc, const char *reason,
						      const char *fmt, va_list ap)
{
	char where[sizeof(v->reader->err->where)], text[sizeof(v->reader->err->text)];

	if (v->reader->rc)
		return v->reader->rc;
	vsnprintf(text, sizeof(text), fmt, ap);
	v->reader->rc =
		vgw_err_set(v->reader->err, rc, reason, json_pointer(v, where, sizeof(where)), "%s", text);
	return rc;
}

int json_fail(const struct json_value *v, const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = fail(v, -EINVAL, v->reader->reason, fmt, ap);
	va_end(ap);
	return rc;
}

int json_fail_large(const struct json_value *v, const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = fail(v, -E2BIG, "TooLarge", fmt, ap);
	va_end(ap);
	return rc;
}

int json_fail_memory(struct json_reader *r)
{
	if (!r->rc)
		r->rc = vgw_err_set(r->err, -ENOMEM, "OutOfMemory", NULL, "memory is out");
	return r->rc;
}

static int fail_syntax(struct json_reader *r, const char *text, size_t offset, const char *what)
{
	struct json_value root = json_root(r);
	size_t line = 1, column = 1;

	for (size_t i = 0; i < offset; i++) {
		column++;
		if (text[i] == '\n') {
			line++;
			column = 1;
		}
	}
	return json_fail(&root, "is not JSON: %s at line %zu, column %zu", what, line, column);
}

/* A number that a double may not hold gets its digits back, in the member that cJSON frees anyway. Numbers
 * come in the same order in the text and in the tree. */
static int restore_digits(struct cJSON *item, const char *text, size_t len, size_t *pos)
{
	const char *token;
	size_t n;

	for (; item; item = item->next) {
		if (item->child && restore_digits(item->child, text, len, pos) < 0)
			return -ENOMEM;
		if (!cJSON_IsNumber(item))
			continue;
		token = json_scan_number(text, len, pos, &n);
		if (!token || json_scan_is_exact(token, n))
			continue;
		item->valuestring = cJSON_malloc(n + 1);
		if (!item->valuestring)
			return -ENOMEM;
		memcpy(item->valuestring, token, n);
		item->valuestring[n] = '\0';
	}
	return 0;
}

int json_open(struct json_reader *r, const char *reason, const char *text, size_t len, size_t max_bytes,
	      struct vgw_err *err)
{
	struct json_value root;
	struct json_scan scan;
	const char *end = NULL;
	size_t pos = 0;
	int rc;

	*r = (struct json_reader){.reason = reason, .err = err};
	root = json_root(r);
	if (!len)
		text = "";
	if (len > max_bytes)
		return json_fail_large(&root, "is %zu bytes long; at most %zu are allowed", len, max_bytes);
	rc = json_scan(text, len, JSON_MAX_DEPTH, &scan);
	if (rc == -E2BIG)
		return json_fail_large(&root, "is nested deeper than %d", JSON_MAX_DEPTH);
	if (rc < 0)
		return fail_syntax(r, text, scan.offset, scan.what);
	r->root = cJSON_ParseWithLengthOpts(text, len, &end, 0);
	/* cJSON says the same when memory is out: for a text this agent can read, that is the rarer case. */
	if (!r->root)
		return fail_syntax(r, text, end ? (size_t)(end - text) : 0,
				   len ? "a syntax error" : "an empty document");
	for (; end < text + len; end++)
		if (!strchr(" \t\r\n", *end))
			return fail_syntax(r, text, (size_t)(end - text), "text behind its end");
	if (scan.inexact_number && restore_digits(r->root, text, len, &pos) < 0)
		return json_fail_memory(r);
	return 0;
}

void json_close(struct json_reader *r)
{
	cJSON_Delete(r->root);
	r->root = NULL;
}

struct json_value json_root(struct json_reader *r)
{
	return (struct json_value){.reader = r, .item = r->root};
}

struct json_value json_member_at(const struct json_value *object, const char *key)
{
	return (struct json_value){.reader = object->reader, .parent = object, .key = key};
}

struct json_value json_element_at(const struct json_value *array, size_t index)
{
	return (struct json_value){.reader = array->reader, .parent = array, .index = index};
}

static const char *type_name(const struct cJSON *item)
{
	switch (item->type & 0xff) {
	case cJSON_False:
	case cJSON_True:
		return "a boolean";
	case cJSON_NULL:
		return "null";
	case cJSON_Number:
		return "a number";
	case cJSON_String:
		return "a string";
	case cJSON_Array:
		return "an array";
	case cJSON_Object:
		return "an object";
	default:
		return "nothing known";
	}
}

/* Is there a value to read? Anything but TYPE (a cJSON type) is refused. */
static bool is_type(const struct json_value *v, int type, const char *name)
{
	if (v->reader->rc || !v->item)
		return false;
	if ((v->item->type & 0xff & type) != 0)
		return true;
	json_fail(v, "must be %s, not %s", name, type_name(v->item));
	return false;
}

void json_members(const struct json_value *object, const char *const *names, size_t n, struct json_value *out)
{
	struct json_quoted q;
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = json_member_at(object, names[i]);
	if (!is_type(object, cJSON_Object, "an object"))
		return;
	for (const struct cJSON *item = object->item->child; item; item = item->next) {
		struct json_value member = json_member_at(object, item->string);

		for (i = 0; i < n && strcmp(names[i], item->string) != 0; i++)
			;
		if (i == n)
			json_fail(&member, "unknown member \"%s\"", json_quote(item->string, &q));
		else if (out[i].item)
			json_fail(&member, "duplicate member \"%s\"", json_quote(item->string, &q));
		else
			out[i].item = item;
		if (object->reader->rc)
			return;
	}
}

bool json_given(const struct json_value *v)
{
	return v->item && !v->reader->rc;
}

bool json_is_string(const struct json_value *v)
{
	return json_given(v) && cJSON_IsString(v->item);
}

void json_require(const struct json_value *v)
{
	if (!v->item)
		json_fail(v, "is required");
}

const char *json_string(const struct json_value *v, const char *fallback)
{
	return is_type(v, cJSON_String, "a string") ? v->item->valuestring : fallback;
}

bool json_bool(const struct json_value *v, bool fallback)
{
	return is_type(v, cJSON_True | cJSON_False, "true or false") ? cJSON_IsTrue(v->item) : fallback;
}

int64_t json_int(const struct json_value *v, int64_t min, int64_t max, int64_t fallback)
{
	const char *digits;
	int64_t n;

	if (!is_type(v, cJSON_Number, "a number"))
		return fallback;
	digits = v->item->valuestring;
	if (digits && strspn(digits, "-0123456789") != strlen(digits)) {
		json_fail(v, "must be a whole number, without fraction or exponent");
		return fallback;
	}
	errno = 0;
	n = digits ? strtoll(digits, NULL, 10) : (int64_t)v->item->valuedouble;
	if (errno || n < min || n > max) {
		json_fail(v, "must be from %lld to %lld", (long long)min, (long long)max);
		return fallback;
	}
	return n;
}

static void list_words(const char *const *words, size_t n, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s\"%s\"",
					 !i	      ? ""
					 : i + 1 == n ? " or "
						      : ", ",
					 words[i]);
}

int json_enum(const struct json_value *v, const char *const *words, size_t n, int fallback)
{
	const char *s = json_string(v, NULL);
	struct json_quoted q;
	char list[256];

	if (!s)
		return fallback;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(words[i], s))
			return (int)i;
	list_words(words, n, list, sizeof(list));
	json_fail(v, "must be %s, not \"%s\"", list, json_quote(s, &q));
	return fallback;
}

size_t json_array(const struct json_value *v, size_t max)
{
	size_t n = 0;

	if (!is_type(v, cJSON_Array, "an array"))
		return 0;
	for (const struct cJSON *item = v->item->child; item; item = item->next)
		n++;
	if (n <= max)
		return n;
	json_fail_large(v, "has %zu elements; at most %zu are allowed", n, max);
	return 0;
}

struct json_value json_elements(const struct json_value *array)
{
	struct json_value e = json_element_at(array, 0);

	if (is_type(array, cJSON_Array, "an array"))
		e.item = array->item->child;
	return e;
}

void json_next(struct json_value *element)
{
	element->index++;
	element->item = element->reader->rc ? NULL : element->item->next;
}
