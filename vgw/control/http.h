/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 messages: a request put together from any pieces, and the text of a response. No I/O. */
#ifndef VGW_CONTROL_HTTP_H
#define VGW_CONTROL_HTTP_H

#include <http_parser.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netcfg/base/buf.h"

/* Why a request is refused; the strings are static. Status 0: it is not. */
struct http_problem {
	unsigned status;
	const char *reason;
	const char *detail;
};

enum http_result {
	HTTP_MESSAGE_MORE,     /* everything was taken, and there is more to come */
	HTTP_MESSAGE_COMPLETE, /* bytes behind the message are not taken */
	HTTP_MESSAGE_FAILED,   /* `problem` says why; nothing behind it can be trusted */
};

struct http_message {
	struct http_parser parser;
	struct buf target; /* raw while it comes in; then the decoded path */
	struct buf query;  /* "name\0value\0" for each parameter, decoded */
	struct buf fields; /* "name\0value\0" for each header field, in order */
	struct buf body;
	size_t limit_header, limit_body;
	size_t head_bytes;
	bool in_value;
	bool started; /* a byte was taken */
	bool head_done;
	bool complete;
	bool keep_alive;      /* what the client asked for; valid once complete */
	bool expect_continue; /* the client waits for "100 Continue" before it sends the body */
	bool has_body;	      /* the head announces one */
	/* Called when the head is there and valid; a status in PROBLEM ends the message. May be NULL. */
	void (*on_head)(void *ctx, struct http_problem *problem);
	void *on_head_ctx;
	struct http_problem problem;
};

/* Limits in bytes, of the request line with the header fields, and of the body. */
void http_message_init(struct http_message *m, size_t limit_header, size_t limit_body);
/* Ready for the next message; small buffers are kept, large ones go. */
void http_message_reset(struct http_message *m);
void http_message_free(struct http_message *m);
/* Takes *USED of the LEN bytes. After COMPLETE or FAILED only reset or free are next. */
enum http_result http_message_feed(struct http_message *m, const char *data, size_t len, size_t *used);

const char *http_message_method(const struct http_message *m);
const char *http_message_path(const struct http_message *m);
/* NULL when absent. */
const char *http_message_query(const struct http_message *m, const char *name);
const char *http_message_header(const struct http_message *m, const char *name);

struct http_reply {
	unsigned status;
	const char *type;    /* Content-Type, or NULL */
	const char *headers; /* whole further lines, or NULL */
	const char *date;    /* IMF-fixdate */
	size_t len;	     /* of the body */
	bool keep_alive;
};

/* Status line, header fields and the empty line. */
void http_render_head(struct buf *out, const struct http_reply *reply);
/* Bytes that are not UTF-8 come out as '?'. POINTER may be NULL or "". */
void http_render_problem(struct buf *out, unsigned status, const char *reason, const char *detail,
			 const char *pointer);
const char *http_status_title(unsigned status);
/* No body and no length belong to it (RFC 9110 6.4.1). */
bool http_status_bodiless(unsigned status);
/* RFC 9110 5.6.7, the preferred form alone. 0 or -EINVAL; Unix seconds. */
int http_date_parse(const char *text, int64_t *out);
/* OUT holds 30 bytes. */
void http_date_print(int64_t when, char *out);

#endif
