/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the path MTU to any address by ICMP or ICMPv6 echo, on the caller's event loop. Requests leave
 * unfragmented (IP_PMTUDISC_PROBE); the answer is as large, so both directions count: what a reply has passed
 * passes there and, unless its sender fragments, back.
 *
 * Takes a raw socket, which needs CAP_NET_RAW, or else a ping socket, which needs a group that the sysctl
 * net.ipv4.ping_group_range allows.
 */
#ifndef VGW_PROBE_ECHO_H
#define VGW_PROBE_ECHO_H

#include <ev.h>

#include "netcfg/base/err.h"
#include "netcfg/model/ip.h"
#include "vgw/model/pmtu_search.h"

struct echo;

struct echo_params {
	struct ip_addr address;
	struct ip_addr source;		  /* family IP_NONE: the kernel's choice */
	uint32_t scope;			  /* index of the interface of a link-local address; else 0 */
	const char *interface;		  /* leave by this one; NULL: as routed. Needed only while starting */
	struct pmtu_search_params search; /* floor 0: that of the family */
};

struct echo_progress {
	uint32_t low, high; /* pmtu_search_range() */
	uint32_t sent;
};

struct echo_result {
	enum pmtu_search_state state; /* DONE or UNKNOWN */
	struct pmtu_search_result path;
	bool raw;  /* by a raw socket, not a ping socket */
	int error; /* UNKNOWN: what the kernel or a router said last, an errno; 0: nothing */
};

/* After each change. May cancel. */
typedef void echo_progress_fn(void *ctx, const struct echo_progress *progress);
/* Exactly once, from the loop, unless cancelled. The search is gone afterwards. */
typedef void echo_done_fn(void *ctx, const struct echo_result *result);

/*
 * NULL with ERR filled when it cannot begin: PermissionDenied, NoRoute, AddressNotAvailable, Failed; then
 * nothing is called. PROGRESS may be NULL.
 */
struct echo *echo_start(struct ev_loop *loop, const struct echo_params *params, echo_progress_fn *progress,
			echo_done_fn *done, void *ctx, struct vgw_err *err);
/* NULL is fine; one that has called `done` is not. */
void echo_cancel(struct echo *e);

#endif
