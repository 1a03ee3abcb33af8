/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by checker.c (what is checked) and checker_turn.c (when, and what comes of it) alone. */
#ifndef VGW_CHECKER_INTERNAL_H
#define VGW_CHECKER_INTERNAL_H

#include <sys/queue.h>

#include "vgw/checker.h"
#include "vgw/probe/check.h"

/* One check under way. */
struct attempt {
	struct target *target;
	struct check *check;
	int64_t started_ms;
	unsigned turn; /* of the loop, when it started */
	int weight;    /* 0: not in the checker's list */
	LIST_ENTRY(attempt) of_target;
	TAILQ_ENTRY(attempt) of_checker;
};

/* One thing that is checked. */
struct target {
	struct checker_backend state;
	struct ip_endpoint at; /* the backend; its checks may go to another port */
	struct checker *checker;
	const char *group, *name; /* the frontend's name and "": a backend; "" and the probe's name */
	struct check_params params;
	struct check_memory memory;
	struct wanted_verdict *verdict; /* NULL for a probe */
	size_t frontend;
	LIST_HEAD(, attempt) attempts; /* at most CHECKER_PARALLEL; the latest first */
	unsigned n_attempts;
	ev_timer timer;
	bool urgent;  /* so is the check that TIMER is for */
	bool waiting; /* in one of the queues: TIMER has run out */
	TAILQ_ENTRY(target) queue;
	int64_t started_ms, due_ms; /* of the latest attempt; of the next */
	double usual_ms;	    /* what a check of it takes, smoothed */
};

TAILQ_HEAD(checker_queue, target);

struct checker {
	struct ev_loop *loop;
	checker_changed_fn *changed;
	void *ctx;
	struct check_tls *tls;
	const struct spec *spec;
	struct target *targets; /* backends frontend by frontend, then probes */
	size_t n_targets;
	size_t *first;		    /* of each frontend, and of the probes */
	struct target **by_address; /* NULL until someone looks */
	struct wanted_verdict *verdicts;
	const struct wanted_verdict **rows;
	bool *changed_frontends; /* their verdicts, since checker_take_changed() */
	size_t n_changed;
	bool starved;			/* said so already */
	struct checker_queue queues[2]; /* of those that are due, longest due first; [1]: the urgent ones */
	bool was_urgent;
	TAILQ_HEAD(, attempt) weighed; /* checks under way that may soon have work for us, oldest first */
	int weight;
	ev_timer turn;	   /* when the queues are looked at next; active while somebody waits */
	int64_t served_ms; /* when the queues last moved */
	int64_t said_ms;   /* when it was last said that all are late */
	struct metrics_histogram seconds;
};

/* In checker_turn.c. */

/* The queues are empty, and their turn is prepared. */
void checker_turn_init(struct checker *c);
/* T's next check is due DELAY_MS from now (negative: so long ago), and goes before others if it is URGENT. */
void target_schedule(struct target *t, int64_t delay_ms, bool urgent);
void target_update_verdict(struct target *t);
static inline bool target_is_running(const struct target *t)
{
	return t->n_attempts > 0;
}
/* Its checks that began before MS (monotonic) are given up. */
void target_cancel_before(struct target *t, int64_t ms);
/* For ev_timer_init(). */
void target_due(struct ev_loop *loop, ev_timer *w, int revents);

#endif
