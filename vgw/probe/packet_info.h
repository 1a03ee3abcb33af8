/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes beside a packet: by which interface it goes or came, IP_PKTINFO (ip(7)) and IPV6_PKTINFO (RFC
 * 3542 6); and what became of an earlier one, IP_RECVERR (ip(7), linux/errqueue.h).
 */
#ifndef VGW_PROBE_PACKET_INFO_H
#define VGW_PROBE_PACKET_INFO_H

#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h>

#include "netcfg/model/ip.h"

/*
 * The packet of M leaves by that interface (index) and no other, from SOURCE. M has 64 bytes of room for
 * control data, zeroed and aligned as a long.
 */
void packet_info_put(struct msghdr *m, const struct ip_addr *source, int interface);
/* The index of the interface that the received M came by; 0 where the socket was not asked to tell. */
int packet_info_interface(struct msghdr *m);
/* The error that M, from a socket's error queue, is about; false for none, or one cut short. */
bool packet_info_error(struct msghdr *m, struct sock_extended_err *out);

#endif
