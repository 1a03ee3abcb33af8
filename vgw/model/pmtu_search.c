/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/pmtu_search.h"

#include <string.h>

enum {
	GAP_US = 500,	      /* between two packets: a full fan of 1500 bytes is 24 Mbit/s for 8 ms */
	VERIFY_GAP_US = 1000, /* independent losses are some time apart */
	MAX_GAP_US = 32000,   /* where the other side answers only so often */
	MIN_SLACK_US = 15000, /* over the round trip: what a busy host may take for an answer */
	MAX_TIMEOUT_US = 3000000,
	KNOCK_US = 200000,	/* then twice as long each time, */
	MAX_KNOCK_US = 800000,	/* up to this, */
	SILENCE_US = 3000000,	/* and for so long altogether */
	DEADLINE_US = 20000000, /* for everything */
	MAX_SENT = 2000,
	MAX_VOIDS = 8,
	MIN_PROOF = 4, /* losses of the size above the result */
	MAX_PROOF = 40,
};

/* Chance may mislead once in a million searches. */
static const double DOUBT = 1e-6;

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int64_t min_i64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

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

/* -- the queue of packets to send -- */

static bool queued(const struct pmtu_search *s, uint32_t size)
{
	for (size_t i = 0; i < s->n_queue; i++)
		if (s->queue[i] == size)
			return true;
	return false;
}

static void enqueue(struct pmtu_search *s, uint32_t size)
{
	if (s->n_queue < PMTU_SEARCH_QUEUE)
		s->queue[s->n_queue++] = size;
}

static void enqueue_first(struct pmtu_search *s, uint32_t size)
{
	if (s->n_queue == PMTU_SEARCH_QUEUE)
		s->n_queue--;
	memmove(s->queue + 1, s->queue, s->n_queue * sizeof(s->queue[0]));
	s->queue[0] = size;
	s->n_queue++;
}

/* Keeps the sizes FROM to TO. */
static void thin_queue(struct pmtu_search *s, uint32_t from, uint32_t to)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_queue; i++)
		if (s->queue[i] >= from && s->queue[i] <= to)
			s->queue[n++] = s->queue[i];
	s->n_queue = n;
}

/* -- the losses -- */

static void drop_loss(struct pmtu_search *s, size_t i)
{
	memmove(s->lost + i, s->lost + i + 1, (s->n_lost - i - 1) * sizeof(s->lost[0]));
	s->n_lost--;
}

static void add_loss(struct pmtu_search *s, uint32_t size)
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
static uint32_t proof_needed(const struct pmtu_search *s)
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

static int64_t timeout_us(const struct pmtu_search *s)
{
	return min_i64(s->srtt_us + max_i64(4 * s->rttvar_us, MIN_SLACK_US), MAX_TIMEOUT_US);
}

static struct pmtu_search_flight *find_flight(struct pmtu_search *s, uint32_t id)
{
	for (size_t i = 0; i < s->n_flight; i++)
		if (s->flight[i].id == id)
			return &s->flight[i];
	return NULL;
}

static void land(struct pmtu_search *s, struct pmtu_search_flight *f)
{
	*f = s->flight[--s->n_flight];
}

/* Room for one more: the oldest goes, of those that are over if there are any. */
static void make_room(struct pmtu_search *s)
{
	struct pmtu_search_flight *oldest = &s->flight[0];

	if (s->n_flight < PMTU_SEARCH_FLIGHT)
		return;
	for (size_t i = 1; i < s->n_flight; i++) {
		struct pmtu_search_flight *f = &s->flight[i];

		if (f->over != oldest->over ? f->over : f->sent_us < oldest->sent_us)
			oldest = f;
	}
	land(s, oldest);
}

/* Before the first reply nobody knows how long to wait. */
static void expire(struct pmtu_search *s, int64_t now)
{
	int64_t timeout = timeout_us(s);

	if (!s->low)
		return;
	for (size_t i = 0; i < s->n_flight; i++) {
		struct pmtu_search_flight *f = &s->flight[i];

		if (f->over || now - f->sent_us < timeout)
			continue;
		f->over = true;
		if (f->size > s->low) {
			add_loss(s, f->size);
		} else {
			s->fit++;
			s->fit_lost++;
			f->counted_lost = true;
		}
	}
}

/* Nothing that is still under way matters for the next step. */
static bool settled(const struct pmtu_search *s)
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
		enqueue(s, n == room ? low + i : low + (uint32_t)((uint64_t)(high - low) * i / (n + 1)));
}

/*
 * The largest size first, as most paths carry it; then the floor, for the round trip. The last known value
 * makes the fan unnecessary.
 */
static void plan_first(struct pmtu_search *s)
{
	uint32_t expected = s->params.expected, floor = s->params.floor;

	s->rounds++;
	s->n_queue = 0;
	enqueue(s, floor);
	enqueue(s, s->top);
	if (expected > floor && expected < s->top) {
		enqueue(s, expected);
		enqueue(s, floor);
		enqueue(s, expected + 1);
	} else if (s->top > floor + 1) {
		spread(s, floor, s->top);
		enqueue(s, floor);
	}
	enqueue(s, floor);
}

static void plan_verification(struct pmtu_search *s)
{
	uint32_t floor = s->params.floor, above = s->low + 1;
	uint32_t need = proof_needed(s), have = s->lost[0].n;
	/* After one that showed nothing: is it the path that is gone, or have large packets ceased to pass?
	 */
	bool wonder = s->voids && s->low > floor;

	s->verifying = true;
	s->heard_floor = s->heard_low = s->heard_tail = false;
	s->tail_id = 0;
	for (uint32_t i = 0; i < (need > have ? need - have : 1); i++) {
		if (wonder || i % 4 == 0)
			enqueue(s, s->low);
		if (s->n_queue < PMTU_SEARCH_QUEUE - 4)
			enqueue(s, above);
	}
	if (s->n_queue > PMTU_SEARCH_QUEUE - 4)
		s->n_queue = PMTU_SEARCH_QUEUE - 4;
	s->tail = wonder ? 4 : 2;
	for (size_t i = 0; i < s->tail; i++)
		enqueue(s, wonder && i % 2 == 0 ? floor : s->low);
}

/* The path has shrunk: what came back earlier does not any more, and the floor does. */
static void shrink(struct pmtu_search *s)
{
	uint32_t was = s->low;

	s->n_lost = 0;
	s->voids = 0;
	s->hinted = 0;
	s->low = s->params.floor;
	add_loss(s, was);
}

/* True when the search is over, or goes on otherwise than by another verification. */
static bool judge_verification(struct pmtu_search *s, int64_t now)
{
	s->verifying = false;
	if (s->heard_tail) {
		s->voids = 0;
		if (s->lost[0].n < proof_needed(s))
			return false;
		finish(s, PMTU_SEARCH_DONE, now);
		return true;
	}
	s->lost[0].n = 1;
	s->gap_us = min_i64(s->gap_us * 2, MAX_GAP_US);
	if (++s->voids > MAX_VOIDS) {
		finish(s, PMTU_SEARCH_UNKNOWN, now);
		return true;
	}
	if (s->voids < 2 || s->heard_low || !s->heard_floor)
		return false;
	shrink(s);
	return false;
}

static void plan(struct pmtu_search *s, int64_t now)
{
	uint32_t high;

	if (s->low >= s->top) {
		finish(s, PMTU_SEARCH_DONE, now);
		return;
	}
	if (s->verifying && judge_verification(s, now))
		return;
	s->rounds++;
	high = s->n_lost ? s->lost[0].size : s->top + 1;
	if (high == s->low + 1) {
		plan_verification(s);
		return;
	}
	/* Only one loss so far: it is asked again beside the others. */
	if (s->n_lost && s->lost[0].n < 2)
		enqueue(s, high);
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
		if (!queued(s, s->params.floor))
			enqueue_first(s, s->params.floor);
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

	make_room(s);
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
	expire(s, now_us);
	if (!s->low)
		knock(s, now_us);
	else if (now_us - s->started_us >= DEADLINE_US || s->sent >= MAX_SENT)
		finish(s, PMTU_SEARCH_UNKNOWN, now_us);
	if (s->state == PMTU_SEARCH_RUNNING && settled(s))
		plan(s, now_us);
	if (s->state != PMTU_SEARCH_RUNNING || !s->n_queue || now_us < s->next_send_us)
		return false;
	take_off(s, now_us, out);
	return true;
}

int64_t pmtu_search_wait(const struct pmtu_search *s, int64_t now_us)
{
	int64_t at = s->started_us + (s->low ? DEADLINE_US : SILENCE_US);

	if (s->state != PMTU_SEARCH_RUNNING || settled(s))
		return 0;
	if (s->n_queue)
		at = min_i64(at, s->next_send_us);
	if (!s->low)
		at = min_i64(at, s->knock_us);
	for (size_t i = 0; s->low && i < s->n_flight; i++)
		if (!s->flight[i].over)
			at = min_i64(at, s->flight[i].sent_us + timeout_us(s));
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
			land(s, &s->flight[i]);
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
		drop_loss(s, 0);
	}
	/* ...and others that looked no better may have been. */
	for (size_t i = s->n_lost; worst && i-- > 0;)
		if (s->lost[i].n <= worst)
			drop_loss(s, i);
	s->low = size;
	s->verifying = false;
	s->voids = 0;
	if (s->told_size <= size)
		s->told_size = 0;
	thin_queue(s, size + 1, s->top);
}

void pmtu_search_reply(struct pmtu_search *s, uint32_t id, uint32_t size, int64_t now_us)
{
	struct pmtu_search_flight *f = find_flight(s, id);

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
		land(s, f);
		if (!s->low)
			wake(s, sent_us);
	}
	if (s->verifying && size < s->low)
		s->heard_floor = true;
	if (s->verifying && size == s->low) {
		s->heard_low = true;
		if (s->tail_id && id >= s->tail_id)
			s->heard_tail = true;
	}
	if (size > s->low)
		rise(s, size);
}

void pmtu_search_too_big(struct pmtu_search *s, uint32_t id, uint32_t size, uint32_t mtu, int64_t now_us)
{
	struct pmtu_search_flight *f = find_flight(s, id);
	bool named = mtu && mtu < size;

	if (f) {
		land(s, f);
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
		thin_queue(s, 1, s->top);
		return;
	}
	s->n_queue = 0;
	s->verifying = false;
	if (!s->low)
		plan_first(s);
	else if (s->top > s->low)
		enqueue(s, s->top);
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
	thin_queue(s, 1, mtu + 1);
	if (!queued(s, mtu + 1))
		enqueue_first(s, mtu + 1);
	if (mtu > s->low && !queued(s, mtu))
		enqueue_first(s, mtu);
}

void pmtu_search_unsent(struct pmtu_search *s, uint32_t id, uint32_t size, int64_t now_us)
{
	struct pmtu_search_flight *f = find_flight(s, id);

	if (f) {
		land(s, f);
		s->sent--;
	}
	if (s->state != PMTU_SEARCH_RUNNING || size > s->top)
		return;
	s->gap_us = min_i64(s->gap_us * 2, MAX_GAP_US);
	s->next_send_us = now_us + max_i64(s->gap_us, 2000);
	enqueue_first(s, size);
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
