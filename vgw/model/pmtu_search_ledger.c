/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/pmtu_search_internal.h"

#include <string.h>

enum {
	MIN_SLACK_US = 15000, /* over the round trip: what a busy host may take for an answer */
	MAX_TIMEOUT_US = 3000000,
	MIN_PROOF = 4, /* losses of the size above the result */
	MAX_PROOF = 40,
};

/* Chance may mislead once in a million searches. */
static const double DOUBT = 1e-6;

/* -- the queue of packets to send -- */

bool pmtu_queued(const struct pmtu_search *s, uint32_t size)
{
	for (size_t i = 0; i < s->n_queue; i++)
		if (s->queue[i] == size)
			return true;
	return false;
}

void pmtu_enqueue(struct pmtu_search *s, uint32_t size)
{
	if (s->n_queue < PMTU_SEARCH_QUEUE)
		s->queue[s->n_queue++] = size;
}

void pmtu_enqueue_first(struct pmtu_search *s, uint32_t size)
{
	if (s->n_queue == PMTU_SEARCH_QUEUE)
		s->n_queue--;
	memmove(s->queue + 1, s->queue, s->n_queue * sizeof(s->queue[0]));
	s->queue[0] = size;
	s->n_queue++;
}

/* Keeps the sizes FROM to TO. */
void pmtu_thin_queue(struct pmtu_search *s, uint32_t from, uint32_t to)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_queue; i++)
		if (s->queue[i] >= from && s->queue[i] <= to)
			s->queue[n++] = s->queue[i];
	s->n_queue = n;
}

/* -- the losses -- */

void pmtu_drop_loss(struct pmtu_search *s, size_t i)
{
	memmove(s->lost + i, s->lost + i + 1, (s->n_lost - i - 1) * sizeof(s->lost[0]));
	s->n_lost--;
}

void pmtu_add_loss(struct pmtu_search *s, uint32_t size)
{
	size_t i = 0;

	while (i < s->n_lost && s->lost[i].size < size)
		i++;
	if (i < s->n_lost && s->lost[i].size == size) {
		s->lost[i].n++;
		return;
	}
	if (s->n_lost == PMTU_SEARCH_LOSSES) {
		if (i == s->n_lost)
			return; /* the largest is needed least */
		s->n_lost--;
	}
	memmove(s->lost + i + 1, s->lost + i, (s->n_lost - i) * sizeof(s->lost[0]));
	s->lost[i].size = size;
	s->lost[i].n = 1;
	s->n_lost++;
}

/* How often one that fits is lost: (lost + 2) / (all + 4), which errs upwards (Agresti and Coull). */
static double loss_bound(const struct pmtu_search *s)
{
	return ((double)s->fit_lost + 2) / ((double)s->fit + 4);
}

/* So many losses of one size are no chance. */
uint32_t pmtu_proof_needed(const struct pmtu_search *s)
{
	double one = loss_bound(s), all = 1;
	uint32_t n = 0;

	while (n < MAX_PROOF && (n < MIN_PROOF || all > DOUBT)) {
		all *= one;
		n++;
	}
	return n;
}

/* -- packets whose fate is open -- */

int64_t pmtu_timeout_us(const struct pmtu_search *s)
{
	return min_i64(s->srtt_us + max_i64(4 * s->rttvar_us, MIN_SLACK_US), MAX_TIMEOUT_US);
}

struct pmtu_search_flight *pmtu_find_flight(struct pmtu_search *s, uint32_t id)
{
	for (size_t i = 0; i < s->n_flight; i++)
		if (s->flight[i].id == id)
			return &s->flight[i];
	return NULL;
}

void pmtu_land(struct pmtu_search *s, struct pmtu_search_flight *f)
{
	*f = s->flight[--s->n_flight];
}

/* Room for one more: the oldest goes, of those that are over if there are any. */
void pmtu_make_room(struct pmtu_search *s)
{
	struct pmtu_search_flight *oldest = &s->flight[0];

	if (s->n_flight < PMTU_SEARCH_FLIGHT)
		return;
	for (size_t i = 1; i < s->n_flight; i++) {
		struct pmtu_search_flight *f = &s->flight[i];

		if (f->over != oldest->over ? f->over : f->sent_us < oldest->sent_us)
			oldest = f;
	}
	pmtu_land(s, oldest);
}

/* Before the first reply nobody knows how long to wait. */
void pmtu_expire(struct pmtu_search *s, int64_t now)
{
	int64_t timeout = pmtu_timeout_us(s);

	if (!s->low)
		return;
	for (size_t i = 0; i < s->n_flight; i++) {
		struct pmtu_search_flight *f = &s->flight[i];

		if (f->over || now - f->sent_us < timeout)
			continue;
		f->over = true;
		if (f->size > s->low) {
			pmtu_add_loss(s, f->size);
		} else {
			s->fit++;
			s->fit_lost++;
			f->counted_lost = true;
		}
	}
}

/* Nothing that is still under way matters for the next step. */
bool pmtu_settled(const struct pmtu_search *s)
{
	if (!s->low || s->n_queue)
		return false;
	for (size_t i = 0; i < s->n_flight; i++) {
		const struct pmtu_search_flight *f = &s->flight[i];

		if (!f->over && (f->size > s->low || (s->verifying && !s->heard_tail)))
			return false;
	}
	return true;
}
