/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the spec's decoder share. */
#ifndef VGW_MODEL_SPEC_INTERNAL_H
#define VGW_MODEL_SPEC_INTERNAL_H

#include "netcfg/base/arena.h"
#include "vgw/model/json_reader.h"
#include "vgw/model/spec.h"

enum {
	SPEC_API_PORT = 6443,	 /* where a Kubernetes API server listens, and what that implies */
	SPEC_NAME_MAX = 253,	 /* as Kubernetes' names (RFC 1123 subdomains) */
	SPEC_PATH_MAX = 1024,	 /* of a check */
	SPEC_NETWORKS_MAX = 256, /* geo networks, IP pools */
	SPEC_EXPECT_MAX = 500,	 /* HTTP statuses: there are no more */
	SPEC_MTU_MIN = 576,	 /* RFC 791: what every host takes */
	SPEC_MTU_MAX = 65535,
};

struct spec_decoder {
	struct spec *spec;
	struct json_reader reader;
};

/* Zeroed memory of the spec's arena, or NULL and a latched failure. */
void *spec_alloc(struct spec_decoder *d, size_t n, size_t size);
/* A copy in the spec's arena; "" after a failure. */
const char *spec_copy(struct spec_decoder *d, const char *s);
/* A string without control characters of at most SPEC_NAME_MAX bytes; "" when left out. */
const char *spec_read_text(struct spec_decoder *d, const struct json_value *v);
/* The same, required and not empty. */
const char *spec_read_name(struct spec_decoder *d, const struct json_value *v);
/* An address a packet can be sent to. OUT is IP_NONE when left out. */
void spec_read_address(const struct json_value *v, bool link_local, struct ip_addr *out);

/* A network with room for hosts, unless ANY_LENGTH. OUT is IP_NONE when left out. */
void spec_read_network(const struct json_value *v, bool any_length, struct ip_prefix *out);
/* An array of networks, at most one of each family. */
void spec_read_dual(struct spec_decoder *d, const struct json_value *v, struct spec_prefixes *out);

/* NULL, or why packets cannot be sent to A ("a loopback"). Of the link-local ones, IPv4's may do for
 * LINK_LOCAL. */
const char *spec_unusable(const struct ip_addr *a, bool link_local);

/* How the elements of an array are told apart. */
struct spec_order {
	int (*cmp)(const void *a, const void *b);
	const char *key;     /* the member to name in a refusal; NULL for the element */
	const char *message; /* of that refusal */
};
/* Refuse the second of two equal elements. V: what was read from ARRAY, N elements of SIZE bytes. */
void spec_read_unique(struct spec_decoder *d, const struct json_value *array, const void *v, size_t n,
		      size_t size, const struct spec_order *order);

/* The members of a check, for those who read it together with their own. */
enum { HC_TYPE, HC_PATH, HC_EXPECT, HC_INTERVAL, HC_TIMEOUT, HC_RISE, HC_FALL, HC_CA, HC_MEMBERS };
#define SPEC_CHECK_NAMES "type", "path", "expect", "interval", "timeout", "rise", "fall", "ca"
/* What a check of that port is when nothing is said about it. OUT points to constants only. */
void spec_check_default(uint16_t port, enum spec_protocol p, struct spec_check *out);
/* M: HC_MEMBERS members. PORT decides the defaults. `port` stays 0. */
void spec_read_check(struct spec_decoder *d, const struct json_value *m, uint16_t port, enum spec_protocol p,
		     struct spec_check *out);

/* The members `frontends`, `tunnels` and `probes`; the networks must have been read. */
void spec_read_frontends(struct spec_decoder *d, const struct json_value *v);
void spec_read_tunnels(struct spec_decoder *d, const struct json_value *v);
void spec_read_probes(struct spec_decoder *d, const struct json_value *v);
#endif
