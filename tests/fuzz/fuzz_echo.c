/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an echo socket reads: replies, quotations in errors, and the control messages of the error queue. The
 * first byte chooses which; the second and third are the packet's full length.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "netcfg/model/ip.h"
#include "vgw/probe/echo_packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool true_thing)
{
	if (!true_thing)
		abort();
}

static void read_reply(uint8_t family, bool ip_header, const uint8_t *data, size_t len, size_t full)
{
	struct echo_head head;
	uint8_t again[ECHO_HEAD];
	size_t skip = ip_header ? (size_t)(len ? data[0] & 0x0f : 0) * 4 : 0;

	if (echo_read_reply(family, ip_header, data, len, full, &head))
		return;
	must(head.tagged && len <= full && len >= skip + ECHO_HEAD);
	must(head.size == full - skip + echo_ip_header(family));
	echo_encode(family, &head, again);
	must(!memcmp(again + 4, data + skip + 4, ECHO_HEAD - 4));
}

static void read_quote(uint8_t family, const uint8_t *data, size_t len)
{
	struct echo_head head;
	uint8_t again[ECHO_HEAD];

	if (echo_read_quote(family, data, len, &head))
		return;
	must(head.tagged == (len >= ECHO_HEAD));
	echo_encode(family, &head, again);
	must(again[0] == data[0] && !memcmp(again + 4, data + 4, head.tagged ? ECHO_HEAD - 4 : 4));
}

static void read_error(const uint8_t *data, size_t len)
{
	struct echo_error error;
	/* malloc: aligned as the kernel's is, and reading past it is seen */
	uint8_t *control = malloc(len ? len : 1);
	struct msghdr m = {.msg_control = control, .msg_controllen = len};

	if (!control)
		return;
	if (len)
		memcpy(control, data, len);
	if (!echo_read_error(&m, &error))
		must(error.mtu <= 65535 && (error.code == EMSGSIZE || !error.mtu));
	free(control);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t choice, family;
	size_t full, len;
	uint8_t *copy;

	if (size < 3)
		return 0;
	choice = data[0];
	family = choice & 4 ? IP_V6 : IP_V4;
	full = (size_t)data[1] << 8 | data[2];
	len = size - 3;
	copy = malloc(len ? len : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 3, len);
	switch (choice & 3) {
	case 0:
	case 1:
		read_reply(family, choice & 1, copy, len, full);
		break;
	case 2:
		read_quote(family, copy, len);
		break;
	case 3:
		read_error(copy, len);
		break;
	}
	free(copy);
	return 0;
}
