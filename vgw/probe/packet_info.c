/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/packet_info.h"

#include <netinet/in.h>
#include <string.h>

int packet_info_interface(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct in_pktinfo v4;
		struct in6_pktinfo v6;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			memcpy(&v4, CMSG_DATA(c), sizeof(v4));
			return v4.ipi_ifindex;
		}
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			memcpy(&v6, CMSG_DATA(c), sizeof(v6));
			return (int)v6.ipi6_ifindex;
		}
	}
	return 0;
}

bool packet_info_error(struct msghdr *m, struct sock_extended_err *out)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		const uint8_t *end = (const uint8_t *)m->msg_control + m->msg_controllen;

		if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
		    !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			continue;
		if (c->cmsg_len < CMSG_LEN(sizeof(*out)) ||
		    (size_t)(end - (const uint8_t *)c) < CMSG_LEN(sizeof(*out)))
			return false;
		memcpy(out, CMSG_DATA(c), sizeof(*out));
		return true;
	}
	return false;
}

void packet_info_put(struct msghdr *m, const struct ip_addr *source, int interface)
{
	struct in_pktinfo v4 = {.ipi_ifindex = interface};
	struct in6_pktinfo v6 = {.ipi6_ifindex = (unsigned)interface};
	bool is_v6 = source->family == IP_V6;
	size_t size = is_v6 ? sizeof(v6) : sizeof(v4);
	struct cmsghdr *c = CMSG_FIRSTHDR(m);

	memcpy(&v4.ipi_spec_dst, source->bytes, 4);
	memcpy(&v6.ipi6_addr, source->bytes, 16);
	c->cmsg_level = is_v6 ? IPPROTO_IPV6 : IPPROTO_IP;
	c->cmsg_type = is_v6 ? IPV6_PKTINFO : IP_PKTINFO;
	c->cmsg_len = CMSG_LEN(size);
	m->msg_controllen = CMSG_SPACE(size);
	memcpy(CMSG_DATA(c), is_v6 ? (void *)&v6 : (void *)&v4, size);
}
