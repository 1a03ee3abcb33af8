/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Echo requests and replies (RFC 792, RFC 4443 4) as bytes, and what the kernel's error queue says of them.
 * No system call. All that is read here is foreign.
 */
#ifndef VGW_PROBE_ECHO_PACKET_H
#define VGW_PROBE_ECHO_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msghdr;

enum {
	ECHO_HEADER = 8,	      /* of ICMP */
	ECHO_HEAD = ECHO_HEADER + 16, /* with our tag: nonce, id, size */
};

/* What a request says, and a reply or a quotation repeats. */
struct echo_head {
	uint16_t ident, seq;
	bool tagged;	/* the rest is there: a router may quote no more than the eight bytes before it */
	uint64_t nonce; /* of the search */
	uint32_t id;	/* of the probe */
	uint32_t size;	/* of the whole IP packet */
};

/* Without options: 20 or 40 (RFC 791, RFC 8200). */
size_t echo_ip_header(uint8_t family);

/* The first ECHO_HEAD bytes of a request, checksum zero. */
void echo_encode(uint8_t family, const struct echo_head *head, uint8_t out[ECHO_HEAD]);
/* The Internet checksum (RFC 1071), in pieces: start with 0; all pieces but the last have even lengths. */
uint32_t echo_sum(uint32_t sum, const uint8_t *data, size_t len);
/* To be put into bytes 2 and 3. */
void echo_put_checksum(uint8_t *packet, uint32_t sum);

/*
 * A received packet of FULL bytes, of which the first LEN are in DATA; with its IP header in front as raw
 * IPv4 sockets have it, or without. 0 for a reply with a tag whose size is that of the packet, else -EBADMSG.
 */
int echo_read_reply(uint8_t family, bool ip_header, const uint8_t *data, size_t len, size_t full,
		    struct echo_head *out);

/* Our own request, as far as an error quotes it, from the ICMP header on. 0 or -EBADMSG. */
int echo_read_quote(uint8_t family, const uint8_t *data, size_t len, struct echo_head *out);

struct echo_error {
	bool local;   /* this host says so, not another */
	int code;     /* errno: EMSGSIZE, EHOSTUNREACH, … */
	uint32_t mtu; /* with EMSGSIZE; 0 when none is named */
};

/* The extended error among the control messages of M. 0, or -EBADMSG when there is none of use. */
int echo_read_error(struct msghdr *m, struct echo_error *out);

#endif
