/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints as the socket calls have them (ip(7), ipv6(7)), and back. Pure. */
#ifndef NETCFG_MODEL_SOCKADDR_H
#define NETCFG_MODEL_SOCKADDR_H

#include <sys/socket.h>

#include "netcfg/model/ip.h"

/* PORT in host byte order; no flow label, no scope. Returns the length to hand to the call. */
socklen_t ip_to_sockaddr(const struct ip_addr *a, uint16_t port, struct sockaddr_storage *out);
/* Family IP_NONE for what is neither IPv4 nor IPv6. */
void ip_from_sockaddr(const struct sockaddr_storage *ss, struct ip_endpoint *out);

#endif
