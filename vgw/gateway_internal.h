/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the gateway*.c files alone. */
#ifndef VGW_GATEWAY_INTERNAL_H
#define VGW_GATEWAY_INTERNAL_H

#include "netcfg/kernel/monitor.h"
#include "netcfg/kernel/neigh.h"
#include "netcfg/kernel/nflog.h"
#include "vgw/checker.h"
#include "vgw/gateway.h"
#include "vgw/host.h"
#include "vgw/model/fight.h"
#include "vgw/model/port_index.h"
#include "vgw/model/status.h"
#include "vgw/prober.h"
#include "vgw/reaper.h"
#include "vgw/store.h"

enum { GATEWAY_DRIFT = 32, GATEWAY_OBJECT = 64 };

/* What has been put back so far, and whether someone keeps changing it. */
struct gateway_dispute {
	char object[GATEWAY_OBJECT]; /* "link wg0", "table inet vgw_agent" */
	struct fight fight;
	/* A link that did not take an MTU, and how it was then: the same is not tried again. */
	uint32_t refused_mtu; /* bytes; 0: none */
	struct rt_link refused_by;
};

struct gateway {
	struct ev_loop *loop;
	const struct config *config;
	struct host host;
	struct store store;
	struct monitor *monitor;
	struct checker *checker;
	struct prober *prober;
	bool probed; /* the prober knows the view */
	struct reaper *reaper;
	struct nflog *nflog; /* NULL: no hints */
	ev_io hints;
	struct neigh *neigh; /* NULL: no hints from there */
	ev_io neighbours;
	ev_io watch[MONITOR_SOCKETS];
	ev_timer soon; /* coalesces what makes a reconciliation due */
	unsigned ticks, deltas;
	ev_timer tick;	/* what no notification tells */
	ev_timer touch; /* the status may have changed */

	/* The accepted spec, and its text as sent. */
	struct spec *spec;
	struct buf text;
	int64_t applied; /* generation that is in the kernel; 0: none */
	bool is_refused;
	struct vgw_err refused; /* the latest spec offered, when it was refused */
	ev_timer confirm;	/* active while the spec waits to be confirmed */
	struct buf before;	/* what is back otherwise; empty: no spec */
	ev_timer again;		/* the spec to start with is tried again */
	struct buf again_text;
	bool again_stored;

	/* The last look, plan and result. */
	struct host_view view; /* arena NULL: none yet */
	struct netstate wanted;
	struct nft_table wanted_table;
	bool in_sync;		  /* the second plan was empty */
	unsigned unsettled;	  /* turns in a row whose second plan was not */
	struct vgw_err apply_err; /* reason "" when all went well */
	struct plan_recorded record;

	struct port_index places; /* in the view's arena */
	bool placed;		  /* they are of the view */

	/* What made the next reconciliation due. */
	bool table_dirty;
	int64_t event_ms; /* of the first event; 0: none */
	char table_by[64], route_by[64];
	struct monitor_links down; /* links that were, since the prober was last told */
	int64_t full_ms;	   /* when everything was last read */

	struct gateway_dispute *disputes;
	size_t n_disputes;
	struct status_drift drift[GATEWAY_DRIFT]; /* oldest first */
	size_t n_drift;

	/* The status. */
	const struct control_server *server;
	int64_t start_ms;		 /* wall clock */
	int64_t wall_ahead_ms;		 /* of the monotonic clock */
	int64_t revision, revision_mark; /* on disk: no revision of before is above it */
	uint64_t substance;		 /* hash of the last one */
	bool touched;
	int64_t updated_ms; /* when the status was last looked at whole */
	struct status_condition conditions[N_CONDITIONS];
	struct buf body; /* the document, as of body_ms */
	int64_t body_ms;
	char boot_id[40], kernel[72];
	void (*on_revision)(void *ctx);
	void *on_revision_ctx;
	struct gateway_metrics *metrics;
};

/*
 * One turn of the loop. LINES (may be NULL) gets what was planned. 0, or the first error of its operations,
 * which is also kept for the status.
 */
int gateway_reconcile(struct gateway *g, struct buf *lines);
/* The same for changed verdicts alone, by the short way. False: nothing was done, or it takes the long way.
 */
bool gateway_delta(struct gateway *g);
/* VIEW (empty: none) is the last look now; what was made from the one before goes with it. */
void gateway_take_view(struct gateway *g, const struct host_view *view);
/* Make one due, MS from now at the latest. */
void gateway_reconcile_soon(struct gateway *g, int64_t ms);
/* Take everything of ours off the host. */
int gateway_remove(struct gateway *g, struct buf *lines, struct vgw_err *err);

/* The spec that waits to be confirmed. */
void gateway_confirm_init(struct gateway *g);
void gateway_confirm_stop(struct gateway *g);

/* Dead backends and their flows: gateway_flows.c. */
int gateway_flows_open(struct gateway *g, struct vgw_err *err);
void gateway_flows_close(struct gateway *g);
/* Reap what is due, now that the rules have sent new flows elsewhere. */
void gateway_flows_reap(struct gateway *g);
/* A link has changed: whoever is behind it is checked now. */
void gateway_flows_hurry(struct gateway *g);

/* What is counted for the metrics alone: gateway_metrics.c. */
int gateway_metrics_open(struct gateway *g);
void gateway_metrics_close(struct gateway *g);
/* N transactions of others touched our table. */
void gateway_metrics_tampered(struct gateway *g, unsigned n);
/* The server is about to go: what it has answered stays counted. */
void gateway_metrics_server_ends(struct gateway *g);

/* The other ends of tunnels: gateway_tunnels.c. */
int gateway_tunnels_open(struct gateway *g, struct vgw_err *err);
void gateway_tunnels_close(struct gateway *g);
/* The prober gets the tunnels as the last look at the host shows them. */
void gateway_tunnels_sync(struct gateway *g);
/* The kernel has answered RC to LINK's new MTU. True when the link is remembered not to take it. */
bool gateway_tunnels_answer(struct gateway *g, const struct rt_link *link, uint32_t mtu, int rc);
/* A spec is to be carried out: every link is worth another try. */
void gateway_tunnels_forget(struct gateway *g);
/* One tunnel's row of the status. */
void gateway_tunnels_fill(struct gateway *g, const struct spec_tunnel *t, struct status_tunnel *out);

/* What someone else changes, and for how long we fight for it: gateway_drift.c. */
struct gateway_dispute *gateway_find_dispute(const struct gateway *g, const char *object);
/* The same, made where there is none; NULL when memory is out. */
struct gateway_dispute *gateway_dispute(struct gateway *g, const char *object);
/* The object an operation is about; false for one that only takes away. */
bool gateway_op_object(const struct plan_op *op, char out[GATEWAY_OBJECT]);
/* Whether what OP is to change was as it asks when we last looked: then someone else has changed it. */
bool gateway_is_drift(const struct gateway *g, const struct plan_op *op, const struct plan *plan);
/* For the status. REPAIRED_AFTER_MS below 0: it is left as it is, contested. */
void gateway_drift_add(struct gateway *g, const char *object, const char *by, int64_t repaired_after_ms);
void gateway_link_object(const char *name, char out[GATEWAY_OBJECT]);
void gateway_route_object(const struct ip_prefix *network, char out[GATEWAY_OBJECT]);

/* What is reported of a backend that its checks have JUDGED: one that the spec drains is draining, unless
 * dead. */
enum health_state gateway_backend_state(const struct spec_backend *b, enum health_state judged);
/* For people: when that was by the wall clock; -1 for what is below 0. The same moment is the same ms each
 * time. */
int64_t gateway_to_wall(const struct gateway *g, int64_t mono_ms);
/* The status may have changed: look at it before the loop turns again. */
void gateway_touch(struct gateway *g);
void gateway_status_init(struct gateway *g);

#endif
