/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/pmtu_search_internal.h"

#include <string.h>

enum {
	GAP_US = 500,		/* between two packets: a full fan of 1500 bytes is 24 Mbit/s for 8 ms */
	VERIFY_GAP_US = 1000,	/* independent losses are some time apart */
	MAX_GAP_US = 250000,	/* where the other side answers only so often */
	KNOCK_US = 200000,	/* then twice as long each time, */
	MAX_KNOCK_US = 800000,	/* up to this, */
	SILENCE_US = 3000000,	/* and for so long altogether */
	DEADLINE_US = 20000000, /* for everything */
	MAX_SENT = 2000,
	MAX_VOIDS = 8,
};

const char *pmtu_verdict_name(enum pmtu_verdict v)
{
	switch (v) {
	case PMTU_UNKNOWN:
		return "Unknown";
	case PMTU_WORKING:
		return "Working";
	case PMTU_BLACK_HOLE:
		return "BlackHole";
	}
	return "Unknown";
}

/* -- what to do next -- */

static void finish(struct pmtu_search *s, enum pmtu_search_state state, int64_t now)
{
	s->state = state;
	s->ended_us = now;
	s->n_queue = 0;
}

/* Up to a fan of sizes between LOW and HIGH, both excluded, in equal steps. */
static void spread(struct pmtu_search *s, uint32_t low, uint32_t high)
{
	uint32_t room = high - low - 1;
	uint32_t n = min_u32(room, PMTU_SEARCH_FAN);

	for (uint32_t i = 1; i <= n; i++)
		pmtu_enqueue(s, n == room ? low + i : low + (uint32_t)((uint64_t)(high - low) * i / (n + 1)));
}

/*
 * The floor first, for the round trip, then the largest, as most paths carry it. The last known value makes
 * the fan unnecessary. The floor again later: a single loss must not cost a knock.
 */
static void plan_first(struct pmtu_search *s)
{
	uint32_t expected = s->params.expected, floor = s->params.floor;

	s->rounds++;
	s->n_queue = 0;
	pmtu_enqueue(s, floor);
	pmtu_enqueue(s, s->top);
	if (expected > floor && expected < s->top) {
		pmtu_enqueue(s, expected);
		pmtu_enqueue(s, floor);
		pmtu_enqueue(s, expected + 1);
	} else if (s->top > floor + 1) {
		spread(s, floor, s->top);
		pmtu_enqueue(s, floor);
	}
	pmtu_enqueue(s, floor);
}

static void plan_verification(struct pmtu_search *s)
{
	uint32_t floor = s->params.floor, above = s->low + 1;
	uint32_t need = pmtu_proof_needed(s), have = s->lost[0].n;
	/* After one that showed nothing: is it the path that is gone, or have large packets ceased to pass?
	 */
	bool wonder = s->voids && s->low > floor;

	s->verifying = true;
	s->heard_floor = s->heard_tail = false;
	s->tail_id = s->heard_low = 0;
	s->first_id = s->next_id;
	s->tail = wonder ? 4 : 2;
	for (uint32_t i = 0; i < (need > have ? need - have : 1); i++) {
		if (i % (wonder ? 2 : 3) == 0)
			pmtu_enqueue(s, s->low);
		pmtu_enqueue(s, above);
	}
	for (size_t i = 0; i < s->tail; i++)
		pmtu_enqueue(s, wonder && i % 2 == 0 ? floor : s->low);
	s->n_low = 0;
	for (size_t i = 0; i < s->n_queue; i++)
		s->n_low += s->queue[i] == s->low;
}

/* The path has shrunk: what came back earlier does not any more, and the floor does. */
static void shrink(struct pmtu_search *s)
{
	uint32_t was = s->low;

	s->n_lost = 0;
	s->voids = 0;
	s->hinted = 0;
	s->low = s->params.floor;
	pmtu_add_loss(s, was);
}

/*
 * The losses of the size above count where most of the packets among them came back, and one that was sent
 * after them: else a short outage, or a host that answers only so often, would make a result.
 */
static void judge_verification(struct pmtu_search *s, int64_t now)
{
	s->verifying = false;
	if (s->heard_tail && s->heard_low * 4 >= s->n_low * 3) {
		s->voids = 0;
		if (s->lost[0].n >= pmtu_proof_needed(s))
			finish(s, PMTU_SEARCH_DONE, now);
		return;
	}
	s->lost[0].n = 1;
	s->gap_us = min_i64(s->gap_us * 2, MAX_GAP_US);
	if (++s->voids > MAX_VOIDS)
		finish(s, PMTU_SEARCH_UNKNOWN, now);
	else if (s->voids >= 2 && !s->heard_low && s->heard_floor)
		shrink(s);
}

/*
 * So much is lost of what fits that it is hardly chance: a queue overflows, or answers are rationed. Losses
 * say little then. More slowly, and from the largest reply on once more.
 */
static void calm_down(struct pmtu_search *s)
{
	if (s->fit_lost - s->calm_lost < 8 || (s->fit_lost - s->calm_lost) * 3 < s->fit - s->calm_fit)
		return;
	s->calm_lost = s->fit_lost;
	s->calm_fit = s->fit;
	if (s->gap_us >= MAX_GAP_US)
		return;
	s->gap_us = min_i64(s->gap_us * 4, MAX_GAP_US);
	s->n_lost = 0;
	s->voids = 0;
	s->verifying = false;
}

static void plan(struct pmtu_search *s, int64_t now)
{
	uint32_t high;

	if (s->low >= s->top) {
		finish(s, PMTU_SEARCH_DONE, now);
		return;
	}
	calm_down(s);
	if (s->verifying)
		judge_verification(s, now);
	if (s->state != PMTU_SEARCH_RUNNING)
		return;
	s->rounds++;
	high = s->n_lost ? s->lost[0].size : s->top + 1;
	if (high == s->low + 1) {
		plan_verification(s);
		return;
	}
	/* Only one loss so far: it is asked again beside the others. */
	if (s->n_lost && s->lost[0].n < 2)
		pmtu_enqueue(s, high);
	spread(s, s->low, high);
	/* Where much is lost, asking twice at once saves rounds. */
	if (s->fit_lost >= 2 && s->fit_lost * 12 > s->fit)
		spread(s, s->low, high);
}

/* Nothing has come back yet. */
static void knock(struct pmtu_search *s, int64_t now)
{
	if (now - s->started_us >= SILENCE_US) {
		finish(s, PMTU_SEARCH_UNKNOWN, now);
	} else if (now >= s->knock_us) {
		int64_t pause = KNOCK_US << min_u32(s->knocks, 8);

		s->knocks++;
		s->knock_us = now + min_i64(pause, MAX_KNOCK_US);
		if (!pmtu_queued(s, s->params.floor))
			pmtu_enqueue_first(s, s->params.floor);
	}
}

void pmtu_search_init(struct pmtu_search *s, const struct pmtu_search_params *params, int64_t now_us)
{
	memset(s, 0, sizeof(*s));
	s->params = *params;
	if (!s->params.ceiling || s->params.ceiling > PMTU_CEILING)
		s->params.ceiling = PMTU_CEILING;
	if (!s->params.floor)
		s->params.floor = PMTU_FLOOR_V4;
	s->params.floor = min_u32(s->params.floor, s->params.ceiling);
	s->top = s->params.ceiling;
	s->next_id = 1;
	s->gap_us = GAP_US;
	s->started_us = s->next_send_us = now_us;
	s->knock_us = now_us + KNOCK_US;
	plan_first(s);
}

static void take_off(struct pmtu_search *s, int64_t now, struct pmtu_search_probe *out)
{
	int64_t gap = s->verifying ? max_i64(s->gap_us, VERIFY_GAP_US) : s->gap_us;
	struct pmtu_search_flight *f;

	pmtu_make_room(s);
	f = &s->flight[s->n_flight++];
	memset(f, 0, sizeof(*f));
	f->id = out->id = s->next_id++;
	f->size = out->size = s->queue[0];
	f->sent_us = now;
	s->n_queue--;
	memmove(s->queue, s->queue + 1, s->n_queue * sizeof(s->queue[0]));
	if (s->verifying && s->n_queue + 1 == s->tail)
		s->tail_id = f->id;
	s->sent++;
	/* A timer that is late is made up for, by a few packets at most. */
	s->next_send_us = max_i64(s->next_send_us, now - 4 * gap) + gap;
}

bool pmtu_search_next(struct pmtu_search *s, int64_t now_us, struct pmtu_search_probe *out)
{
	if (s->state != PMTU_SEARCH_RUNNING)
		return false;
	pmtu_expire(s, now_us);
	if (!s->low)
		knock(s, now_us);
	else if (now_us - s->started_us >= DEADLINE_US || s->sent >= MAX_SENT)
		finish(s, PMTU_SEARCH_UNKNOWN, now_us);
	if (s->state == PMTU_SEARCH_RUNNING && pmtu_settled(s))
		plan(s, now_us);
	if (s->state != PMTU_SEARCH_RUNNING || !s->n_queue || now_us < s->next_send_us)
		return false;
	take_off(s, now_us, out);
	return true;
}

int64_t pmtu_search_wait(const struct pmtu_search *s, int64_t now_us)
{
	int64_t at = s->started_us + (s->low ? DEADLINE_US : SILENCE_US);

	if (s->state != PMTU_SEARCH_RUNNING || pmtu_settled(s))
		return 0;
	if (s->n_queue)
		at = min_i64(at, s->next_send_us);
	if (!s->low)
		at = min_i64(at, s->knock_us);
	for (size_t i = 0; s->low && i < s->n_flight; i++)
		if (!s->flight[i].over)
			at = min_i64(at, s->flight[i].sent_us + pmtu_timeout_us(s));
	return max_i64(at - now_us, 0);
}

/* -- what comes back -- */

/* RFC 6298 2; each packet has an id of its own, so every sample is good. */
static void sample_rtt(struct pmtu_search *s, int64_t rtt)
{
	int64_t off = rtt > s->srtt_us ? rtt - s->srtt_us : s->srtt_us - rtt;

	if (!s->replies) {
		s->srtt_us = rtt;
		s->rttvar_us = rtt / 2;
		return;
	}
	s->rttvar_us += (off - s->rttvar_us) / 4;
	s->srtt_us += (rtt - s->srtt_us) / 8;
}

/*
 * The first sign of life answers a later knock: what was sent long before was lost because there was nobody,
 * and says nothing about sizes.
 */
static void wake(struct pmtu_search *s, int64_t sent_us)
{
	bool forgot = false;

	for (size_t i = s->n_flight; i-- > 0;)
		if (s->flight[i].sent_us < sent_us - KNOCK_US / 2) {
			pmtu_land(s, &s->flight[i]);
			forgot = true;
		}
	if (forgot)
		plan_first(s);
}

/* SIZE has come back, which is more than any before. */
static void rise(struct pmtu_search *s, uint32_t size)
{
	uint32_t worst = 0;

	/* Losses up to there were chance... */
	while (s->n_lost && s->lost[0].size <= size) {
		s->fit += s->lost[0].n;
		s->fit_lost += s->lost[0].n;
		if (s->lost[0].n > worst)
			worst = s->lost[0].n;
		pmtu_drop_loss(s, 0);
	}
	/* ...and others that looked no better may have been. */
	for (size_t i = s->n_lost; worst && i-- > 0;)
		if (s->lost[i].n <= worst)
			pmtu_drop_loss(s, i);
	s->low = size;
	s->verifying = false;
	s->voids = 0;
	if (s->told_size <= size)
		s->told_size = 0;
	pmtu_thin_queue(s, size + 1, s->top);
}

void pmtu_search_reply(struct pmtu_search *s, uint32_t id, uint32_t size, int64_t now_us)
{
	struct pmtu_search_flight *f = pmtu_find_flight(s, id);
	bool known = f;

	if (s->state != PMTU_SEARCH_RUNNING || size > s->top || size < s->params.floor)
		return;
	if (f) {
		int64_t sent_us = f->sent_us;

		sample_rtt(s, now_us - sent_us);
		s->replies++;
		s->fit++;
		if (f->counted_lost) {
			s->fit--;
			s->fit_lost--;
		}
		pmtu_land(s, f);
		if (!s->low)
			wake(s, sent_us);
	}
	if (s->verifying && size < s->low)
		s->heard_floor = true;
	if (s->verifying && size == s->low && known && id >= s->first_id) {
		s->heard_low++;
		if (s->tail_id && id >= s->tail_id)
			s->heard_tail = true;
	}
	if (size > s->low)
		rise(s, size);
}

void pmtu_search_too_big(struct pmtu_search *s, uint32_t id, uint32_t size, uint32_t mtu, int64_t now_us)
{
	struct pmtu_search_flight *f = pmtu_find_flight(s, id);
	bool named = mtu && mtu < size;

	if (f) {
		pmtu_land(s, f);
		s->sent--;
	}
	if (s->state != PMTU_SEARCH_RUNNING || size > s->top || !size)
		return;
	s->top = named ? mtu : size - 1;
	s->params.floor = min_u32(s->params.floor, s->top);
	while (s->n_lost && s->lost[s->n_lost - 1].size > s->top)
		s->n_lost--;
	if (s->low > s->top)
		s->low = s->params.floor;
	s->verifying = s->verifying && s->low < s->top;
	s->next_send_us = now_us; /* nothing has left */
	if (!named) {
		pmtu_thin_queue(s, 1, s->top);
		return;
	}
	s->n_queue = 0;
	s->verifying = false;
	if (!s->low)
		plan_first(s);
	else if (s->top > s->low)
		pmtu_enqueue(s, s->top);
}

void pmtu_search_report(struct pmtu_search *s, uint32_t size, uint32_t mtu, int64_t now_us)
{
	(void)now_us;
	if (s->state != PMTU_SEARCH_RUNNING || mtu >= size || size <= s->low)
		return;
	if (!s->told_size || mtu < s->told_mtu) {
		s->told_mtu = mtu;
		s->told_size = size;
	} else if (mtu == s->told_mtu && size > s->told_size) {
		s->told_size = size;
	}
	if (s->verifying || mtu < s->params.floor || mtu < s->low || mtu >= s->top || mtu == s->hinted)
		return;
	s->hinted = mtu;
	pmtu_thin_queue(s, 1, mtu + 1);
	if (!pmtu_queued(s, mtu + 1))
		pmtu_enqueue_first(s, mtu + 1);
	if (mtu > s->low && !pmtu_queued(s, mtu))
		pmtu_enqueue_first(s, mtu);
}

void pmtu_search_unsent(struct pmtu_search *s, uint32_t id, uint32_t size, int64_t now_us)
{
	struct pmtu_search_flight *f = pmtu_find_flight(s, id);

	if (f) {
		pmtu_land(s, f);
		s->sent--;
	}
	if (s->state != PMTU_SEARCH_RUNNING || size > s->top)
		return;
	s->gap_us = min_i64(s->gap_us * 2, MAX_GAP_US);
	s->next_send_us = now_us + max_i64(s->gap_us, 2000);
	pmtu_enqueue_first(s, size);
}

static enum pmtu_verdict verdict(const struct pmtu_search *s)
{
	if (s->state != PMTU_SEARCH_DONE)
		return PMTU_UNKNOWN;
	if (s->low == s->top)
		return PMTU_WORKING;
	/* Also where it names no MTU: senders then take a size that surely fits (RFC 1191 5). */
	return s->told_size && s->told_mtu <= s->low ? PMTU_WORKING : PMTU_BLACK_HOLE;
}

enum pmtu_search_state pmtu_search_result(const struct pmtu_search *s, int64_t now_us,
					  struct pmtu_search_result *out)
{
	bool done = s->state == PMTU_SEARCH_DONE;

	*out = (struct pmtu_search_result){
		.mtu = done ? s->low : 0,
		.pmtud = verdict(s),
		.at_ceiling = done && s->low == s->top,
		.elapsed_us = (s->state == PMTU_SEARCH_RUNNING ? now_us : s->ended_us) - s->started_us,
		.rtt_us = s->replies ? s->srtt_us : -1,
		.sent = s->sent,
		.replies = s->replies,
		.fit = s->fit,
		.lost = s->fit_lost,
		.rounds = s->rounds,
	};
	return s->state;
}

void pmtu_search_range(const struct pmtu_search *s, uint32_t *low, uint32_t *high)
{
	*low = s->low;
	*high = s->n_lost ? s->lost[0].size - 1 : s->top;
}
