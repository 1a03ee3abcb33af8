/* SPDX-License-Identifier: Apache-2.0 */
/* A first look at JSON text, for what cJSON lets pass or cannot tell afterwards. Pure. */
#ifndef VGW_MODEL_JSON_SCAN_H
#define VGW_MODEL_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct json_scan {
	const char *what;    /* what is wrong; NULL when nothing is */
	size_t offset;	     /* where, in bytes */
	bool inexact_number; /* some number may not be told exactly from cJSON's double */
};

/*
 * Check every token: UTF-8 (RFC 3629), escapes, no control characters and no U+0000 in strings, numbers and
 * words as RFC 8259 has them, white space. Brackets are only counted. 0; -EINVAL; -E2BIG when nested deeper
 * than MAX_DEPTH.
 */
int json_scan(const char *text, size_t len, unsigned max_depth, struct json_scan *out);

/*
 * The first number token in scanned text at or after *POS: its start, its length in *TOKEN_LEN, and *POS
 * behind it. NULL when there is none.
 */
const char *json_scan_number(const char *text, size_t len, size_t *pos, size_t *token_len);

/*
 * The length of the multi-byte character that TEXT begins with, by the table of RFC 3629 4: no overlong form,
 * no surrogate, nothing above U+10FFFF. 0 when it begins with none.
 */
size_t json_scan_utf8(const char *text, size_t len);

/* A whole number that a double holds exactly. */
bool json_scan_is_exact(const char *token, size_t len);

#endif
