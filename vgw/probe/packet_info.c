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
