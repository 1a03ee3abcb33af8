/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network state of one host, as far as it is ours: what is wanted and what is observed have this one
 * form. Canonical: arrays are sorted (netstate_sort) and values compare with memcmp, so every struct is
 * zeroed first. Pure.
 */
#ifndef NETCFG_MODEL_NETSTATE_H
#define NETCFG_MODEL_NETSTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netcfg/base/arena.h"
#include "netcfg/base/buf.h"
#include "netcfg/model/ip.h"

/* IFNAMSIZ of linux/if.h, NUL included; unused bytes are zero. */
enum { NS_IFNAME = 16, NS_SYSCTL_NAME = 64, NS_SYSCTL_VALUE = 16 };

enum ns_balance { NS_ROUNDROBIN, NS_RANDOM, NS_SOURCE };

/* One address, IP protocol number and port. */
struct ns_port {
	struct ip_endpoint at;
	uint8_t protocol; /* 6 TCP, 17 UDP */
};

/*
 * A balanced port. A new flow takes one of the slots: in turn, at random, or by a hash of its source address.
 * No slots: new flows are refused. Weights and verdicts are already in the slots.
 */
struct ns_service {
	struct ns_port port;
	uint8_t balance; /* enum ns_balance */
	const struct ip_endpoint *slots;
	size_t n_slots;
};

/*
 * A kind of service that there may soon be: as many slots as a service that is there has with another verdict
 * on one of its backends. Its rule is there beforehand, so that a verdict changes elements only.
 */
struct ns_prospect {
	uint32_t n_slots;
	uint8_t balance, protocol; /* as in struct ns_service and ns_port */
	bool v6;
	bool several; /* the slots are of more than one backend */
};

/* Where packets to guarded ports may come from when no interface of their own carries them. */
struct ns_peer {
	char interface[NS_IFNAME]; /* arriving there; "" : decrypted by IPsec */
	struct ip_prefix network;
};

struct ns_guard {
	char private_if[NS_IFNAME];  /* its clients are masqueraded; "" none */
	char external_if[NS_IFNAME]; /* "" none */
	char (*allowed)[NS_IFNAME];  /* interfaces that reach guarded ports */
	size_t n_allowed;
	struct ns_peer *peers;
	size_t n_peers;
	struct ns_port *ports; /* the guarded ones */
	size_t n_ports;
	struct ip_prefix *private_networks;
	size_t n_private_networks;
	struct ip_prefix *shielded; /* those and what lies behind the tunnels */
	size_t n_shielded;
	bool shield;	 /* new connections from outside into `shielded` are dropped */
	bool cut_egress; /* nothing is forwarded between them and the external interface */
};

/* TCP MSS of what leaves and enters: by interface, or by network where no interface of its own carries the
 * tunnel. */
struct ns_clamp {
	char interface[NS_IFNAME];
	struct ip_prefix network; /* family IP_NONE with an interface */
	uint32_t mtu;		  /* bytes, of the IP packet */
};

struct ns_link {
	char name[NS_IFNAME];
	uint32_t mtu;
};

/*
 * A route of ours that carries an MTU to a network, the same way as the route that leads there without us:
 * that one stays as it is, and ours is preferred (IPv4: in front of it; IPv6: a smaller metric).
 */
struct ns_route {
	struct ip_prefix network;
	uint32_t mtu;
	uint32_t table, metric;
	char interface[NS_IFNAME];
	struct ip_addr gateway; /* family IP_NONE: on link */
	struct ip_addr source;	/* preferred source; family IP_NONE: none */
};

struct ns_sysctl {
	char name[NS_SYSCTL_NAME]; /* below /proc/sys, with slashes: "net/ipv4/ip_forward" */
	char value[NS_SYSCTL_VALUE];
};

struct netstate {
	bool table; /* the nftables table is wanted (or there) at all */
	struct ns_service *services;
	size_t n_services;
	struct ns_prospect *prospects; /* distinct */
	size_t n_prospects;
	struct ns_guard guard;
	struct ns_clamp *clamps;
	size_t n_clamps;
	struct ns_link *links;
	size_t n_links;
	struct ns_route *routes;
	size_t n_routes;
	struct ns_sysctl *sysctls;
	size_t n_sysctls;
};

int ns_port_cmp(const struct ns_port *a, const struct ns_port *b);
int ns_service_cmp(const struct ns_service *a, const struct ns_service *b); /* by port alone */
bool ns_service_equal(const struct ns_service *a, const struct ns_service *b);
int ns_prospect_cmp(const struct ns_prospect *a, const struct ns_prospect *b);
/* The service of that port in a sorted array, or NULL. */
struct ns_service *ns_service_find(struct ns_service *v, size_t n, const struct ns_port *port);
/* Sorts every array in place. */
void netstate_sort(struct netstate *s);

/* "192.168.150.1:6443/TCP" appended. */
void ns_port_print(const struct ns_port *p, struct buf *out);
/* "192.168.150.1:6443/TCP roundrobin -> 192.168.150.11:6443 192.168.150.12:6443*2", slots counted; "->
 * refused". */
void ns_service_print(const struct ns_service *s, struct buf *out);
const char *ns_balance_name(uint8_t balance);

#endif
