/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/check_http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int on_headers_complete(struct http_parser *p)
{
	struct check_http *h = p->data;

	/* RFC 9110 15.2: any number of interim responses may come first; 101 is a final one for us, as
	 * nothing was asked to be switched. */
	if (p->status_code >= 100 && p->status_code < 200 && p->status_code != 101)
		return 0;
	h->status = p->status_code;
	h->answered = true;
	return 0;
}

static int on_body(struct http_parser *p, const char *at, size_t len)
{
	struct check_http *h = p->data;

	(void)at;
	h->body_bytes += len;
	if (h->body_bytes > CHECK_HTTP_MAX_BODY) {
		h->complete = true;
		http_parser_pause(p, 1);
	}
	return 0;
}

static int on_message_complete(struct http_parser *p)
{
	struct check_http *h = p->data;

	if (h->answered) {
		h->complete = true;
		http_parser_pause(p, 1); /* what follows is nobody's */
	}
	return 0;
}

static const struct http_parser_settings settings = {
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

void check_http_init(struct check_http *h)
{
	memset(h, 0, sizeof(*h));
	http_parser_init(&h->parser, HTTP_RESPONSE);
	h->parser.data = h;
}

int check_http_feed(struct check_http *h, const void *data, size_t len)
{
	const char *p = data;

	while (len && !h->complete) {
		bool in_header = !h->answered;
		size_t room = CHECK_HTTP_MAX_HEADER - h->header_bytes;
		size_t n = in_header && len > room ? room : len;
		enum http_errno err;

		if (in_header && !room) {
			h->oversized = true;
			return -EBADMSG;
		}
		http_parser_execute(&h->parser, &settings, p, n);
		err = HTTP_PARSER_ERRNO(&h->parser);
		if (h->parser.upgrade)
			h->complete = true; /* another protocol follows */
		else if (err != HPE_OK && !h->complete)
			return -EBADMSG;
		if (in_header)
			h->header_bytes += n;
		p += n;
		len -= n;
	}
	return 0;
}

static bool expected(const struct spec_check *spec, int status)
{
	for (size_t i = 0; i < spec->n_expect; i++)
		if (spec->expect[i] == status)
			return true;
	return !spec->n_expect && status == 200;
}

static void malformed(const struct check_http *h, struct check_result *out)
{
	enum http_errno err = HTTP_PARSER_ERRNO(&h->parser);

	out->code = CHECK_MALFORMED;
	if (h->oversized)
		snprintf(out->detail, sizeof(out->detail), "header larger than %d KiB",
			 CHECK_HTTP_MAX_HEADER >> 10);
	else if (h->answered)
		snprintf(out->detail, sizeof(out->detail), "no HTTP/1 status: HTTP/%u.%u %d",
			 h->parser.http_major, h->parser.http_minor, h->status);
	else if (err != HPE_OK)
		snprintf(out->detail, sizeof(out->detail), "not HTTP: %s", http_errno_description(err));
	else if (h->header_bytes)
		snprintf(out->detail, sizeof(out->detail), "connection closed inside the header");
	else
		snprintf(out->detail, sizeof(out->detail), "connection closed without an answer");
}

void check_http_judge(const struct check_http *h, const struct spec_check *spec, struct check_result *out)
{
	out->stage = CHECK_STAGE_HTTP;
	if (!h->answered || h->parser.http_major != 1 || h->status < 100) {
		malformed(h, out);
		return;
	}
	snprintf(out->detail, sizeof(out->detail), "%d", h->status);
	if (expected(spec, h->status))
		out->code = CHECK_OK;
	else if (h->status == 401 || h->status == 403)
		out->code = CHECK_AUTH_REQUIRED;
	else
		out->code = CHECK_HTTP_STATUS;
}

void check_http_request(struct buf *out, const struct ip_endpoint *host, const char *path)
{
	char text[IP_ENDPOINT_STRLEN];

	buf_puts(out, "GET ");
	if (path[0] != '/')
		buf_puts(out, "/");
	for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
		if (*p <= ' ' || *p >= 0x7f)
			buf_printf(out, "%%%02X", *p);
		else
			buf_append(out, p, 1);
	}
	buf_printf(out,
		   " HTTP/1.1\r\n"
		   "Host: %s\r\n"
		   "User-Agent: vgw-agent/" VGW_VERSION "\r\n"
		   "Accept: */*\r\n"
		   "Connection: close\r\n\r\n",
		   ip_endpoint_print(host, text));
}
