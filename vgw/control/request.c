/* SPDX-License-Identifier: Apache-2.0 */
/* From a complete message to the handler, and from its answer back to the connection. */
#include "vgw/control/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct conn *conn_of(struct control_request *req)
{
	return (struct conn *)((char *)req - offsetof(struct conn, request));
}

static const struct conn *const_conn_of(const struct control_request *req)
{
	return (const struct conn *)((const char *)req - offsetof(struct conn, request));
}

const char *control_request_method(const struct control_request *req)
{
	return http_message_method(&req->message);
}

const char *control_request_path(const struct control_request *req)
{
	return http_message_path(&req->message);
}

const char *control_request_query(const struct control_request *req, const char *name)
{
	return http_message_query(&req->message, name);
}

const char *control_request_header(const struct control_request *req, const char *name)
{
	return http_message_header(&req->message, name);
}

const char *control_request_body(const struct control_request *req, size_t *len)
{
	*len = req->message.body.len;
	return buf_str(&req->message.body);
}

enum control_role control_request_role(const struct control_request *req)
{
	return const_conn_of(req)->role;
}

const char *control_request_client(const struct control_request *req)
{
	return const_conn_of(req)->client;
}

bool control_request_is_local(const struct control_request *req)
{
	return const_conn_of(req)->local;
}

void control_request_defer(struct control_request *req, void (*gone)(void *ctx, struct control_request *req),
			   void *ctx)
{
	req->deferred = true;
	req->gone = gone;
	req->gone_ctx = ctx;
}

/* Status 0: it may. */
static struct http_problem judge(const struct conn *c)
{
	const char *method = http_message_method(&c->request.message);

	if (c->role == CONTROL_ROLE_NONE)
		return (struct http_problem){403, "Forbidden",
					     c->local ? "this user may not use the control socket"
						      : "the certificate names no client that is known here"};
	if (c->role == CONTROL_ROLE_READER && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return (struct http_problem){403, "Forbidden", "a reader may only read"};
	return (struct http_problem){0};
}

/* Who may not ask need not send a body: the refusal comes first, and ends the connection. */
void request_on_head(void *ctx, struct http_problem *problem)
{
	struct conn *c = ctx;
	struct http_message *m = &c->request.message;

	if (m->has_body)
		*problem = judge(c);
	if (!problem->status && m->expect_continue)
		buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

static void note_skew(struct conn *c)
{
	const char *date = http_message_header(&c->request.message, "date");
	struct timespec now;
	int64_t when;

	if (!date || http_date_parse(date, &when))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	c->server->has_skew = true;
	c->server->skew = (double)(when - now.tv_sec) - (double)now.tv_nsec / 1e9;
	/* The header has whole seconds, cut off: inside the second it names there is no skew to be seen. */
	if (c->server->skew > -1 && c->server->skew <= 0)
		c->server->skew = 0;
}

void request_dispatch(struct conn *c)
{
	struct control_request *req = &c->request;
	struct http_problem problem = judge(c);

	c->state = CONN_HANDLING;
	c->closing = !req->message.keep_alive;
	req->deferred = false;
	req->gone = NULL;
	if (problem.status) {
		control_reply_problem(req, problem.status, problem.reason, problem.detail, NULL);
		return;
	}
	note_skew(c);
	c->server->handler(c->server->ctx, req);
	if (c->state == CONN_HANDLING && !req->deferred)
		control_reply_problem(req, 500, "InternalError", "the request was left without an answer",
				      NULL);
}

void request_refuse(struct conn *c, const struct http_problem *problem)
{
	c->closing = true;
	control_reply_problem(&c->request, problem->status, problem->reason, problem->detail, NULL);
}

void control_reply(struct control_request *req, unsigned status, const char *type, const char *headers,
		   const char *body, size_t len)
{
	struct conn *c = conn_of(req);
	struct control_server *s = c->server;
	struct http_reply reply = {
		.status = status,
		.type = type,
		.headers = headers,
		.date = server_date(s),
		.len = len,
		.keep_alive = !c->closing,
	};

	/* A second answer to one request would be taken for that to the next. */
	if (c->state == CONN_WRITING || c->state == CONN_LINGER)
		return;
	http_render_head(&c->out, &reply);
	if (strcmp(http_message_method(&req->message), "HEAD") != 0 && !http_status_bodiless(status))
		buf_append(&c->out, body, len);
	server_count(s, status);
	if (c->out.failed) { /* half an answer is none */
		buf_free(&c->out);
		c->out_pos = 0;
		c->closing = true;
	}
	c->state = CONN_WRITING;
	c->deadline = 0;
	c->write_deadline = ev_now(s->loop) + s->limits.idle_timeout;
	/* Outside its own turn the connection is only woken: the caller may be another connection's handler.
	 */
	if (!c->running)
		conn_wake(c);
}

void control_reply_problem(struct control_request *req, unsigned status, const char *reason,
			   const char *detail, const char *pointer)
{
	struct buf body = {0};

	http_render_problem(&body, status, reason, detail, pointer);
	if (body.failed)
		control_reply(req, 503, NULL, NULL, NULL, 0);
	else
		control_reply(req, status, "application/problem+json", NULL, body.data, body.len);
	buf_free(&body);
}
