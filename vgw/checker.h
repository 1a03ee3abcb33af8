/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every backend and probe of a spec on its own schedule, and keeps their verdicts. */
#ifndef VGW_CHECKER_H
#define VGW_CHECKER_H

#include <ev.h>

#include "vgw/model/health.h"
#include "vgw/model/metrics.h"
#include "vgw/model/spec.h"
#include "vgw/model/wanted.h"

struct checker;

/* What a sample changed. */
enum checker_change {
	CHECKER_REPORT = 1,  /* something that the status shows: a code, a stage */
	CHECKER_VERDICT = 2, /* who may take new flows */
};

/*
 * A check that has not answered for so long, or four times as long as this backend usually takes, is in
 * doubt: the next sample is begun beside it. So a silent backend is found dead after little more than one
 * time-out.
 */
enum { CHECKER_DOUBT_MS = 50, CHECKER_PARALLEL = 4, CHECKER_HURRY_MS = 50 };

struct checker_backend {
	struct health health;
	int64_t checked_ms;	  /* end of the last check (monotonic); 0 before the first */
	bool reap_due;		  /* found dead, and its flows not reaped yet */
	uint64_t flows, counting; /* at the last count; in the running one */
	uint64_t flows_reaped;
};

typedef void checker_changed_fn(void *ctx, unsigned changes);

/* NULL when memory is out. */
struct checker *checker_new(struct ev_loop *loop, checker_changed_fn *changed, void *ctx);
/* Ends all checks. NULL is fine. */
void checker_free(struct checker *c);

/*
 * Check what SPEC names (NULL: nothing) from now on. A backend or probe that was checked the same way before
 * keeps its verdict; for a new backend the row of IN_FORCE (may be NULL, rows too) says whether it starts in
 * rotation. SPEC outlives the next call. 0 or -ENOMEM (then nothing has changed).
 */
int checker_set(struct checker *c, const struct spec *spec, const struct wanted_verdict *const *in_force);

const struct checker_backend *checker_backend(const struct checker *c, size_t frontend, size_t backend);
const struct checker_backend *checker_probe(const struct checker *c, size_t probe);
/* The same, to be changed: flows and reaping are the gateway's. */
struct checker_backend *checker_backend_mutable(struct checker *c, size_t frontend, size_t backend);
/* Something says that this backend may be in trouble: its next check is now. */
void checker_hurry(struct checker *c, size_t frontend, size_t backend);
/* The same of all that are checked at ADDRESS, one a millisecond: thousands of frontends may share a host. */
void checker_hurry_address(struct checker *c, const struct ip_addr *address);
/* For wanted.h; valid until the next sample or checker_set. */
const struct wanted_verdict *const *checker_verdicts(const struct checker *c);
/*
 * The frontends whose verdicts have changed since the last call, at most MAX of them in OUT; their number,
 * which may be more than MAX.
 */
size_t checker_take_changed(struct checker *c, size_t *out, size_t max);
/* How long the checks took that have ended since the start: those that were overtaken are left out. */
const struct metrics_histogram *checker_seconds(const struct checker *c);
/*
 * By how many ms the most overdue check is late: for the watchdog. Where more is due than this host can do,
 * those that wait for their turn are as late as the last turn is ago: a restart would not help them.
 */
int64_t checker_overdue_ms(const struct checker *c, int64_t now_ms);

#endif
