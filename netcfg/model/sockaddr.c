/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/model/sockaddr.h"

#include <arpa/inet.h>
#include <string.h>

socklen_t ip_to_sockaddr(const struct ip_addr *a, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *in = (struct sockaddr_in *)out;

	memset(out, 0, sizeof(*out));
	if (a->family == IP_V6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		memcpy(&in6->sin6_addr, a->bytes, 16);
		return sizeof(*in6);
	}
	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	memcpy(&in->sin_addr, a->bytes, 4);
	return sizeof(*in);
}

void ip_from_sockaddr(const struct sockaddr_storage *ss, struct ip_endpoint *out)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;
	const struct sockaddr_in *in = (const struct sockaddr_in *)ss;

	memset(out, 0, sizeof(*out));
	if (ss->ss_family == AF_INET6) {
		out->addr.family = IP_V6;
		out->port = ntohs(in6->sin6_port);
		memcpy(out->addr.bytes, &in6->sin6_addr, 16);
	} else if (ss->ss_family == AF_INET) {
		out->addr.family = IP_V4;
		out->port = ntohs(in->sin_port);
		memcpy(out->addr.bytes, &in->sin_addr, 4);
	}
}
