/* SPDX-License-Identifier: Apache-2.0 */
/* By which interface a packet goes or came: IP_PKTINFO (ip(7)) and IPV6_PKTINFO (RFC 3542 6). */
#ifndef VGW_PROBE_PACKET_INFO_H
#define VGW_PROBE_PACKET_INFO_H

#include <sys/socket.h>

#include "netcfg/model/ip.h"

/*
 * The packet of M leaves by that interface (index) and no other, from SOURCE. M has 64 bytes of room for
 * control data, zeroed and aligned as a long.
 */
void packet_info_put(struct msghdr *m, const struct ip_addr *source, int interface);
/* The index of the interface that the received M came by; 0 where the socket was not asked to tell. */
int packet_info_interface(struct msghdr *m);

#endif
