/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/endpoints.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/model/json_reader.h"
#include "vgw/model/json_writer.h"
#include "vgw/model/metrics.h"
#include "vgw/model/spec.h"

/* The longest a poll may wait: below the connection's own idle time. */
enum { WAIT_MAX_MS = 60000 };
enum { CERTIFICATE_CONFIRM_MS = 60000, UPLOAD_MAX_BYTES = 1 << 18, TRIM_BYTES = 1 << 18 };

/* A status request that waits for the revision to pass one. */
struct waiter {
	struct waiter *next;
	struct endpoints *e;
	struct control_request *req;
	ev_timer timer;
};

struct endpoints {
	struct ev_loop *loop;
	struct gateway *g;
	struct control_server *server; /* NULL: no TLS listener */
	struct waiter *waiters;
};

static void reply_status(struct endpoints *e, struct control_request *req)
{
	const char *if_none_match = control_request_header(req, "If-None-Match");
	int64_t revision = gateway_revision(e->g);
	char etag[32], headers[96];
	const char *body;
	size_t len;

	snprintf(etag, sizeof(etag), "\"%" PRId64 "\"", revision);
	snprintf(headers, sizeof(headers), "ETag: %s\r\nCache-Control: no-cache\r\n", etag);
	if (if_none_match && (strstr(if_none_match, etag) || !strcmp(if_none_match, "*"))) {
		control_reply(req, 304, NULL, headers, NULL, 0);
		return;
	}
	body = gateway_status(e->g, &len);
	if (!len)
		control_reply_problem(req, 500, "OutOfMemory", "the status cannot be written", NULL);
	else
		control_reply(req, 200, "application/json", headers, body, len);
}

/* Takes it off the list; its request is then answered, or gone. */
static void waiter_remove(struct waiter *w)
{
	struct waiter **at = &w->e->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	ev_timer_stop(w->e->loop, &w->timer);
	free(w);
}

static void waiter_answer(struct waiter *w)
{
	struct endpoints *e = w->e;
	struct control_request *req = w->req;

	waiter_remove(w);
	reply_status(e, req);
}

static void on_waited(struct ev_loop *loop, ev_timer *t, int revents)
{
	waiter_answer(t->data);
}

static void on_gone(void *ctx, struct control_request *req)
{
	waiter_remove(ctx);
}

static void on_revision(void *ctx)
{
	struct endpoints *e = ctx;

	/* All that wait, wait for any revision beyond the one they know. */
	while (e->waiters)
		waiter_answer(e->waiters);
}

static void wait_for_revision(struct endpoints *e, struct control_request *req, uint32_t wait_ms)
{
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w) {
		reply_status(e, req);
		return;
	}
	w->e = e;
	w->req = req;
	w->next = e->waiters;
	e->waiters = w;
	ev_timer_init(&w->timer, on_waited, wait_ms / 1000.0, 0);
	w->timer.data = w;
	ev_timer_start(e->loop, &w->timer);
	control_request_defer(req, on_gone, w);
}

static void get_status(struct endpoints *e, struct control_request *req)
{
	const char *since = control_request_query(req, "since"), *wait = control_request_query(req, "wait");
	uint32_t wait_ms = 0;
	long long revision = 0;
	char *end = NULL;

	if (since) {
		errno = 0;
		revision = strtoll(since, &end, 10);
		if (errno || end == since || *end || revision < 0) {
			control_reply_problem(req, 400, "BadRequest", "since is not a revision", NULL);
			return;
		}
	}
	if (wait && spec_duration_parse(wait, &wait_ms) < 0) {
		control_reply_problem(req, 400, "BadRequest", "wait is not a duration such as 30s", NULL);
		return;
	}
	if (wait_ms > WAIT_MAX_MS)
		wait_ms = WAIT_MAX_MS;
	/* Beyond our revision: of another life of the agent, or made up. Nothing to wait for. */
	if (since && wait_ms && revision == gateway_revision(e->g))
		wait_for_revision(e, req, wait_ms);
	else
		reply_status(e, req);
}

static void get_spec(struct endpoints *e, struct control_request *req)
{
	size_t len;
	const char *text = gateway_spec(e->g, &len);

	if (text)
		control_reply(req, 200, "application/json", NULL, text, len);
	else
		control_reply_problem(req, 404, "NoSpec", "no spec has been accepted", NULL);
}

/* {generation, revision, plan: [lines]} */
static void reply_plan(struct endpoints *e, struct control_request *req, int64_t generation,
		       struct buf *lines)
{
	struct buf body = {0};
	char *line, *save = NULL;

	json_put_open(&body, NULL, "{");
	json_put_int(&body, "generation", generation);
	json_put_int(&body, "revision", gateway_revision(e->g));
	json_put_open(&body, "plan", "[");
	if (lines->len)
		for (line = strtok_r(lines->data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			json_put_string(&body, NULL, line);
	buf_puts(&body, "]}");
	control_reply(req, 200, "application/json", NULL, buf_str(&body), body.len);
	buf_free(&body);
}

static unsigned failure_status(int rc)
{
	switch (rc) {
	case -EINVAL:
		return 422;
	case -ESTALE:
		return 409;
	case -E2BIG:
		return 413;
	default:
		return 500;
	}
}

static bool query_true(const struct control_request *req, const char *name, bool *bad)
{
	const char *v = control_request_query(req, name);

	*bad = v && *v && strcmp(v, "true") && strcmp(v, "false");
	return v && strcmp(v, "false");
}

static void put_spec(struct endpoints *e, struct control_request *req)
{
	struct vgw_err err = {0};
	struct buf lines = {0};
	int64_t generation = 0;
	bool bad, dry_run = query_true(req, "dryRun", &bad);
	size_t len;
	const char *text = control_request_body(req, &len), *confirm = control_request_query(req, "confirm");
	uint32_t confirm_ms = 0;
	int rc;

	if (bad) {
		control_reply_problem(req, 400, "BadRequest", "dryRun is not true or false", NULL);
		return;
	}
	if (confirm && (spec_duration_parse(confirm, &confirm_ms) < 0 || !confirm_ms)) {
		control_reply_problem(req, 400, "BadRequest", "confirm is not a duration such as 30s", NULL);
		return;
	}
	rc = gateway_put(e->g, text, len, dry_run, confirm_ms, &lines, &generation, &err);
	/* A large spec leaves many MiB of free memory behind, which the C library would keep. */
	if (len > TRIM_BYTES)
		malloc_trim(0);
	if (rc) {
		log_warning("control: %s: spec refused: %s: %s (%s)", control_request_client(req), err.reason,
			    err.text, err.where);
		control_reply_problem(req, failure_status(rc), err.reason, err.text, err.where);
	} else {
		if (!dry_run)
			log_info("control: %s: spec generation %" PRId64 " accepted",
				 control_request_client(req), generation);
		reply_plan(e, req, generation, &lines);
	}
	buf_free(&lines);
}

static void post_confirm(struct endpoints *e, struct control_request *req)
{
	struct vgw_err err = {0};
	int rc = gateway_confirm(e->g, &err);

	if (rc) {
		control_reply_problem(req, rc == -ENOENT ? 409 : 500, err.reason, err.text, err.where);
		return;
	}
	log_info("control: %s: spec confirmed", control_request_client(req));
	control_reply(req, 200, "application/json", NULL, "{}", 2);
}

static void delete_spec(struct endpoints *e, struct control_request *req)
{
	struct vgw_err err = {0};
	struct buf lines = {0};

	if (gateway_delete(e->g, &lines, &err)) {
		log_error("control: %s: delete failed: %s: %s", control_request_client(req), err.reason,
			  err.text);
		control_reply_problem(req, 500, err.reason, err.text, err.where);
	} else {
		log_info("control: %s: spec deleted", control_request_client(req));
		reply_plan(e, req, 0, &lines);
	}
	buf_free(&lines);
}

static void reply_failure(struct control_request *req, int rc, const struct vgw_err *err)
{
	log_warning("control: %s: %s: %s", control_request_client(req), err->reason, err->text);
	control_reply_problem(req, rc == -EINVAL ? 422 : 500, err->reason, err->text, NULL);
}

static void on_staged(void *ctx, bool kept, const struct vgw_err *err)
{
	if (kept)
		log_info("control: the new certificate is kept");
	else
		log_warning("control: the new certificate is rolled back: %s: %s", err->reason, err->text);
}

/* {"certificate", "key"}: in use at once, kept after a handshake with it within `confirm`. */
static void put_certificate(struct endpoints *e, struct control_request *req)
{
	enum { CERTIFICATE, KEY, N };
	static const char *const names[N] = {"certificate", "key"};
	const char *confirm = control_request_query(req, "confirm");
	uint32_t confirm_ms = CERTIFICATE_CONFIRM_MS;
	struct json_value root, m[N];
	struct json_reader r;
	struct vgw_err err = {0};
	size_t len;
	const char *text = control_request_body(req, &len);
	int rc;

	if (confirm && (spec_duration_parse(confirm, &confirm_ms) < 0 || !confirm_ms)) {
		control_reply_problem(req, 400, "BadRequest", "confirm is not a duration such as 30s", NULL);
		return;
	}
	json_open(&r, "InvalidCertificate", text, len, UPLOAD_MAX_BYTES, &err);
	root = json_root(&r);
	json_members(&root, names, N, m);
	json_require(&m[CERTIFICATE]);
	json_require(&m[KEY]);
	rc = r.rc;
	if (!rc && !e->server)
		rc = vgw_err_set(&err, -EINVAL, "NoCertificate", NULL, "this agent has no TLS listener");
	if (!rc)
		rc = control_server_stage_certificate(e->server, json_string(&m[CERTIFICATE], ""),
						      json_string(&m[KEY], ""), confirm_ms / 1000.0,
						      on_staged, e, &err);
	json_close(&r);
	if (rc)
		reply_failure(req, rc, &err);
	else
		control_reply(req, 200, "application/json", NULL, "{}", 2);
}

/* One or two certificates, as PEM. */
static void put_client_ca(struct endpoints *e, struct control_request *req)
{
	struct vgw_err err = {0};
	struct buf pem = {0};
	size_t len;
	const char *text = control_request_body(req, &len);
	int rc;

	buf_append(&pem, text, len > UPLOAD_MAX_BYTES ? 0 : len);
	if (!e->server)
		rc = vgw_err_set(&err, -EINVAL, "NoCertificate", NULL, "this agent has no TLS listener");
	else
		rc = control_server_set_client_ca(e->server, buf_str(&pem), &err);
	buf_free(&pem);
	if (rc)
		reply_failure(req, rc, &err);
	else
		control_reply(req, 200, "application/json", NULL, "{}", 2);
}

static void get_metrics(struct endpoints *e, struct control_request *req)
{
	size_t len;
	const char *text = gateway_metrics(e->g, &len);

	if (!len)
		control_reply_problem(req, 500, "OutOfMemory", "the metrics cannot be written", NULL);
	else
		control_reply(req, 200, METRICS_TYPE, NULL, text, len);
}

static void get_livez(struct endpoints *e, struct control_request *req)
{
	control_reply(req, 200, "text/plain", NULL, "ok", 2);
}

static void get_readyz(struct endpoints *e, struct control_request *req)
{
	struct buf reason = {0};

	if (gateway_ready(e->g, &reason))
		control_reply(req, 200, "text/plain", NULL, "ok", 2);
	else
		control_reply(req, 503, "text/plain", NULL, buf_str(&reason), reason.len);
	buf_free(&reason);
}

static const struct endpoint {
	const char *path, *method;
	void (*handle)(struct endpoints *e, struct control_request *req);
} table[] = {
	{"/v1/status", "GET", get_status},
	{"/v1/spec", "GET", get_spec},
	{"/v1/spec", "PUT", put_spec},
	{"/v1/spec", "DELETE", delete_spec},
	{"/v1/spec/confirm", "POST", post_confirm},
	{"/v1/certificate", "PUT", put_certificate},
	{"/v1/client-ca", "PUT", put_client_ca},
	{"/metrics", "GET", get_metrics},
	{"/livez", "GET", get_livez},
	{"/readyz", "GET", get_readyz},
};

void endpoints_handle(void *ctx, struct control_request *req)
{
	const char *method = control_request_method(req), *path = control_request_path(req);
	struct endpoints *e = ctx;
	struct buf allow = {0};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i].path, path))
			continue;
		if (!strcmp(table[i].method, method) ||
		    (!strcmp(method, "HEAD") && !strcmp(table[i].method, "GET"))) {
			buf_free(&allow);
			table[i].handle(e, req);
			return;
		}
		buf_printf(&allow, "%s%s", allow.len ? ", " : "", table[i].method);
	}
	if (allow.len)
		control_reply_problem(req, 405, "MethodNotAllowed", buf_str(&allow), NULL);
	else
		control_reply_problem(req, 404, "NotFound", "there is nothing at this path", NULL);
	buf_free(&allow);
}

struct endpoints *endpoints_new(struct ev_loop *loop, struct gateway *g)
{
	struct endpoints *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->loop = loop;
	e->g = g;
	gateway_on_revision(g, on_revision, e);
	return e;
}

void endpoints_free(struct endpoints *e)
{
	if (!e)
		return;
	gateway_on_revision(e->g, NULL, NULL);
	free(e);
}

void endpoints_set_server(struct endpoints *e, struct control_server *server)
{
	e->server = server;
}
