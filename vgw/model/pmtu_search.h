/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the exact path MTU: which sizes to probe next, and what follows from the answers. Pure: it
 * sends nothing and reads no clock. Who uses it sends what it asks for, and tells it what comes back.
 *
 * Sizes are bytes of the whole IP packet, its IP header included. Times are microseconds of any clock that
 * is never set back. Every packet is sent unfragmented, whatever the kernel has learnt about the path
 * (IP_PMTUDISC_PROBE).
 *
 *   pmtu_search_init(&s, &params, now);
 *   for (;;) {
 *           while (pmtu_search_next(&s, now, &probe))
 *                   send probe.size bytes, with probe.id in them;
 *           if (pmtu_search_result(&s, now, &result) != PMTU_SEARCH_RUNNING)
 *                   break;
 *           wait for packets, but not longer than pmtu_search_wait(&s, now);
 *           read ALL packets and errors that are there, and tell of each: _reply, _report, _too_big;
 *   }
 *
 * Reading all that is there before the next pmtu_search_next() matters: an answer that has arrived must not
 * be taken for a loss because the program was late.
 *
 * A reply proves that its size passes. A loss proves nothing: many sizes are in flight at once, the range
 * shrinks to what lies between the largest reply and the smallest loss, and at the end the size above the
 * result is lost so many times, among smaller packets that do come back, that chance is ruled out (1 in a
 * million at the loss that was seen). Whatever is answered later after all takes a loss back.
 */
#ifndef VGW_MODEL_PMTU_SEARCH_H
#define VGW_MODEL_PMTU_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PMTU_FLOOR_V4 = 576,  /* RFC 791: what every host must take */
	PMTU_FLOOR_V6 = 1280, /* RFC 8200 5: the minimum link MTU */
	PMTU_CEILING = 65535, /* the largest IPv4 packet, and near enough for IPv6 */
};

enum pmtu_search_state {
	PMTU_SEARCH_RUNNING,
	PMTU_SEARCH_DONE,    /* the MTU is exact */
	PMTU_SEARCH_UNKNOWN, /* given up: no answers, or too few to be sure */
};

enum pmtu_verdict {
	PMTU_UNKNOWN,
	PMTU_WORKING,	 /* a sender that believes the reports gets through, or nothing bigger was lost */
	PMTU_BLACK_HOLE, /* bigger packets vanish in silence, or with reports that do not help */
};

struct pmtu_search_params {
	uint32_t floor;	   /* the smallest size to try; it must pass, or the result is UNKNOWN */
	uint32_t ceiling;  /* the largest: the device's MTU or a limit that was asked for; at most 65535 */
	uint32_t expected; /* tried first, with its neighbour: the last known value; 0: none */
};

struct pmtu_search_probe {
	uint32_t id; /* counts from 1: never the same twice in a search */
	uint32_t size;
};

struct pmtu_search_result {
	uint32_t mtu; /* 0 unless DONE */
	enum pmtu_verdict pmtud;
	bool at_ceiling;    /* the largest size that could be tried: the path may carry more */
	int64_t elapsed_us; /* until the end, or so far */
	int64_t rtt_us;	    /* smoothed; -1 before the first reply */
	uint32_t sent;	    /* packets */
	uint32_t replies;   /* of them answered */
	uint32_t fit, lost; /* of those that fit: how many there were, and how many got no answer */
	uint32_t rounds;    /* of planning */
};

/* -- the search's own; nothing here is to be touched -- */

enum {
	PMTU_SEARCH_FAN = 16,	 /* sizes that a round tries at once */
	PMTU_SEARCH_FLIGHT = 96, /* packets whose fate is open */
	PMTU_SEARCH_LOSSES = 64, /* sizes that are remembered as lost */
	PMTU_SEARCH_QUEUE = 64,	 /* packets that are about to be sent */
};

struct pmtu_search {
	struct pmtu_search_params params;
	enum pmtu_search_state state;
	uint32_t low;		      /* the largest size that came back; 0: none yet */
	uint32_t top;		      /* the largest that this host can send, or was asked for */
	uint32_t hinted;	      /* the report that was followed last */
	uint32_t told_size, told_mtu; /* the most modest report about a size above `low`; told_size 0: none */

	uint32_t next_id;
	struct pmtu_search_flight {
		int64_t sent_us;
		uint32_t id, size;
		bool over;	   /* waited for long enough; kept so that a late reply is understood */
		bool counted_lost; /* it was small enough to fit */
	} flight[PMTU_SEARCH_FLIGHT];
	struct pmtu_search_loss {
		uint32_t size, n;
	} lost[PMTU_SEARCH_LOSSES]; /* above `low`, sorted by size */
	uint32_t queue[PMTU_SEARCH_QUEUE];
	size_t n_flight, n_lost, n_queue;

	/* A verification: the size above `low` many times, packets of `low` between and after them. */
	bool verifying, heard_floor, heard_tail;
	uint32_t first_id; /* its first packet */
	uint32_t tail_id;  /* the first of the tail: what comes back of it was sent after the others */
	size_t tail;	   /* how many packets the tail has */
	uint32_t n_low, heard_low; /* packets of `low`: sent and come back */
	uint32_t voids;		   /* verifications in a row that showed nothing */

	int64_t started_us, ended_us, next_send_us, gap_us, knock_us;
	int64_t srtt_us, rttvar_us;
	uint32_t knocks, sent, replies, fit, fit_lost, rounds;
	uint32_t calm_fit, calm_lost; /* the last two when the pace was last changed */
};

/* -- the interface -- */

/* A floor above the ceiling becomes the ceiling; zeroes become the floor of IPv4 and PMTU_CEILING. */
void pmtu_search_init(struct pmtu_search *s, const struct pmtu_search_params *params, int64_t now_us);

/*
 * True with a packet in OUT that is to be sent now and counts as sent now. Call until it is false. Packets
 * are spaced, at first by half a millisecond, so that they do not fill a queue on the way.
 */
bool pmtu_search_next(struct pmtu_search *s, int64_t now_us, struct pmtu_search_probe *out);

/* How long nothing need be done unless something arrives; 0 when there is something to do at once. */
int64_t pmtu_search_wait(const struct pmtu_search *s, int64_t now_us);

/*
 * Probe ID came back in full. The caller has checked that the packet is an answer to that very probe (by its
 * nonce) and that it was as long. Late ones and duplicates are welcome.
 */
void pmtu_search_reply(struct pmtu_search *s, uint32_t id, uint32_t size, int64_t now_us);

/*
 * This host's kernel refused to send probe ID (EMSGSIZE): MTU is what it names (the error queue's ee_info),
 * 0 when it names none. It is believed.
 */
void pmtu_search_too_big(struct pmtu_search *s, uint32_t id, uint32_t size, uint32_t mtu, int64_t now_us);

/*
 * An ICMP "fragmentation needed" (RFC 1191) or "packet too big" (RFC 8201) quotes a probe of SIZE and names
 * MTU, 0 when it names none. It is a hint: it chooses the sizes to try next and decides the verdict, and
 * never ends the wait for a reply.
 */
void pmtu_search_report(struct pmtu_search *s, uint32_t size, uint32_t mtu, int64_t now_us);

/* Probe ID could not be sent for lack of room (EAGAIN, ENOBUFS): it will be asked for again, later. */
void pmtu_search_unsent(struct pmtu_search *s, uint32_t id, uint32_t size, int64_t now_us);

/* OUT is filled in every state. */
enum pmtu_search_state pmtu_search_result(const struct pmtu_search *s, int64_t now_us,
					  struct pmtu_search_result *out);

/* For progress: the largest size that came back (0: none), and the largest that still may. */
void pmtu_search_range(const struct pmtu_search *s, uint32_t *low, uint32_t *high);

/* "Unknown", "Working", "BlackHole". */
const char *pmtu_verdict_name(enum pmtu_verdict v);

#endif
