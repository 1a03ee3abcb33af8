/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel's listeners: HTTPS with a client certificate, and the same HTTP over a Unix socket with
 * peer credentials. It owns connections, limits, time-outs, TLS and HTTP framing; what a request means is the
 * handler's.
 */
#ifndef VGW_CONTROL_SERVER_H
#define VGW_CONTROL_SERVER_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netcfg/base/buf.h"
#include "netcfg/base/err.h"
#include "netcfg/model/ip.h"

enum control_role { CONTROL_ROLE_NONE, CONTROL_ROLE_READER, CONTROL_ROLE_WRITER };

struct control_client {
	const char *name;
	enum control_role role;
};

/* CONTRACT.md 5. Tests make them smaller. Seconds. Zero means the contract's value. */
struct control_limits {
	unsigned connections;	  /* 64 */
	unsigned handshakes;	  /* 16 unfinished from one address */
	double handshake_timeout; /* 10 */
	double request_timeout;	  /* 10 */
	double idle_timeout;	  /* 60 */
	size_t body;		  /* 16 MiB */
	size_t header;		  /* 8 KiB */
};

struct control_config {
	const struct ip_endpoint
		*listen; /* TCP with TLS; bound with IP_FREEBIND, before the address exists */
	size_t n_listen;
	const char *certificate,
		*key; /* PEM files; re-read when they change (rename), kept when the new pair is bad */
	const char *const *client_ca; /* PEM files */
	size_t n_client_ca;
	const struct control_client *clients;
	size_t n_clients;
	const char *socket;	  /* path of the Unix socket; NULL: none */
	const char *socket_group; /* group that may use it beside root and our own user; NULL: none */
	struct control_limits limits;
};

struct control_server;
struct control_request; /* one request, until it is answered */

/*
 * Called once per complete request of an authorised client (401/403/404-by-framing/408/413/431 and the like
 * are answered by the server itself as application/problem+json). The handler answers with control_reply(),
 * now or later; if the client goes away first, `gone` (see control_request_defer) is called instead.
 */
typedef void control_handler_fn(void *ctx, struct control_request *req);

/* -ENOENT: a certificate, key or CA file is not there yet; reason AddressInUse: another agent, or program.
 * CONFIG is copied. Creates the listeners (a stale socket file is replaced by a new one). 0, or -errno with
 * ERR (reason, place). */
int control_server_new(struct ev_loop *loop, const struct control_config *config, control_handler_fn *handler,
		       void *ctx, struct control_server **out, struct vgw_err *err);
/* Closes everything at once (deferred requests hear `gone`); the socket file is removed. NULL is fine. Not
 * from inside the handler. */
void control_server_free(struct control_server *s);
/* Add listeners later (their address became known). Those that exist stay. 0 or -errno with ERR. */
int control_server_listen(struct control_server *s, const struct ip_endpoint *listen, size_t n,
			  struct vgw_err *err);

typedef void control_staged_fn(void *ctx, bool kept, const struct vgw_err *err);

/*
 * PUT /v1/certificate. Checks the pair (PEM; key, chain, dates, names), uses it for new connections at once,
 * and keeps it, in the files of the configuration, only if a known client shakes hands with it within CONFIRM
 * seconds; else the old pair is back. DONE (may be NULL) is told once which it was: KEPT false with ERR
 * filled means rolled back, or replaced by a later staging. 0, or -errno with ERR (InvalidCertificate).
 */
int control_server_stage_certificate(struct control_server *s, const char *certificate, const char *key,
				     double confirm, control_staged_fn *done, void *ctx, struct vgw_err *err);
/* PUT /v1/client-ca. PEM is one or two certificates. Each CA file of the configuration gets all of it. */
int control_server_set_client_ca(struct control_server *s, const char *pem, struct vgw_err *err);

/* Facts for the status document. */
unsigned control_server_connections(const struct control_server *s);
/* Unix seconds of the current server certificate's notAfter; 0 when there is none. */
int64_t control_server_not_after(const struct control_server *s);
/* Seconds by which the latest client's Date header was ahead of our clock; false when none was ever seen. */
bool control_server_skew(const struct control_server *s, double *seconds);
/* Answers by status code, for metrics: calls FN for each code seen. */
void control_server_counts(const struct control_server *s, void (*fn)(void *ctx, unsigned code, uint64_t n),
			   void *ctx);

/* The request. Strings live as long as the request. */
const char *control_request_method(const struct control_request *req); /* "GET" */
const char *
control_request_path(const struct control_request *req); /* "/v1/status", decoded, without query */
/* Value of a query parameter, decoded; NULL when absent, "" for a bare name. */
const char *control_request_query(const struct control_request *req, const char *name);
/* Value of a header (name in any case), or NULL. */
const char *control_request_header(const struct control_request *req, const char *name);
const char *control_request_body(const struct control_request *req, size_t *len);
enum control_role control_request_role(const struct control_request *req);
/* Who asks: "controller", or "uid 0" on the socket. */
const char *control_request_client(const struct control_request *req);
bool control_request_is_local(const struct control_request *req); /* over the Unix socket */

/* The handler keeps the request to answer it later: GONE(CTX, req) is called if the client goes first; then
 * never answer. */
void control_request_defer(struct control_request *req, void (*gone)(void *ctx, struct control_request *req),
			   void *ctx);

/*
 * Answer and forget the request. BODY is copied. TYPE may be NULL without a body. HEADERS is NULL or further
 * lines "Name: value\r\n". HEAD requests get no body. Content-Length, Date and Connection are added.
 */
void control_reply(struct control_request *req, unsigned status, const char *type, const char *headers,
		   const char *body, size_t len);
/* RFC 9457: type about:blank, title, status, reason, detail and (when not empty and STATUS is 4xx for a spec)
 * pointer. */
void control_reply_problem(struct control_request *req, unsigned status, const char *reason,
			   const char *detail, const char *pointer);

#endif
