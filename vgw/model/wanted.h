/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel should have: a spec, the verdicts in force and a few facts of the host. Pure. */
#ifndef VGW_MODEL_WANTED_H
#define VGW_MODEL_WANTED_H

#include "netcfg/model/netstate.h"
#include "vgw/model/spec.h"

/* One backend, by its checks. */
struct wanted_verdict {
	bool in_rotation;
	bool refuses; /* last check refused: left out even when failing open */
};

enum wanted_frontend_state {
	WANTED_IGNORED,
	WANTED_PENDING,
	WANTED_REFUSES,
	WANTED_FAILS_OPEN,
	WANTED_BALANCED
};

/* What is known of one tunnel's interface, and of its path where its MTU is `auto`. All MTUs in bytes. */
struct wanted_tunnel {
	uint32_t mtu; /* measured; 0: not yet */
	/*
	 * The link's MTU for the length of a search upwards, bytes; 0: none runs. An own route to the peer's
	 * network and the clamp hold what is in use meanwhile, so that only probes get larger.
	 */
	uint32_t raised;
	uint32_t link_mtu;	   /* the interface's; 0: it has none, or it is not there */
	uint32_t min_mtu, max_mtu; /* what the interface takes; 0: no bound is known */
	uint32_t refused;	   /* what the kernel has refused to the interface as it is; 0: nothing */
	bool ipv6;		   /* the interface is used for IPv6 */
};

/* A tunnel's MTU, in bytes. */
struct wanted_mtu {
	uint32_t asked; /* by the spec: the number, or with `auto` the measured one, at most maxMTU */
	uint32_t set;	/* what its link or route is to have */
	uint32_t minimum, maximum; /* what can be had, as far as is known; 0: no bound is */
	bool out_of_range;	   /* what is asked for cannot be had, so something else is set */
};

struct wanted_host {
	const char *private_if, *external_if; /* "" : not known */
	const char *const *trusted;
	size_t n_trusted;
	struct ip_addr
		external[2];   /* the external interface's address, IPv4 and IPv6; family IP_NONE: none */
	struct ip_addr own[2]; /* where the probe port is: gateway address, or the management VM's own */
	const struct ip_endpoint *control; /* control listeners, no wildcards */
	size_t n_control;
	uint16_t probe_port;
	/* A tunnel's route without ours, parallel to the spec's tunnels; network family IP_NONE: none leads
	 * there. */
	const struct ns_route *origins;
	const struct wanted_tunnel *tunnels; /* parallel to the spec's; NULL: nothing is known */
	size_t n_tunnels;
	bool accept_ra; /* the external interface listens to router advertisements */
};

/* VERDICTS[f][b] for frontend f and backend b; a NULL row means no verdicts: all in rotation. */
struct wanted_input {
	const struct spec *spec; /* NULL: nothing is wanted */
	const struct wanted_host *host;
	const struct wanted_verdict *const *verdicts;
};

/* Everything lives in ARENA, sorted. 0 or -ENOMEM. */
int wanted_make(const struct wanted_input *in, struct arena *arena, struct netstate *out);

/* Where a frontend listens: false while that is not known (or never, for an ignored one). */
bool wanted_port(const struct spec_frontend *f, const struct wanted_host *host, struct ns_port *out);
/* The service of one frontend that has a port, its slots in ARENA. 0 or -ENOMEM. */
int wanted_service(const struct spec_frontend *f, const struct wanted_host *host,
		   const struct wanted_verdict *verdicts, struct arena *arena, struct ns_service *out);
/* 0–100; 0 for a backend that the spec lets take no new flows. */
uint32_t wanted_weight(const struct spec_backend *b);
uint8_t wanted_balance(enum spec_balance b); /* enum ns_balance */
/* What new flows to a frontend meet. */
enum wanted_frontend_state wanted_state(const struct spec_frontend *f, const struct wanted_host *host,
					const struct wanted_verdict *verdicts);
/*
 * The MTU of the spec's tunnel of that index: of all that share its interface or network the smallest. It
 * must be one that the interface takes, and where IPv6 is in use 1280 at least (RFC 8200 5: below that the
 * kernel takes IPv6 off an interface).
 */
void wanted_tunnel_mtu(const struct spec *spec, const struct wanted_host *host, size_t tunnel,
		       struct wanted_mtu *out);

#endif
