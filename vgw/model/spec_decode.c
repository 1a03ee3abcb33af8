/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to spec: the document's top and everything but frontends, tunnels and probes. */
#include "vgw/model/spec_internal.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)SPEC_MAX_DEPTH == (int)JSON_MAX_DEPTH, "the reader enforces the spec's depth");

static void read_cloudspace(struct spec_decoder *d, const struct json_value *v)
{
	enum { ID, NETWORK, NETWORKS, PRIVATE, N };
	static const char *const names[N] = {"id", "privateNetwork", "privateNetworks", "private"};
	struct spec *s = d->spec;
	struct json_value m[N];
	const struct json_value *networks;

	json_require(v);
	json_members(v, names, N, m);
	s->cloudspace_id = spec_read_text(d, &m[ID]);
	s->cloudspace_private = json_bool(&m[PRIVATE], false);
	if (json_given(&m[NETWORK]) && json_given(&m[NETWORKS]))
		json_fail(&m[NETWORKS], "privateNetwork is given too: one of them, not both");
	s->private_networks_plural = json_given(&m[NETWORKS]);
	networks = &m[s->private_networks_plural ? NETWORKS : NETWORK];
	json_require(networks);
	if (s->private_networks_plural) {
		spec_read_dual(d, networks, &s->private_networks);
		if (!s->private_networks.n)
			json_fail(networks, "must not be empty");
	} else {
		s->private_networks.v = spec_alloc(d, 1, sizeof(*s->private_networks.v));
		if (s->private_networks.v) {
			spec_read_network(networks, false, s->private_networks.v);
			s->private_networks.n = 1;
		}
	}
	for (size_t i = 0; i < s->private_networks.n && !d->reader.rc; i++) {
		struct json_value e = json_element_at(networks, i);
		const char *why;

		ip_prefix_first_host(&s->private_networks.v[i], &s->gateways[i]);
		why = spec_unusable(&s->gateways[i], true);
		if (why)
			json_fail(s->private_networks_plural ? &e : networks, "its first host is %s address",
				  why);
	}
}

static void read_cluster_network(struct spec_decoder *d, const struct json_value *v)
{
	enum { PODS, SERVICES, N };
	static const char *const names[N] = {"pods", "services"};
	struct json_value m[N];

	json_members(v, names, N, m);
	spec_read_dual(d, &m[PODS], &d->spec->pods);
	spec_read_dual(d, &m[SERVICES], &d->spec->services);
}

static void read_geo(struct spec_decoder *d, const struct json_value *v)
{
	static const char *const names[] = {"privateNetworks"};
	struct spec_prefixes *p = &d->spec->geo_networks;
	struct json_value networks;

	json_members(v, names, 1, &networks);
	p->v = spec_alloc(d, json_array(&networks, SPEC_NETWORKS_MAX), sizeof(*p->v));
	if (!p->v)
		return;
	for (struct json_value e = json_elements(&networks); e.item; json_next(&e))
		spec_read_network(&e, false, &p->v[p->n++]);
}

static void read_ip_pools(struct spec_decoder *d, const struct json_value *v)
{
	enum { CIDR, BLOCK_SIZE, N };
	static const char *const names[N] = {"cidr", "blockSize"};
	struct spec *s = d->spec;
	struct json_value m[N];

	s->ip_pools = spec_alloc(d, json_array(v, SPEC_NETWORKS_MAX), sizeof(*s->ip_pools));
	if (!s->ip_pools)
		return;
	for (struct json_value e = json_elements(v); e.item; json_next(&e)) {
		struct spec_ip_pool *p = &s->ip_pools[s->n_ip_pools++];

		json_members(&e, names, N, m);
		json_require(&m[CIDR]);
		spec_read_network(&m[CIDR], true, &p->cidr);
		p->block_size =
			(uint32_t)json_int(&m[BLOCK_SIZE], 1, p->cidr.addr.family == IP_V6 ? 128 : 32, 0);
	}
}

static void read_cni(struct spec_decoder *d, const struct json_value *v)
{
	enum { NAME, ENCAPSULATION, VETH_MTU, IP_POOLS, N };
	static const char *const names[N] = {"name", "encapsulation", "vethMTU", "ipPools"};
	static const char *const encapsulations[] = {
		[SPEC_VXLAN] = "vxlan",		[SPEC_GENEVE] = "geneve",   [SPEC_IPIP] = "ipip",
		[SPEC_WIREGUARD] = "wireguard", [SPEC_ENCAP_NONE] = "none",
	};
	struct spec *s = d->spec;
	struct json_value m[N];

	json_members(v, names, N, m);
	s->cni_name = spec_read_text(d, &m[NAME]);
	s->encapsulation = (enum spec_encapsulation)json_enum(
		&m[ENCAPSULATION], encapsulations, sizeof(encapsulations) / sizeof(encapsulations[0]),
		SPEC_VXLAN);
	s->veth_mtu = (uint32_t)json_int(&m[VETH_MTU], 0, SPEC_MTU_MAX, 0);
	/* 0 is Calico's way to say that it finds out by itself. */
	if (s->veth_mtu && s->veth_mtu < SPEC_MTU_MIN)
		json_fail(&m[VETH_MTU], "must be 0 or from %d to %d", SPEC_MTU_MIN, SPEC_MTU_MAX);
	read_ip_pools(d, &m[IP_POOLS]);
}

static void read_addons(struct spec_decoder *d, const struct json_value *v)
{
	enum { CCM, SERVICE_LB, N };
	static const char *const names[N] = {"ccm", "serviceLB"};
	static const char *const ccm[] = {"enabled", "internal"};
	static const char *const service_lb[] = {"vco", "vco-internal"};
	struct json_value m[N];
	int word;

	json_members(v, names, N, m);
	word = json_enum(&m[CCM], ccm, 2, -1);
	d->spec->addon_ccm = word < 0 ? "" : ccm[word];
	word = json_enum(&m[SERVICE_LB], service_lb, 2, -1);
	d->spec->addon_service_lb = word < 0 ? "" : service_lb[word];
}

static void read_management_access(struct spec_decoder *d, const struct json_value *v)
{
	static const char *const names[] = {"connectedCloudspace"}, *const inner_names[] = {"cloudspaceId"};
	struct json_value connected, id;

	json_members(v, names, 1, &connected);
	json_members(&connected, inner_names, 1, &id);
	d->spec->has_management_access = json_given(v);
	d->spec->connected_cloudspace = spec_read_text(d, &id);
}

enum top_member {
	API_VERSION,
	GENERATION,
	CLUSTER,
	ROLE,
	EXPOSURE,
	CLOUDSPACE,
	CLUSTER_NETWORK,
	CNI,
	ADDONS,
	DEFAULT_INTERNAL,
	FRONTENDS,
	TUNNELS,
	MANAGEMENT_ACCESS,
	PROBES,
	GEO,
	TOP_MEMBERS
};

static const char *const top_names[TOP_MEMBERS] = {
	[API_VERSION] = "apiVersion",
	[GENERATION] = "generation",
	[CLUSTER] = "cluster",
	[ROLE] = "role",
	[EXPOSURE] = "controlPlaneExposure",
	[CLOUDSPACE] = "cloudspace",
	[CLUSTER_NETWORK] = "clusterNetwork",
	[CNI] = "cni",
	[ADDONS] = "addons",
	[DEFAULT_INTERNAL] = "defaultInternalLoadBalancers",
	[FRONTENDS] = "frontends",
	[TUNNELS] = "tunnels",
	[MANAGEMENT_ACCESS] = "managementAccess",
	[PROBES] = "probes",
	[GEO] = "geo",
};

/* Judged before the members, which another version may call otherwise. */
static void check_version(const struct json_value *root)
{
	const struct cJSON *item = cJSON_GetObjectItemCaseSensitive(root->item, "apiVersion");
	struct json_value v = json_member_at(root, "apiVersion");
	struct json_quoted q;
	const char *version;

	v.item = item;
	version = json_string(&v, NULL);
	if (version && strcmp(version, "vgw-agent/v1") != 0)
		json_fail(&v, "must be \"vgw-agent/v1\", not \"%s\"", json_quote(version, &q));
}

static void read_top(struct spec_decoder *d)
{
	static const char *const roles[] = {"gateway", "management"}, *const exposures[] = {"public",
											    "private"};
	struct json_value root = json_root(&d->reader), m[TOP_MEMBERS];
	struct spec *s = d->spec;

	check_version(&root);
	json_members(&root, top_names, TOP_MEMBERS, m);
	json_require(&m[API_VERSION]);
	json_require(&m[GENERATION]);
	s->generation = json_int(&m[GENERATION], 0, INT64_MAX, 0);
	s->cluster = spec_read_name(d, &m[CLUSTER]);
	s->role = (enum spec_role)json_enum(&m[ROLE], roles, 2, SPEC_ROLE_GATEWAY);
	s->exposure = (enum spec_exposure)json_enum(&m[EXPOSURE], exposures, 2, SPEC_PUBLIC);
	s->default_internal = json_bool(&m[DEFAULT_INTERNAL], s->exposure == SPEC_PRIVATE);
	read_cloudspace(d, &m[CLOUDSPACE]);
	read_geo(d, &m[GEO]);
	read_cluster_network(d, &m[CLUSTER_NETWORK]);
	read_cni(d, &m[CNI]);
	read_addons(d, &m[ADDONS]);
	read_management_access(d, &m[MANAGEMENT_ACCESS]);
	spec_read_frontends(d, &m[FRONTENDS]);
	spec_read_tunnels(d, &m[TUNNELS]);
	spec_read_probes(d, &m[PROBES]);
}

int spec_decode(const char *json, size_t len, struct spec **out, struct vgw_err *err)
{
	struct arena *arena = arena_new();
	struct spec_decoder d = {.spec = arena ? arena_alloc(arena, sizeof(*d.spec)) : NULL};
	int rc;

	*out = NULL;
	if (!d.spec) {
		arena_free(arena);
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", NULL, "memory is out");
	}
	d.spec->arena = arena;
	if (!json_open(&d.reader, "InvalidSpec", json, len, SPEC_MAX_BYTES, err))
		read_top(&d);
	rc = d.reader.rc;
	json_close(&d.reader);
	if (rc < 0)
		spec_free(d.spec);
	else
		*out = d.spec;
	return rc;
}
