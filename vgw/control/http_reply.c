/* SPDX-License-Identifier: Apache-2.0 */
/* The text of responses, and HTTP's dates. */
#include "vgw/control/http.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *http_status_title(unsigned status)
{
	switch (status) {
#define TITLE(number, name, text)                                                                            \
	case number:                                                                                         \
		return #text;
		HTTP_STATUS_MAP(TITLE)
#undef TITLE
	}
	return "Unknown";
}

bool http_status_bodiless(unsigned status)
{
	return status < 200 || status == 204 || status == 304;
}

void http_render_head(struct buf *out, const struct http_reply *r)
{
	buf_printf(out, "HTTP/1.1 %u %s\r\nDate: %s\r\n", r->status, http_status_title(r->status), r->date);
	if (r->type)
		buf_printf(out, "Content-Type: %s\r\n", r->type);
	if (!http_status_bodiless(r->status))
		buf_printf(out, "Content-Length: %zu\r\n", r->len);
	buf_puts(out, r->keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n");
	if (r->headers)
		buf_puts(out, r->headers);
	buf_puts(out, "\r\n");
}

/* Length of the UTF-8 sequence at P, or 0 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF). */
static size_t utf8_length(const unsigned char *p)
{
	size_t i, n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;
	for (i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static void add_text(cJSON *object, const char *name, const char *text)
{
	char *copy = strdup(text);
	unsigned char *p = (unsigned char *)copy;

	while (p && *p) {
		size_t n = utf8_length(p);

		if (!n) {
			*p = '?';
			n = 1;
		}
		p += n;
	}
	cJSON_AddStringToObject(object, name, copy ? copy : "");
	free(copy);
}

void http_render_problem(struct buf *out, unsigned status, const char *reason, const char *detail,
			 const char *pointer)
{
	cJSON *o = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(o, "type", "about:blank");
	cJSON_AddStringToObject(o, "title", http_status_title(status));
	cJSON_AddNumberToObject(o, "status", status);
	cJSON_AddStringToObject(o, "reason", reason);
	add_text(o, "detail", detail ? detail : "");
	if (pointer && *pointer)
		add_text(o, "pointer", pointer);
	text = cJSON_PrintUnformatted(o);
	if (text)
		buf_puts(out, text);
	else
		out->failed = true;
	cJSON_free(text);
	cJSON_Delete(o);
}

int http_date_parse(const char *text, int64_t *out)
{
	struct tm tm = {0};
	const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);

	if (!end || *end)
		return -EINVAL;
	*out = timegm(&tm);
	return 0;
}

void http_date_print(int64_t when, char *out)
{
	time_t t = when;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(out, 30, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}
