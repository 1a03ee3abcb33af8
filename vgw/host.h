/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host, as one thing to observe, plan against and change: the netlink sockets, and what a spec needs to
 * know of it. Used by the running gateway and by the verbs that work without one.
 */
#ifndef VGW_HOST_H
#define VGW_HOST_H

#include "netcfg/kernel/apply.h"
#include "vgw/config.h"
#include "vgw/model/rules.h"
#include "vgw/model/wanted.h"

/* What is measured of one tunnel of the spec; false when nothing is. */
typedef bool host_measured_fn(void *ctx, const struct spec_tunnel *tunnel, struct wanted_tunnel *out);

/* The MTU that the kernel has refused to this very link, as it is now; 0: none. */
typedef uint32_t host_refused_fn(void *ctx, const struct rt_link *link);

struct host {
	struct nft *nft;
	struct rt *rt;
	struct nft_features features;
	const struct config *config;
	host_measured_fn *measured; /* NULL: nobody measures */
	host_refused_fn *refused;   /* NULL: nothing is remembered */
	void *tunnels_ctx;	    /* of both */
};

/* One look at the host, all in one arena. */
struct host_view {
	struct arena *arena;
	struct rt_host rt;
	struct plan_observed observed;
	struct wanted_host facts;
	struct rules_host rules;
};

/* 0 or -errno with ERR. NULL sockets afterwards on failure. */
int host_open(struct host *h, const struct config *config, struct vgw_err *err);
void host_close(struct host *h);

/*
 * Observes everything that SPEC (may be NULL) and RECORD are about. TABLE: a table observed before and known
 * to be unchanged, or NULL to read it.
 */
int host_look(struct host *h, const struct spec *spec, const struct plan_recorded *record,
	      const struct nft_table *table, struct host_view *out, struct vgw_err *err);
void host_view_free(struct host_view *v);

/* (spec, verdicts, view) → wanted state and plan, in the view's arena. */
int host_plan(const struct host *h, const struct spec *spec, const struct wanted_verdict *const *verdicts,
	      const struct plan_recorded *record, struct host_view *view, struct netstate *wanted,
	      struct plan *plan, struct vgw_err *err);

/*
 * Takes everything of ours off the host, as RECORD has it. DONE is told each line that was carried out. 0, or
 * -errno with the first failure in ERR; the others were tried all the same.
 */
int host_remove(struct host *h, const struct plan_recorded *record, void (*done)(void *ctx, const char *line),
		void *ctx, struct vgw_err *err);

/*
 * The verdicts that the table holds: a backend that PREVIOUS (the spec behind the table, may be NULL) let
 * take flows, and that is outside the slots of its service, is out of rotation. A row for each frontend of
 * SPEC in ARENA; NULL rows for services that are not there. 0 or -ENOMEM.
 */
int host_verdicts(const struct spec *spec, const struct spec *previous, const struct host_view *view,
		  struct arena *arena, const struct wanted_verdict *const **out);

#endif
