/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running gateway: one level-triggered loop from (spec, verdicts, kernel) to what is wanted, the plan,
 * its carrying out, and a look at what came of it. Everything here happens on the caller's event loop.
 */
#ifndef VGW_GATEWAY_H
#define VGW_GATEWAY_H

#include <ev.h>

#include "vgw/config.h"

struct gateway;

/* Opens the host and the store, alone on this state directory. 0 or -errno with ERR. CONFIG outlives it. */
int gateway_new(struct ev_loop *loop, const struct config *config, struct gateway **out, struct vgw_err *err);
/* Leaves the data plane as it is. NULL is fine. */
void gateway_free(struct gateway *g);

/*
 * Puts the stored spec in force; without one, the file FIRST_SPEC (may be NULL). A spec that is refused is
 * reported (SpecAccepted False) and touches nothing. -errno only where the agent cannot work at all.
 */
int gateway_start(struct gateway *g, const char *first_spec, struct vgw_err *err);

/*
 * A new spec. LINES (may be NULL) gets the plan, a line each. CONFIRM_MS above 0: it is stored only once
 * gateway_confirm() comes; without that the one before is back after so long, or after a restart. -EINVAL
 * refused, -ESTALE, -E2BIG; other -errno: the kernel or the store failed and the old spec is in force again.
 */
int gateway_put(struct gateway *g, const char *text, size_t len, bool dry_run, uint32_t confirm_ms,
		struct buf *lines, int64_t *generation, struct vgw_err *err);
/* Keeps a spec that waits to be confirmed. 0; -ENOENT when none does; -errno with ERR when it cannot be
 * stored. */
int gateway_confirm(struct gateway *g, struct vgw_err *err);
/* Removes exactly what was configured and forgets the spec. */
int gateway_delete(struct gateway *g, struct buf *lines, struct vgw_err *err);
/* The accepted spec as it was sent, or NULL. */
const char *gateway_spec(const struct gateway *g, size_t *len);

/* Called when the revision has moved. */
void gateway_on_revision(struct gateway *g, void (*fn)(void *ctx), void *ctx);
int64_t gateway_revision(struct gateway *g);
/* The status document; valid until the next call or loop turn. */
const char *gateway_status(struct gateway *g, size_t *len);
/* The metrics' text (model/metrics.h); valid until the next call. Empty when memory is out. */
const char *gateway_metrics(struct gateway *g, size_t *len);
/* True when Ready; else REASON gets why. */
bool gateway_ready(struct gateway *g, struct buf *reason);
/* By how many ms the most overdue check is late. */
int64_t gateway_overdue_ms(const struct gateway *g);

/* The control channel's facts for the status: the server's (may be NULL), or why there is none. */
void gateway_set_server(struct gateway *g, const struct control_server *server);
/* Where the control channel listens by default: the gateway address, or the management VM's own, once known.
 */
size_t gateway_listeners(const struct gateway *g, struct ip_endpoint out[2]);

#endif
