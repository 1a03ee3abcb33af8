/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe packet that two agents exchange through a tunnel: UDP, a fixed header, zeroes up to the size that
 * is being tried. Pure.
 *
 * All integers in network byte order:
 *   0  "vgwP"
 *   4  version, 1
 *   5  type: 1 request, 2 reply
 *   6  flags: 1 the reply is to be as large as the request
 *   8  nonce (64 bits): the reply repeats it
 *  16  size of the request's IP packet, headers included, in bytes
 *  18  path MTU that the sender has measured towards the receiver; 0 none
 *  20  ms since the sender last heard the receiver; 2^32-1 never
 *  24  zeroes up to 32
 *
 * A reply is never larger than its request: whoever forges a source address gains nothing.
 */
#ifndef VGW_MODEL_PEER_PACKET_H
#define VGW_MODEL_PEER_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PEER_HEADER = 32, PEER_VERSION = 1, PEER_PACKET_MAX = 65535 };
#define PEER_NEVER UINT32_MAX

enum peer_type { PEER_REQUEST = 1, PEER_REPLY = 2 };

struct peer_packet {
	enum peer_type type;
	bool sized_reply;
	uint64_t nonce;
	uint16_t size;	   /* bytes of the IP packet */
	uint16_t mtu;	   /* bytes; 0 none */
	uint32_t heard_ms; /* PEER_NEVER, or how long ago */
};

/* Bytes of IP and UDP header before the payload: RFC 791, RFC 8200, RFC 768. */
uint32_t peer_packet_overhead(uint8_t family);

/* Writes the header to OUT (PEER_HEADER bytes); what follows it is zeroes. */
void peer_packet_write(const struct peer_packet *p, uint8_t *out);

/*
 * A payload of LEN bytes that came over FAMILY. -EINVAL for anything that peer_packet_write() and zeroes
 * would not have made: another size than it says, unknown flags, padding that is not zero.
 */
int peer_packet_read(const uint8_t *data, size_t len, uint8_t family, struct peer_packet *out);

/* Bytes of payload of the reply to a request. */
size_t peer_packet_reply_len(const struct peer_packet *request, uint8_t family);

#endif
