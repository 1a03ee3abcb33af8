/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the other end of one tunnel: whether it hears us and we hear it, how far away it is, how
 * much gets lost. Pure: times are arguments, in ms or µs (by their names) of one clock that never goes back.
 *
 * Two agents tell each other in every packet how long ago they last heard the other, so that each knows both
 * directions. One end that hears nothing at all cannot know whether it is heard: whatever would tell it would
 * have to come the way that is silent. It has the peer's last word, which was said before the silence, and
 * which counts for PEER_TRUST_MS; after that the tunnel is down for it. The end that still hears knows for
 * certain that it is not heard, for as long as that is so, and that is what tells a tunnel that carries one
 * direction from one that carries none. A peer without an agent is asked by ICMP echo, which goes both ways
 * or not at all; one whose agent has fallen silent as well.
 */
#ifndef VGW_MODEL_PEER_H
#define VGW_MODEL_PEER_H

#include "vgw/model/peer_packet.h"

enum {
	PEER_INTERVAL_MS = 1000, /* between small probes */
	PEER_HASTE_MS = 200,	 /* the same, while nothing is known of a new peer */
	PEER_HASTE = 10,	 /* so many of them */
	PEER_LATE_MS = 1000,	 /* without an answer for so long: lost */
	PEER_SILENCE_MS = 3500,	 /* three probes and a bit: a direction that carries nothing */
	PEER_TRUST_MS = 8000,	 /* how long a silent agent's word that it heard us counts */
	PEER_WORD_MS = 60000,	 /* how long a silent agent is taken to be there */
	PEER_WINDOW = 30,	 /* probes that loss is counted over */
};

/* How a peer is asked. */
enum peer_channel { PEER_AGENT, PEER_ECHO };

/* The words of CONTRACT.md's tunnel states. */
enum peer_verdict {
	PEER_ABSENT,
	PEER_UNKNOWN,
	PEER_UP,
	PEER_DOWN,
	PEER_ONE_WAY_TX,
	PEER_ONE_WAY_RX,
	PEER_BLACK_HOLE,
	PEER_NO_ROUTE,
};

enum peer_truth { PEER_FALSE, PEER_TRUE, PEER_UNSURE };

struct peer_probe {
	uint64_t nonce;
	int64_t sent_us;
	enum peer_channel channel;
	bool answered;
};

struct peer {
	int64_t started_ms;
	struct peer_probe probes[PEER_WINDOW]; /* a ring of the latest small ones */
	unsigned n_probes, next;
	uint64_t sent;		      /* small probes, ever */
	int64_t agent_ms, echo_ms;    /* when it was last heard, by channel; below 0 never */
	int64_t confirmed_ms;	      /* the latest moment at which it is known to have heard us */
	int64_t refused_ms;	      /* no agent listens there, it said */
	int64_t agent_since_us;	      /* what was sent to an agent before is not lost */
	double rtt_ms;		      /* smoothed as TCP does (RFC 6298: 1/8); below 0 not known */
	uint32_t reverse_mtu;	      /* from there to here, as its agent has measured; 0 none */
	enum peer_channel rtt_source; /* of rtt_ms */
};

void peer_init(struct peer *p, int64_t now_ms);

/* Ms until the next small probe after the one of now. */
int64_t peer_interval(const struct peer *p);
/* Whether the small probe of now goes out as an echo request as well. */
bool peer_wants_echo(const struct peer *p, int64_t now_ms);
/* A small probe goes out. NONCE is not to be guessed. */
void peer_sent(struct peer *p, enum peer_channel channel, uint64_t nonce, int64_t now_us);

/* What the next packet to the peer says. */
uint32_t peer_heard_ago(const struct peer *p, int64_t now_ms);

/*
 * A packet of the peer's agent came. True unless it is a reply to none of the small probes: a larger one, or
 * one that nobody asked for; KNOWN_NONCE says that the caller sent it. A reply that nobody asked for changes
 * nothing.
 */
bool peer_take(struct peer *p, const struct peer_packet *packet, bool known_nonce, int64_t now_us);
/* An echo came back. False when no small probe has the nonce. */
bool peer_take_echo(struct peer *p, uint64_t nonce, bool known_nonce, int64_t now_us);
/* The peer's host says that nobody listens on the probe port. */
void peer_refused(struct peer *p, int64_t now_ms);

/*
 * What a peer may cost us: replies are sent at this rate at most, and PEER_BURST at once. A search of the
 * largest range takes a few hundred.
 */
enum { PEER_RATE = 1000, PEER_BURST = 400 };
struct peer_budget {
	int64_t since_ms;
	uint32_t spent;
};
/* True, and one more spent, while there is something left. */
bool peer_budget_take(struct peer_budget *b, int64_t now_ms);

/* Whether an agent is there, as far as is known. */
bool peer_has_agent(const struct peer *p, int64_t now_ms);
/* We are heard; we hear. */
enum peer_truth peer_outbound(const struct peer *p, int64_t now_ms);
enum peer_truth peer_inbound(const struct peer *p, int64_t now_ms);
/* By the packets alone: PEER_UNKNOWN, PEER_UP, PEER_DOWN (heard once, and no more), or a one-way tunnel. */
enum peer_verdict peer_verdict(const struct peer *p, int64_t now_ms);
/* Lost small probes of the latest PEER_WINDOW, 0 to 100; below 0 while none can be judged. */
int peer_loss_percent(const struct peer *p, int64_t now_ms);
/* When it was last heard; below 0 never. */
int64_t peer_last_heard(const struct peer *p);

#endif
