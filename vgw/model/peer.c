/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/peer.h"

#include <string.h>

void peer_init(struct peer *p, int64_t now_ms)
{
	memset(p, 0, sizeof(*p));
	p->started_ms = now_ms;
	p->agent_ms = p->echo_ms = p->confirmed_ms = p->refused_ms = -1;
	p->rtt_ms = -1;
}

/* Whether a moment is known and not older than AGE. */
static bool is_recent(int64_t moment_ms, int64_t now_ms, int64_t age_ms)
{
	return moment_ms >= 0 && now_ms - moment_ms <= age_ms;
}

int64_t peer_last_heard(const struct peer *p)
{
	return p->agent_ms > p->echo_ms ? p->agent_ms : p->echo_ms;
}

int64_t peer_interval(const struct peer *p)
{
	return peer_last_heard(p) < 0 && p->sent < PEER_HASTE ? PEER_HASTE_MS : PEER_INTERVAL_MS;
}

bool peer_has_agent(const struct peer *p, int64_t now_ms)
{
	return is_recent(p->agent_ms, now_ms, PEER_WORD_MS) && p->refused_ms < p->agent_ms;
}

bool peer_wants_echo(const struct peer *p, int64_t now_ms)
{
	return !peer_has_agent(p, now_ms) || !is_recent(p->agent_ms, now_ms, PEER_SILENCE_MS);
}

void peer_sent(struct peer *p, enum peer_channel channel, uint64_t nonce, int64_t now_us)
{
	struct peer_probe *probe = &p->probes[p->next];

	*probe = (struct peer_probe){.nonce = nonce, .sent_us = now_us, .channel = channel};
	p->next = (p->next + 1) % PEER_WINDOW;
	if (p->n_probes < PEER_WINDOW)
		p->n_probes++;
	p->sent++;
}

uint32_t peer_heard_ago(const struct peer *p, int64_t now_ms)
{
	int64_t ago = now_ms - p->agent_ms;

	if (p->agent_ms < 0 || ago >= PEER_NEVER)
		return PEER_NEVER;
	return ago > 0 ? (uint32_t)ago : 0;
}

static void take_rtt(struct peer *p, enum peer_channel channel, int64_t rtt_us)
{
	double sample = rtt_us > 0 ? (double)rtt_us / 1000.0 : 0;

	if (p->rtt_ms < 0 || p->rtt_source != channel)
		p->rtt_ms = sample;
	else
		p->rtt_ms += (sample - p->rtt_ms) / 8;
	p->rtt_source = channel;
}

/* The small probe of that nonce, now answered; false when there is none, or it was answered before. */
static bool answer(struct peer *p, enum peer_channel channel, uint64_t nonce, int64_t now_us)
{
	for (unsigned i = 0; i < p->n_probes; i++) {
		struct peer_probe *probe = &p->probes[i];

		if (probe->nonce != nonce || probe->channel != channel)
			continue;
		if (!probe->answered && now_us - probe->sent_us <= PEER_LATE_MS * 1000) {
			probe->answered = true;
			take_rtt(p, channel, now_us - probe->sent_us);
		}
		return true;
	}
	return false;
}

bool peer_take(struct peer *p, const struct peer_packet *packet, bool known_nonce, int64_t now_us)
{
	bool small = packet->type == PEER_REPLY && answer(p, PEER_AGENT, packet->nonce, now_us);
	int64_t now_ms = now_us / 1000;

	if (packet->type == PEER_REPLY && !small && !known_nonce)
		return false;
	if (!peer_has_agent(p, now_ms))
		p->agent_since_us = now_us;
	p->agent_ms = now_ms;
	p->reverse_mtu = packet->mtu;
	/* Older than its own agent's start is nothing that this peer can have heard of us. */
	if (packet->heard_ms != PEER_NEVER && now_ms - packet->heard_ms >= p->started_ms &&
	    now_ms - packet->heard_ms > p->confirmed_ms)
		p->confirmed_ms = now_ms - packet->heard_ms;
	return packet->type == PEER_REQUEST || small;
}

bool peer_take_echo(struct peer *p, uint64_t nonce, bool known_nonce, int64_t now_us)
{
	bool small = answer(p, PEER_ECHO, nonce, now_us);

	if (!small && !known_nonce)
		return false;
	p->echo_ms = now_us / 1000;
	return small;
}

void peer_refused(struct peer *p, int64_t now_ms)
{
	p->refused_ms = now_ms;
	p->reverse_mtu = 0;
}

enum peer_truth peer_inbound(const struct peer *p, int64_t now_ms)
{
	if (is_recent(peer_last_heard(p), now_ms, PEER_SILENCE_MS))
		return PEER_TRUE;
	return now_ms - p->started_ms <= PEER_SILENCE_MS ? PEER_UNSURE : PEER_FALSE;
}

enum peer_truth peer_outbound(const struct peer *p, int64_t now_ms)
{
	bool agent = peer_has_agent(p, now_ms);

	/* An echo that comes back went both ways; of an agent that speaks its word counts. */
	if ((!agent || p->echo_ms > p->agent_ms) && is_recent(p->echo_ms, now_ms, PEER_SILENCE_MS))
		return PEER_TRUE;
	if (is_recent(p->confirmed_ms, now_ms, PEER_SILENCE_MS))
		return PEER_TRUE;
	if (!agent)
		return PEER_UNSURE;
	if (is_recent(p->agent_ms, now_ms, PEER_SILENCE_MS))
		return now_ms - p->started_ms <= PEER_SILENCE_MS ? PEER_UNSURE : PEER_FALSE;
	/* Silence: its last word, while that is not too old. */
	return is_recent(p->agent_ms, now_ms, PEER_TRUST_MS) &&
			       is_recent(p->confirmed_ms, p->agent_ms, PEER_SILENCE_MS)
		       ? PEER_TRUE
		       : PEER_UNSURE;
}

enum peer_verdict peer_verdict(const struct peer *p, int64_t now_ms)
{
	enum peer_truth in = peer_inbound(p, now_ms), out = peer_outbound(p, now_ms);

	if (in == PEER_TRUE)
		return out == PEER_TRUE ? PEER_UP : out == PEER_FALSE ? PEER_ONE_WAY_RX : PEER_UNKNOWN;
	if (in == PEER_UNSURE || peer_last_heard(p) < 0)
		return PEER_UNKNOWN;
	return out == PEER_TRUE ? PEER_ONE_WAY_TX : PEER_DOWN;
}

int peer_loss_percent(const struct peer *p, int64_t now_ms)
{
	enum peer_channel channel = peer_has_agent(p, now_ms) ? PEER_AGENT : PEER_ECHO;
	int judged = 0, lost = 0;

	for (unsigned i = 0; i < p->n_probes; i++) {
		const struct peer_probe *probe = &p->probes[i];

		if (probe->channel != channel)
			continue;
		if (probe->answered) {
			judged++;
		} else if (now_ms - probe->sent_us / 1000 > PEER_LATE_MS &&
			   (channel == PEER_ECHO || probe->sent_us >= p->agent_since_us)) {
			judged++;
			lost++;
		}
	}
	return judged ? lost * 100 / judged : -1;
}

bool peer_budget_take(struct peer_budget *b, int64_t now_ms)
{
	int64_t back = (now_ms - b->since_ms) * PEER_RATE / 1000;

	if (back > 0) {
		b->spent = back < b->spent ? b->spent - (uint32_t)back : 0;
		b->since_ms = now_ms;
	}
	if (b->spent >= PEER_BURST)
		return false;
	b->spent++;
	return true;
}
