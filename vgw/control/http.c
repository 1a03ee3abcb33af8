/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/control/http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* Buffers up to this size stay with an idle connection, so that small polls allocate nothing. */
enum { HTTP_KEEP = 2048 };

static int refuse(struct http_message *m, unsigned status, const char *reason, const char *detail)
{
	m->problem = (struct http_problem){status, reason, detail};
	return 1;
}

static int on_url(http_parser *p, const char *at, size_t len)
{
	struct http_message *m = p->data;

	buf_append(&m->target, at, len);
	return 0;
}

static void end_value(struct http_message *m)
{
	struct buf *f = &m->fields;

	/* The parser leaves the optional white space behind a value to us. */
	while (f->len && (f->data[f->len - 1] == ' ' || f->data[f->len - 1] == '\t'))
		f->data[--f->len] = '\0';
	buf_append(f, "", 1);
	m->in_value = false;
}

static int on_field(http_parser *p, const char *at, size_t len)
{
	struct http_message *m = p->data;

	if (m->head_done) /* a trailer: bounded by the parser, and never mixed with the header */
		return 0;
	if (m->in_value)
		end_value(m);
	if (memchr(at, '\0', len))
		return refuse(m, 400, "BadRequest", "a header field has a NUL in it");
	buf_append(&m->fields, at, len);
	return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
	struct http_message *m = p->data;

	if (m->head_done)
		return 0;
	if (!m->in_value) {
		buf_append(&m->fields, "", 1);
		m->in_value = true;
	}
	/* The parser may be built to let it through, and it is what separates the fields here. */
	if (memchr(at, '\0', len))
		return refuse(m, 400, "BadRequest", "a header field has a NUL in it");
	buf_append(&m->fields, at, len);
	return 0;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* IN may be OUT. Returns the length, or -1 for a bad escape or an escaped NUL. */
static long unescape(const char *in, size_t len, char *out)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++, n++) {
		int high, low;

		if (in[i] != '%') {
			out[n] = in[i];
			continue;
		}
		if (len - i < 3)
			return -1;
		high = hex(in[i + 1]);
		low = hex(in[i + 2]);
		if (high < 0 || low < 0 || high + low == 0)
			return -1;
		out[n] = (char)(high << 4 | low);
		i += 2;
	}
	return (long)n;
}

/* Appends IN decoded, and a NUL. */
static bool append_unescaped(struct buf *out, const char *in, size_t len)
{
	size_t at = out->len;
	long n;

	buf_append(out, in, len);
	if (out->failed)
		return true; /* reported once, by the feed */
	n = unescape(out->data + at, len, out->data + at);
	if (n < 0)
		return false;
	out->len = at + (size_t)n;
	buf_append(out, "", 1);
	return true;
}

static bool split_query(struct http_message *m, const char *query)
{
	while (*query) {
		size_t len = strcspn(query, "&");
		const char *eq = memchr(query, '=', len);
		size_t name = eq ? (size_t)(eq - query) : len;

		if (len && (!append_unescaped(&m->query, query, name) ||
			    !append_unescaped(&m->query, query + name + !!eq, len - name - !!eq)))
			return false;
		query += len + (query[len] == '&');
	}
	return true;
}

static int split_target(struct http_message *m)
{
	const char *text = buf_str(&m->target), *path = text;
	size_t len;
	long n;

	if (m->target.failed)
		return 0;
	if (*path != '/') {
		path = strstr(text, "://"); /* absolute form (RFC 9112 3.2.2) */
		path = path ? path + 3 + strcspn(path + 3, "/?#") : NULL;
		if (!path || *path != '/')
			return refuse(m, 400, "BadRequest", "the request target is not a path");
	}
	len = strcspn(path, "?#");
	if (path[len] == '?' && !split_query(m, path + len + 1))
		return refuse(m, 400, "BadRequest", "the query has a malformed escape");
	n = unescape(path, len, m->target.data);
	if (n < 0)
		return refuse(m, 400, "BadRequest", "the path has a malformed escape");
	m->target.len = (size_t)n;
	m->target.data[n] = '\0';
	return 0;
}

/* The next name behind a pair, or NULL. PAIR is NULL at first. */
static const char *next_pair(const struct buf *pairs, const char *pair, const char **value)
{
	const char *end = buf_str(pairs) + pairs->len;

	if (!pairs->len || pairs->failed)
		return NULL;
	if (!pair)
		pair = pairs->data;
	else
		pair = *value + strlen(*value) + 1;
	if (pair >= end)
		return NULL;
	*value = pair + strlen(pair) + 1;
	return *value < end ? pair : NULL; /* a name alone: the header is not complete */
}

static unsigned count_fields(const struct http_message *m, const char *name)
{
	const char *pair = NULL, *value = NULL;
	unsigned n = 0;

	while ((pair = next_pair(&m->fields, pair, &value)))
		n += !strcasecmp(pair, name);
	return n;
}

/* What would let two parsers disagree about where a message ends is refused (RFC 9112 6.3, 11.2). */
static int check_framing(struct http_message *m)
{
	const struct http_parser *p = &m->parser;
	const char *te = http_message_header(m, "transfer-encoding");

	if (te) {
		if (p->http_minor == 0 || count_fields(m, "transfer-encoding") > 1 ||
		    count_fields(m, "content-length"))
			return refuse(m, 400, "BadRequest", "the length of the body is ambiguous");
		if (strcasecmp(te, "chunked") != 0)
			return refuse(m, 501, "NotImplemented",
				      "of the transfer encodings only chunked is known");
	} else if (count_fields(m, "content-length") && p->content_length != UINT64_MAX &&
		   p->content_length > m->limit_body) {
		return refuse(m, 413, "TooLarge", "the body is larger than this server takes");
	}
	m->has_body = te || (p->content_length && p->content_length != UINT64_MAX);
	return 0;
}

/* A token (RFC 9110 5.6.2). The parser may be built to let blanks through, "Content-Length :" among them. */
static bool names_are_tokens(const struct http_message *m)
{
	static const char token[] =
		"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	const char *pair = NULL, *value = NULL;

	while ((pair = next_pair(&m->fields, pair, &value)))
		if (!*pair || pair[strspn(pair, token)])
			return false;
	return true;
}

static int check_head(struct http_message *m)
{
	const struct http_parser *p = &m->parser;
	const char *expect;

	if (p->http_major != 1 || p->http_minor > 1)
		return refuse(m, 505, "HTTPVersionNotSupported", "HTTP/1.1 is spoken here");
	if (p->method == HTTP_CONNECT || p->method == HTTP_TRACE)
		return refuse(m, 501, "NotImplemented", "this method is not known here");
	if (!names_are_tokens(m))
		return refuse(m, 400, "BadRequest", "the name of a header field is malformed");
	if (split_target(m) || check_framing(m))
		return 1;
	if (count_fields(m, "host") > 1 || (p->http_minor == 1 && !count_fields(m, "host")))
		return refuse(m, 400, "BadRequest", "exactly one Host field is needed");
	expect = http_message_header(m, "expect");
	if (expect && p->http_minor == 1) {
		if (strcasecmp(expect, "100-continue") != 0)
			return refuse(m, 417, "ExpectationFailed", "only 100-continue may be expected");
		m->expect_continue = m->has_body;
	}
	return 0;
}

static int on_headers_complete(http_parser *p)
{
	struct http_message *m = p->data;

	if (m->in_value)
		end_value(m);
	m->head_done = true;
	p->upgrade = 0; /* an offer to upgrade may be ignored (RFC 9110 7.8) */
	if (m->fields.failed || m->target.failed)
		return -1;
	if (check_head(m))
		return -1;
	if (m->on_head)
		m->on_head(m->on_head_ctx, &m->problem);
	return m->problem.status ? -1 : 0;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
	struct http_message *m = p->data;

	if (len > m->limit_body - m->body.len)
		return refuse(m, 413, "TooLarge", "the body is larger than this server takes");
	buf_append(&m->body, at, len);
	return 0;
}

static int on_message_complete(http_parser *p)
{
	struct http_message *m = p->data;

	m->complete = true;
	m->keep_alive = http_should_keep_alive(p);
	http_parser_pause(p, 1); /* what follows is another message */
	return 0;
}

static const struct http_parser_settings settings = {
	.on_url = on_url,
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

void http_message_init(struct http_message *m, size_t limit_header, size_t limit_body)
{
	memset(m, 0, sizeof(*m));
	m->limit_header = limit_header;
	m->limit_body = limit_body;
	http_message_reset(m);
}

static void rewind_buf(struct buf *b)
{
	if (b->cap > HTTP_KEEP || b->failed)
		buf_free(b);
	else
		buf_consume(b, b->len);
}

void http_message_reset(struct http_message *m)
{
	http_parser_init(&m->parser, HTTP_REQUEST);
	m->parser.data = m;
	rewind_buf(&m->target);
	rewind_buf(&m->query);
	rewind_buf(&m->fields);
	buf_wipe(&m->body); /* it may have carried a private key */
	m->head_bytes = 0;
	m->in_value = m->started = m->head_done = m->complete = false;
	m->keep_alive = m->expect_continue = m->has_body = false;
	m->problem = (struct http_problem){0};
}

void http_message_free(struct http_message *m)
{
	buf_free(&m->target);
	buf_free(&m->query);
	buf_free(&m->fields);
	buf_wipe(&m->body);
}

static void judge(struct http_message *m)
{
	enum http_errno e = HTTP_PARSER_ERRNO(&m->parser);

	if (m->problem.status)
		return;
	if (m->target.failed || m->query.failed || m->fields.failed || m->body.failed)
		refuse(m, 503, "OutOfMemory", "there is no memory for this request");
	else if (m->complete || e == HPE_OK)
		return;
	else if (e == HPE_HEADER_OVERFLOW)
		refuse(m, 431, "HeaderTooLarge", "the header is larger than this server takes");
	else if (e == HPE_INVALID_VERSION)
		refuse(m, 505, "HTTPVersionNotSupported", "HTTP/1.1 is spoken here");
	else
		refuse(m, 400, "BadRequest", http_errno_description(e));
}

enum http_result http_message_feed(struct http_message *m, const char *data, size_t len, size_t *used)
{
	*used = 0;
	while (*used < len) {
		size_t n = len - *used, taken;
		bool head = !m->head_done;

		if (head && n > m->limit_header - m->head_bytes)
			n = m->limit_header - m->head_bytes;
		if (!n) {
			refuse(m, 431, "HeaderTooLarge", "the header is larger than this server takes");
			return HTTP_MESSAGE_FAILED;
		}
		m->started = true;
		taken = http_parser_execute(&m->parser, &settings, data + *used, n);
		*used += taken;
		if (head)
			m->head_bytes += taken;
		judge(m);
		if (m->problem.status)
			return HTTP_MESSAGE_FAILED;
		if (m->complete)
			return HTTP_MESSAGE_COMPLETE;
	}
	return HTTP_MESSAGE_MORE;
}

const char *http_message_method(const struct http_message *m)
{
	return http_method_str((enum http_method)m->parser.method);
}

const char *http_message_path(const struct http_message *m)
{
	return buf_str(&m->target);
}

const char *http_message_query(const struct http_message *m, const char *name)
{
	const char *pair = NULL, *value = NULL;

	while ((pair = next_pair(&m->query, pair, &value)))
		if (!strcmp(pair, name))
			return value;
	return NULL;
}

const char *http_message_header(const struct http_message *m, const char *name)
{
	const char *pair = NULL, *value = NULL;

	while ((pair = next_pair(&m->fields, pair, &value)))
		if (!strcasecmp(pair, name))
			return value;
	return NULL;
}
