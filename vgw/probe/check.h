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

/* Things all checks of a process share: TLS configuration and random numbers. NULL when memory is out. */
struct check_tls *check_tls_new(void);
void check_tls_free(struct check_tls *t);

struct check_params {
	struct ip_endpoint target;
	const struct spec_check *spec; /* outlives the check */
	struct ip_addr source;	/* bind to it (with IP_FREEBIND off); family IP_NONE: the kernel's choice */
	struct ip_addr gateway; /* looked for in the SANs (raw iPAddress entries, RFC 5280 4.2.1.6) */
	struct check_tls *tls;
};

/* Called exactly once, from the loop (never from check_start), unless cancelled. The check is gone
 * afterwards. */
typedef void check_done_fn(void *ctx, const struct check_result *result);

/* NULL only when memory or descriptors are out: then nothing is called. */
struct check *check_start(struct ev_loop *loop, const struct check_params *params, check_done_fn *done,
			  void *ctx);
/* NULL is fine. */
void check_cancel(struct check *c);

#endif
