/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spec: the desired state of one gateway, decoded from one JSON document (CONTRACT.md 4). Pure.
 *
 * Strings are never NULL once decoded: what was left out is "" or has its default. Durations are in
 * milliseconds.
 */
#ifndef VGW_MODEL_SPEC_H
#define VGW_MODEL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netcfg/base/buf.h"
#include "netcfg/base/err.h"
#include "netcfg/model/ip.h"

enum spec_limit {
	SPEC_MAX_BYTES = 16 << 20,
	SPEC_MAX_DEPTH = 32,
	SPEC_MAX_FRONTENDS = 10000,
	SPEC_MAX_BACKENDS = 256,
	SPEC_MAX_TUNNELS = 256,
	SPEC_MAX_PROBES = 256,
};

enum spec_role { SPEC_ROLE_GATEWAY, SPEC_ROLE_MANAGEMENT };
enum spec_exposure { SPEC_PUBLIC, SPEC_PRIVATE };
enum spec_balance { SPEC_ROUNDROBIN, SPEC_RANDOM, SPEC_SOURCE };
enum spec_protocol { SPEC_TCP = 6, SPEC_UDP = 17 }; /* IP protocol numbers */
enum spec_none_healthy { SPEC_FAILOPEN, SPEC_REJECT };
enum spec_check_type { SPEC_CHECK_NONE, SPEC_CHECK_TCP, SPEC_CHECK_TLS, SPEC_CHECK_HTTPS };
enum spec_encapsulation { SPEC_VXLAN, SPEC_GENEVE, SPEC_IPIP, SPEC_WIREGUARD, SPEC_ENCAP_NONE };
/* What a frontend is, once class, `internal` and the defaults have been weighed (CONTRACT.md 4, "Which
 * address"). */
enum spec_placement { SPEC_INTERNAL, SPEC_EXTERNAL, SPEC_IGNORED };

/* The load balancer classes that are ours. */
#define SPEC_CLASS_INTERNAL "vco.whitesky.cloud/internal"
#define SPEC_CLASS_PUBLIC   "vco.whitesky.cloud/public"

struct spec_prefixes {
	struct ip_prefix *v;
	size_t n;
};

struct spec_check {
	enum spec_check_type type;
	uint16_t port; /* 0: the backend's own */
	const char *path;
	const int *expect; /* HTTP statuses, as listed */
	size_t n_expect;
	uint32_t interval_ms, timeout_ms;
	uint32_t rise, fall;
	const char *ca; /* PEM text; "" when chain, dates and SANs are only reported */
};

struct spec_backend {
	struct ip_addr address;
	uint16_t port;
	uint8_t weight; /* 0–100; 0 drains */
	bool drain;
};

struct spec_frontend {
	const char *name;
	struct ip_addr address; /* as given; family IP_NONE when left out */
	uint16_t port;
	enum spec_protocol protocol;
	enum spec_balance balance;
	enum spec_none_healthy when_none_healthy;
	struct spec_check check;
	struct spec_backend *backends;
	size_t n_backends;
	const char *load_balancer_class;
	int internal; /* -1 left out, 0, 1 */

	/* Resolved by the decoder: */
	enum spec_placement placement;
	bool control_plane; /* the one named kube-apiserver, else the first on port 6443/TCP */
	uint8_t family; /* of its backends; without any, of `address`, else of the first private network */
	struct ip_addr gateway; /* the address it gets when placed SPEC_INTERNAL: the gateway address of its
				   family; IP_NONE when there is none (refused by the rules) */
};

struct spec_tunnel {
	const char *name;
	const char *interface; /* "": the route to peer_network carries the MTU */
	uint32_t mtu;	       /* 0: auto */
	uint32_t max_mtu;
	const char *peer_cloudspace;
	struct ip_prefix peer_network; /* family IP_NONE when left out */
	struct ip_addr peer_address;   /* family IP_NONE when left out */
};

struct spec_probe {
	const char *name;
	struct ip_endpoint target;
	struct spec_check check; /* same defaults as a health check on the target's port */
};

struct spec_ip_pool {
	struct ip_prefix cidr;
	uint32_t block_size; /* 0 when left out */
};

struct spec {
	int64_t generation;
	const char *cluster;
	enum spec_role role;
	enum spec_exposure exposure;
	const char *cloudspace_id;
	struct spec_prefixes private_networks; /* one, or one of each family */
	bool private_networks_plural;	       /* written as privateNetworks: for JSON pointers only */
	struct ip_addr gateways[2];	       /* first host of each of private_networks, same order */
	bool cloudspace_private;
	struct spec_prefixes geo_networks, pods, services;
	const char *cni_name;
	enum spec_encapsulation encapsulation;
	uint32_t veth_mtu; /* 0 when left out */
	struct spec_ip_pool *ip_pools;
	size_t n_ip_pools;
	const char *addon_ccm;	      /* "", "enabled", "internal" */
	const char *addon_service_lb; /* "", "vco", "vco-internal" */
	bool default_internal;	      /* resolved defaultInternalLoadBalancers */
	struct spec_frontend *frontends;
	size_t n_frontends;
	struct spec_tunnel *tunnels;
	size_t n_tunnels;
	struct spec_probe *probes;
	size_t n_probes;
	bool has_management_access;
	const char *connected_cloudspace; /* "": asks for nothing */

	struct arena *arena; /* owns everything above */
};

/*
 * Decode and check what can be checked in the document alone, per member: types, unknown and duplicate
 * members, ranges, names that must be unique, families (InvalidSpec, `where` a JSON pointer, RFC 6901), and
 * the limits (TooLarge). The rules between members are rules.h's. 0 and *OUT (spec_free), or -EINVAL / -E2BIG
 * / -ENOMEM with ERR filled and *OUT NULL.
 */
int spec_decode(const char *json, size_t len, struct spec **out, struct vgw_err *err);
void spec_free(struct spec *s);

/*
 * The canonical JSON of a spec: members in the contract's order, defaults written out (but those of backends,
 * and but those of frontends where the text would pass SPEC_MAX_BYTES with them), addresses and durations in
 * their normal form. Two documents mean the same when these texts are equal. Appended to OUT.
 */
void spec_encode(const struct spec *s, struct buf *out);
bool spec_equal(const struct spec *a, const struct spec *b);

/* The control-plane frontend (its placement may be anything but SPEC_IGNORED), or NULL. */
const struct spec_frontend *spec_control_plane(const struct spec *s);
/* The gateway address of that family, or NULL. */
const struct ip_addr *spec_gateway(const struct spec *s, uint8_t family);

/* A Go-style duration ("250ms", "1m30s", "1.5s") in ms, rounded up; -EINVAL, or -ERANGE beyond 24 h. */
int spec_duration_parse(const char *text, uint32_t *ms);

/* The canonical text of a duration: whole hours, minutes or seconds, else milliseconds. OUT holds 16 bytes;
 * it is returned. */
const char *spec_duration_print(uint32_t ms, char *out);

/* The words of the contract, for messages and documents. */
const char *spec_protocol_name(enum spec_protocol p);
const char *spec_balance_name(enum spec_balance b);
const char *spec_role_name(enum spec_role r);
const char *spec_exposure_name(enum spec_exposure e);
const char *spec_none_healthy_name(enum spec_none_healthy w);
const char *spec_check_type_name(enum spec_check_type t);
const char *spec_encapsulation_name(enum spec_encapsulation e);

/* Of all frontends together. */
size_t spec_count_backends(const struct spec *s);
/* Bytes the encapsulation costs per packet over that family (CONTRACT.md 4). */
uint32_t spec_encapsulation_overhead(enum spec_encapsulation e, uint8_t family);

#endif
