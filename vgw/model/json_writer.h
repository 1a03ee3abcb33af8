/* SPDX-License-Identifier: Apache-2.0 */
/* JSON into a buffer, member by member; commas are its own business. KEY NULL: an element of an array. Pure.
 */
#ifndef VGW_MODEL_JSON_WRITER_H
#define VGW_MODEL_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "netcfg/base/buf.h"

/* BRACKET "{" or "["; close with buf_puts() of its like. */
void json_put_open(struct buf *b, const char *key, const char *bracket);
/* Bytes that are no UTF-8, as in a process's name or where a text was cut, become U+FFFD. */
void json_put_string(struct buf *b, const char *key, const char *s);
/* Left out when empty. */
void json_put_text(struct buf *b, const char *key, const char *s);
void json_put_int(struct buf *b, const char *key, int64_t n);
void json_put_bool(struct buf *b, const char *key, bool v);
/* With one decimal, as for latencies; null for what is no number. */
void json_put_tenths(struct buf *b, const char *key, double v);
void json_put_null(struct buf *b, const char *key);
/* RFC 3339, UTC, whole seconds; what has no such form (before 1970, after 9999) is null. */
void json_put_time(struct buf *b, const char *key, int64_t unix_ms);

#endif
