/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/peer_packet.h"

#include <errno.h>
#include <string.h>

#include "netcfg/model/ip.h"

enum { FLAG_SIZED_REPLY = 1 };

static const uint8_t magic[4] = {'v', 'g', 'w', 'P'};

uint32_t peer_packet_overhead(uint8_t family)
{
	return family == IP_V6 ? 48 : 28;
}

static void put(uint8_t *out, uint64_t value, unsigned bytes)
{
	while (bytes--) {
		out[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static uint64_t get(const uint8_t *in, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | in[i];
	return value;
}

void peer_packet_write(const struct peer_packet *p, uint8_t *out)
{
	memset(out, 0, PEER_HEADER);
	memcpy(out, magic, sizeof(magic));
	out[4] = PEER_VERSION;
	out[5] = (uint8_t)p->type;
	put(out + 6, p->sized_reply ? FLAG_SIZED_REPLY : 0, 2);
	put(out + 8, p->nonce, 8);
	put(out + 16, p->size, 2);
	put(out + 18, p->mtu, 2);
	put(out + 20, p->heard_ms, 4);
}

int peer_packet_read(const uint8_t *data, size_t len, uint8_t family, struct peer_packet *out)
{
	uint64_t flags;
	bool full;

	memset(out, 0, sizeof(*out));
	if (len < PEER_HEADER || memcmp(data, magic, sizeof(magic)) || data[4] != PEER_VERSION)
		return -EINVAL;
	flags = get(data + 6, 2);
	if ((data[5] != PEER_REQUEST && data[5] != PEER_REPLY) || flags & ~(uint64_t)FLAG_SIZED_REPLY)
		return -EINVAL;
	for (size_t i = 24; i < len; i++)
		if (data[i])
			return -EINVAL;
	out->type = (enum peer_type)data[5];
	out->sized_reply = flags & FLAG_SIZED_REPLY;
	out->nonce = get(data + 8, 8);
	out->size = (uint16_t)get(data + 16, 2);
	out->mtu = (uint16_t)get(data + 18, 2);
	out->heard_ms = (uint32_t)get(data + 20, 4);
	full = out->type == PEER_REQUEST || out->sized_reply;
	if (full ? out->size != len + peer_packet_overhead(family) : len != PEER_HEADER)
		return -EINVAL;
	return 0;
}

size_t peer_packet_reply_len(const struct peer_packet *request, uint8_t family)
{
	return request->sized_reply ? request->size - peer_packet_overhead(family) : PEER_HEADER;
}
