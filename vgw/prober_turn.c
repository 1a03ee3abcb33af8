/* SPDX-License-Identifier: Apache-2.0 */
/* One tunnel's turn: small probes, confirmations, the search; and what comes back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "vgw/clock.h"
#include "vgw/prober_internal.h"

/* Not to be guessed by whoever does not see the packet. */
static uint64_t fresh_nonce(void)
{
	uint64_t nonce = 0;

	if (getrandom(&nonce, sizeof(nonce), GRND_NONBLOCK) != sizeof(nonce))
		nonce = (uint64_t)clock_mono_us() * 0x9e3779b97f4a7c15u;
	return nonce;
}

static struct peer_socket *socket_of(const struct asked *a)
{
	return a->prober->sockets[a->now.peer.family == IP_V6];
}

int prober_ask(struct asked *a, uint64_t nonce, uint32_t size, int64_t now_ms, uint32_t *mtu)
{
	uint32_t overhead = peer_packet_overhead(a->now.peer.family);
	struct ip_endpoint to = {.addr = a->now.peer, .port = a->prober->port};
	struct peer_packet p = {.type = PEER_REQUEST, .nonce = nonce};

	if (size < overhead + PEER_HEADER)
		size = overhead + PEER_HEADER;
	p.size = (uint16_t)size;
	p.mtu = (uint16_t)a->path.mtu;
	p.heard_ms = peer_heard_ago(&a->peer, now_ms);
	return peer_socket_send(socket_of(a), &to, a->now.interface, &p, size - overhead, mtu);
}

static void send_small(struct asked *a, int64_t us)
{
	uint64_t nonce = fresh_nonce();
	uint32_t mtu;

	/* One that cannot be sent is lost like any other. */
	peer_sent(&a->peer, PEER_AGENT, nonce, us);
	prober_ask(a, nonce, 0, us / 1000, &mtu);
	if (peer_wants_echo(&a->peer, us / 1000)) {
		peer_sent(&a->peer, PEER_ECHO, ++nonce, us);
		prober_ping(a, nonce, 0);
	}
	a->small_ms = us / 1000 + peer_interval(&a->peer);
}

static uint32_t ceiling_of(const struct asked *a)
{
	const struct prober_tunnel *t = &a->now;

	/* A route's MTU does not bind these packets, a device's does. */
	return t->interface && t->in_force && t->in_force < t->limit ? t->in_force : t->limit;
}

static void search_begin(struct asked *a, int64_t us)
{
	struct pmtu_search_params params = {.floor = PMTU_FLOOR_V4, .expected = a->path.mtu};

	params.ceiling = a->ceiling = ceiling_of(a);
	if (!params.ceiling)
		return;
	a->raise_ms = -1;
	path_search_started(&a->path);
	if (!peer_wants_echo(&a->peer, us / 1000)) {
		a->search = calloc(1, sizeof(*a->search));
		a->secret = (uint32_t)fresh_nonce() | 1;
		if (a->search)
			pmtu_search_init(a->search, &params, us);
	} else {
		prober_echo(a, params.ceiling);
	}
	if (!a->search && !a->echo)
		prober_searched(a, &(struct pmtu_search_result){.mtu = 0});
}

void prober_searched(struct asked *a, const struct pmtu_search_result *result)
{
	free(a->search);
	a->search = NULL;
	a->raise = false;
	path_search_ended(&a->path, result, a->ceiling, a->now.limit, clock_mono_ms());
}

static void search_step(struct asked *a, int64_t us)
{
	struct pmtu_search_probe probe;
	struct pmtu_search_result result;

	while (pmtu_search_next(a->search, us, &probe)) {
		uint32_t mtu = 0;
		int rc = prober_ask(a, (uint64_t)a->secret << 32 | probe.id, probe.size, us / 1000, &mtu);

		if (rc == -EMSGSIZE)
			pmtu_search_too_big(a->search, probe.id, probe.size, mtu, us);
		else if (rc == -EAGAIN || rc == -ENOBUFS)
			pmtu_search_unsent(a->search, probe.id, probe.size, us);
	}
	if (pmtu_search_result(a->search, us, &result) != PMTU_SEARCH_RUNNING)
		prober_searched(a, &result);
}

/* A search upwards needs a link that takes larger packets: it is asked for, and used when it is there. */
static void raise_or_search(struct asked *a, int64_t us)
{
	if (!a->now.may_raise || ceiling_of(a) >= a->now.limit) {
		search_begin(a, us);
	} else if (!a->raise) {
		a->raise = true;
		a->raise_ms = us / 1000;
	} else if (us / 1000 - a->raise_ms > PROBER_RAISE_WAIT_MS) {
		search_begin(a, us);
	}
}

static void confirm(struct asked *a, int64_t us)
{
	uint64_t nonce = fresh_nonce();
	uint32_t mtu;

	path_confirm_sent(&a->path, nonce, a->peer.rtt_ms, us / 1000);
	if (peer_wants_echo(&a->peer, us / 1000))
		prober_ping(a, nonce, a->path.mtu);
	/* The device got smaller than what is in use: no question of losses. */
	else if (prober_ask(a, nonce, a->path.mtu, us / 1000, &mtu) == -EMSGSIZE)
		search_begin(a, us);
}

/* With the peer's agent; by echoes only when it is certain that there is none. */
static bool knows_how(const struct asked *a, int64_t ms)
{
	return peer_has_agent(&a->peer, ms) || ms - a->peer.started_ms > PEER_SILENCE_MS;
}

static void measure(struct asked *a, int64_t us)
{
	int64_t ms = us / 1000;

	/* Without an answer to small packets the large ones say nothing. */
	if (!a->search && !a->echo && peer_verdict(&a->peer, ms) == PEER_UP && knows_how(a, ms)) {
		switch (path_next(&a->path, ms)) {
		case PATH_NOTHING:
			break;
		case PATH_CONFIRM:
			confirm(a, us);
			break;
		case PATH_SEARCH:
			search_begin(a, us);
			break;
		case PATH_RAISE:
			raise_or_search(a, us);
			break;
		}
	}
	if (a->search)
		search_step(a, us);
}

void prober_look(const struct asked *a, struct prober_view *out)
{
	const struct prober_tunnel *t = &a->now;
	int64_t now = clock_mono_ms();

	memset(out, 0, sizeof(*out));
	out->outbound = peer_outbound(&a->peer, now);
	out->inbound = peer_inbound(&a->peer, now);
	out->has_agent = peer_has_agent(&a->peer, now);
	out->path = a->path;
	out->reverse_mtu = out->has_agent ? a->peer.reverse_mtu : 0;
	out->rtt_ms = a->peer.rtt_ms;
	out->loss_percent = peer_loss_percent(&a->peer, now);
	out->heard_ms = peer_last_heard(&a->peer);
	out->raise = a->raise;
	switch (t->link) {
	case PROBER_ABSENT:
		out->verdict = PEER_ABSENT;
		break;
	case PROBER_DOWN:
		out->verdict = PEER_DOWN;
		break;
	case PROBER_NO_ROUTE:
		out->verdict = PEER_NO_ROUTE;
		break;
	case PROBER_READY:
		out->verdict = peer_verdict(&a->peer, now);
		/* While the link is raised, our route holds what is in use. */
		if (out->verdict == PEER_UP && !a->raise && path_swallows(&a->path, t->held))
			out->verdict = PEER_BLACK_HOLE;
		return;
	}
	if (now - a->peer.started_ms > PEER_SILENCE_MS)
		out->outbound = out->inbound = PEER_FALSE;
}

static void report(struct asked *a)
{
	struct prober_view v;
	unsigned changes = 0;

	prober_look(a, &v);
	if (v.path.mtu != a->shown.path.mtu || v.raise != a->shown.raise)
		changes |= PROBER_MTU;
	if (v.verdict != a->shown.verdict || v.outbound != a->shown.outbound ||
	    v.inbound != a->shown.inbound || v.path.pmtud != a->shown.path.pmtud ||
	    v.reverse_mtu != a->shown.reverse_mtu || v.has_agent != a->shown.has_agent)
		changes |= PROBER_REPORT;
	a->shown = v;
	if (changes)
		a->prober->changed(a->prober->ctx, changes);
}

void prober_turn(struct asked *a)
{
	int64_t us = clock_mono_us(), wait, miss;

	a->touched = false;
	if (a->now.link == PROBER_READY && socket_of(a)) {
		if (us / 1000 >= a->small_ms)
			send_small(a, us);
		measure(a, us);
	} else if (us / 1000 >= a->small_ms) {
		a->small_ms = us / 1000 + PEER_INTERVAL_MS;
	}
	report(a);
	us = clock_mono_us();
	wait = a->small_ms * 1000 - us;
	if (a->search && pmtu_search_wait(a->search, us) < wait)
		wait = pmtu_search_wait(a->search, us);
	miss = path_wait(&a->path, us / 1000);
	if (miss >= 0 && miss * 1000 < wait)
		wait = miss * 1000;
	ev_timer_stop(a->prober->loop, &a->timer);
	ev_timer_set(&a->timer, wait > 0 ? (double)wait / 1e6 : 0, 0);
	ev_timer_start(a->prober->loop, &a->timer);
}

/* -- what comes in -- */

static bool is_of(const struct asked *a, const struct peer_arrival *at)
{
	if (a->now.link == PROBER_ABSENT || (a->now.interface && a->now.interface != at->interface))
		return false;
	return a->now.network.addr.family ? ip_prefix_contains_addr(&a->now.network, &at->from.addr)
					  : !ip_addr_cmp(&a->now.peer, &at->from.addr);
}

static void take_reply(struct asked *a, const struct peer_packet *p, int64_t us)
{
	bool of_search = a->search && p->nonce >> 32 == a->secret;
	bool of_path = !of_search && path_confirmed(&a->path, p->nonce, us / 1000);

	peer_take(&a->peer, p, of_search || of_path, us);
	if (of_search)
		pmtu_search_reply(a->search, (uint32_t)p->nonce, p->size, us);
}

static void answer(struct asked *a, const struct peer_arrival *at, const struct peer_packet *p, int64_t us)
{
	struct peer_packet reply = {.type = PEER_REPLY, .sized_reply = p->sized_reply};
	uint32_t mtu;

	if (!peer_budget_take(&a->budget, us / 1000))
		return;
	reply.nonce = p->nonce;
	reply.size = p->size;
	reply.mtu = (uint16_t)a->path.mtu;
	reply.heard_ms = peer_heard_ago(&a->peer, us / 1000);
	peer_socket_send(socket_of(a), &at->from, a->now.interface, &reply,
			 peer_packet_reply_len(p, at->from.addr.family), &mtu);
}

static void on_packet(void *ctx, const struct peer_arrival *at, const struct peer_packet *packet)
{
	struct prober *p = ctx;
	int64_t us = clock_mono_us();

	for (size_t i = 0; i < p->n; i++) {
		struct asked *a = p->asked[i];
		bool of_peer = !ip_addr_cmp(&a->now.peer, &at->from.addr);

		if (!is_of(a, at) || at->from.addr.family != a->now.peer.family)
			continue;
		if (packet->type == PEER_REPLY && of_peer)
			take_reply(a, packet, us);
		else if (packet->type == PEER_REQUEST && of_peer)
			peer_take(&a->peer, packet, false, us);
		a->touched |= of_peer;
		if (packet->type != PEER_REQUEST)
			continue;
		answer(a, at, packet, us);
		return;
	}
}

static void on_refused(void *ctx, const struct ip_addr *peer)
{
	struct prober *p = ctx;

	for (size_t i = 0; i < p->n; i++)
		if (!ip_addr_cmp(&p->asked[i]->now.peer, peer))
			peer_refused(&p->asked[i]->peer, clock_mono_ms());
}

static void on_too_big(void *ctx, const struct ip_addr *peer, uint64_t nonce, uint32_t size, uint32_t mtu)
{
	struct prober *p = ctx;
	int64_t us = clock_mono_us();

	for (size_t i = 0; i < p->n; i++) {
		struct asked *a = p->asked[i];

		if (ip_addr_cmp(&a->now.peer, peer))
			continue;
		if (a->search && size && nonce >> 32 == a->secret)
			pmtu_search_report(a->search, size, mtu, us);
		else if (size && nonce == a->path.nonce)
			path_reported(&a->path, size, us / 1000);
		a->touched = true;
	}
}

static void on_read(void *ctx)
{
	struct prober *p = ctx;

	for (size_t i = 0; i < p->n; i++)
		if (p->asked[i]->touched)
			prober_turn(p->asked[i]);
}

struct peer_socket_events prober_events(struct prober *p)
{
	return (struct peer_socket_events){
		.ctx = p, .packet = on_packet, .refused = on_refused, .too_big = on_too_big, .read = on_read};
}
