/* SPDX-License-Identifier: Apache-2.0 */
/* One check under way, for check.c (its life) and check_stages.c (its work) alone. */
#ifndef VGW_PROBE_CHECK_INTERNAL_H
#define VGW_PROBE_CHECK_INTERNAL_H

#include <ev.h>
#include <mbedtls/ssl.h>
#include <stdbool.h>

#include "netcfg/base/buf.h"
#include "vgw/probe/check.h"
#include "vgw/probe/check_http.h"
#include "vgw/probe/check_tls.h"

enum {
	CHECK_READ_SIZE = 4096,
	CHECK_READ_BUDGET = 64 << 10, /* bytes per wake-up, so that a flooding server delays nobody */
};

struct check {
	struct ev_loop *loop;
	struct ev_io io;
	struct ev_timer timer; /* until the verdict the timeout (or 0: decided at once), then the lingering's
				*/
	check_done_fn *done;   /* NULL once it was called */
	void *ctx;
	struct check_tls *tls;
	const struct spec_check *spec; /* not to be touched once `done` was called */
	struct ip_endpoint target;
	struct ip_addr source, gateway;
	struct check_memory *memory; /* not to be touched once `done` was called; may be NULL */
	double started;
	struct check_result result;
	enum check_stage stage; /* the one that is under way */
	bool decided;		/* `result` is final */

	int fd; /* -1: none */
	int events;
	bool usable;	 /* connected, and nothing has gone wrong with the connection */
	size_t budget;	 /* bytes that may still be read in this wake-up */
	size_t lingered; /* bytes thrown away so far */

	bool has_ssl;
	bool offered;			     /* a session to resume */
	struct check_certificate remembered; /* with the session */
	bool second;			     /* the second connection (check_tls_try_second) */
	mbedtls_ssl_context ssl; /* set up once connected: it is the dear part of a check's memory */
	struct check_http http;
	struct buf request;
	size_t sent;

	struct check *prev, *next; /* in tls->lingering */
	bool listed;
};

/* Forget the TLS state; the connection stays. */
void check_drop_ssl(struct check *c);

/* Have the loop call when one of EVENTS (EV_READ, EV_WRITE; 0: none) is there. */
void check_watch(struct check *c, int events);

/* Go on with the stage under way, and with the next while nothing has to be waited for; maybe `decided`. */
void check_step(struct check *c);

/*
 * Read the rest of the body, decrypted to find its end, and throw it away. True while there may be more of
 * it.
 */
bool check_body_goes_on(struct check *c);

/* Set the verdict. */
void check_decide(struct check *c, enum check_stage stage, enum check_code code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
