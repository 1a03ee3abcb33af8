/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: any bytes as a probe packet. What is taken is written as the same bytes, and its reply is no
 * larger. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/model/ip.h"
#include "vgw/model/peer_packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void try_family(const uint8_t *data, size_t size, uint8_t family)
{
	struct peer_packet p, again;
	uint8_t header[PEER_HEADER];

	if (peer_packet_read(data, size, family, &p) < 0)
		return;
	peer_packet_write(&p, header);
	check(!memcmp(header, data, PEER_HEADER));
	check(peer_packet_read(data, size, family, &again) == 0 && again.nonce == p.nonce);
	if (p.type == PEER_REQUEST)
		check(peer_packet_reply_len(&p, family) <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_family(data, size, IP_V4);
	try_family(data, size, IP_V6);
	return 0;
}
