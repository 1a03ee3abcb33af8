/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "vgw/model/json_scan.h"

/* Whether the next value needs a comma shows in what was written last. */
static void start(struct buf *b, const char *key)
{
	char last = b->len ? b->data[b->len - 1] : '{';

	if (last != '{' && last != '[')
		buf_append(b, ",", 1);
	if (key) {
		buf_append(b, "\"", 1);
		buf_puts(b, key);
		buf_append(b, "\":", 2);
	}
}

void json_put_open(struct buf *b, const char *key, const char *bracket)
{
	start(b, key);
	buf_puts(b, bracket);
}

static void put_escaped(struct buf *b, char c)
{
	if ((unsigned char)c >= 0x80)
		buf_puts(b, "\xef\xbf\xbd"); /* U+FFFD stands for what is no character */
	else if (c == '\n')
		buf_puts(b, "\\n"); /* PEM is full of them */
	else if (c == '"' || c == '\\')
		buf_printf(b, "\\%c", c);
	else
		buf_printf(b, "\\u%04x", (unsigned)(unsigned char)c);
}

void json_put_string(struct buf *b, const char *key, const char *s)
{
	const char *plain = s, *end = s + strlen(s);

	start(b, key);
	buf_append(b, "\"", 1);
	while (s < end) {
		bool ascii = (unsigned char)*s < 0x80;
		size_t n = ascii ? *s != '"' && *s != '\\' && (unsigned char)*s >= 0x20
				 : json_scan_utf8(s, (size_t)(end - s));

		if (!n) {
			buf_append(b, plain, (size_t)(s - plain));
			put_escaped(b, *s);
			plain = s + 1;
		}
		s += n ? n : 1;
	}
	buf_append(b, plain, (size_t)(s - plain));
	buf_append(b, "\"", 1);
}

void json_put_text(struct buf *b, const char *key, const char *s)
{
	if (*s)
		json_put_string(b, key, s);
}

void json_put_int(struct buf *b, const char *key, int64_t n)
{
	start(b, key);
	buf_printf(b, "%" PRId64, n);
}

void json_put_bool(struct buf *b, const char *key, bool v)
{
	start(b, key);
	buf_puts(b, v ? "true" : "false");
}

void json_put_tenths(struct buf *b, const char *key, double v)
{
	if (!isfinite(v)) {
		json_put_null(b, key);
		return;
	}
	start(b, key);
	buf_printf(b, "%.1f", v);
}

void json_put_null(struct buf *b, const char *key)
{
	start(b, key);
	buf_puts(b, "null");
}

void json_put_time(struct buf *b, const char *key, int64_t unix_ms)
{
	time_t seconds = (time_t)(unix_ms / 1000);
	char text[32];
	struct tm tm;

	if (unix_ms < 0 || !gmtime_r(&seconds, &tm) || tm.tm_year > 9999 - 1900 ||
	    !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		json_put_null(b, key);
	else
		json_put_string(b, key, text);
}
