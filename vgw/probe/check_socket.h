/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP part of a check: opening a connection without waiting for it, and what its errors mean. Inside
 * vgw/probe only. */
#ifndef VGW_PROBE_CHECK_SOCKET_H
#define VGW_PROBE_CHECK_SOCKET_H

#include "netcfg/model/ip.h"
#include "vgw/model/health.h"

/*
 * Begin to connect to TARGET from SOURCE (family IP_NONE: the kernel's choice). 0 with *FD set: connected or
 * on the way, close(2) it. -EAGAIN: memory, descriptors or local ports are out. -ECONNABORTED: over already,
 * and OUT says why.
 */
int check_socket_open(const struct ip_endpoint *target, const struct ip_addr *source, int *fd,
		      struct check_result *out);

/* How the connecting went, once FD is writable: 0, or -ECONNABORTED with the reason in OUT. */
int check_socket_connected(int fd, struct check_result *out);

#endif
