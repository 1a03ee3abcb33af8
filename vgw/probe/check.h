/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One health check: route, connect, TLS handshake, a real GET and close_notify, none of it blocking, on the
 * caller's event loop. The timeout covers the whole check.
 */
#ifndef VGW_PROBE_CHECK_H
#define VGW_PROBE_CHECK_H

#include <ev.h>

#include "netcfg/model/ip.h"
#include "vgw/model/health.h"
#include "vgw/model/spec.h"

struct check;

/*
 * Things all checks of a process share: TLS configuration, parsed CAs, and the connections that are being
 * closed. NULL when memory is out.
 */
struct check_tls *check_tls_new(void);
/* NULL is fine. After the last check and before the loop is destroyed. */
void check_tls_free(struct check_tls *t);

/*
 * What is remembered of one server from check to check. A handshake that resumes the last whole one costs a
 * tenth of the computing at both ends; it shows no certificate, so what the whole one showed goes on to be
 * reported. Each minute, after every failure and from the moment on when a certificate of the chain that was
 * verified is no longer valid, the handshake is a whole one again. Zeroes: nothing; 300 to 500 bytes.
 */
struct check_memory {
	unsigned char *session; /* as mbedTLS saves it, without the certificate; a secret */
	size_t len;
	int64_t until_ms;   /* monotonic */
	int64_t good_until; /* Unix seconds */
	struct check_certificate certificate;
};

/* Wipes and frees; M is zeroes again. */
void check_memory_forget(struct check_memory *m);

struct check_params {
	struct ip_endpoint target;
	const struct spec_check *spec; /* outlives the check */
	struct ip_addr source;	/* bind to it (with IP_FREEBIND off); family IP_NONE: the kernel's choice */
	struct ip_addr gateway; /* looked for in the SANs (raw iPAddress entries, RFC 5280 4.2.1.6); family
				   IP_NONE: nothing is looked for */
	struct check_tls *tls;	/* may be NULL for the types tcp and none */
	struct check_memory *memory; /* outlives the check; NULL: every handshake is a whole one */
};

/* Called exactly once, from the loop (never from check_start), unless cancelled. The check is gone
 * afterwards. */
typedef void check_done_fn(void *ctx, const struct check_result *result);

/*
 * NULL only when memory, descriptors or local ports are out: then nothing is called.
 *
 * Without `ca` the certificate decides nothing and is only reported. The connection is closed in the
 * background, within a second after the verdict, so that the server sees a proper end and is, where it can
 * be, the one that hangs up.
 */
struct check *check_start(struct ev_loop *loop, const struct check_params *params, check_done_fn *done,
			  void *ctx);
/* Closes and frees everything at once. NULL is fine; a check that has called `done` is not. */
void check_cancel(struct check *c);

#endif
