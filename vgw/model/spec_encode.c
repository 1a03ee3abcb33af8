/* SPDX-License-Identifier: Apache-2.0 */
/* Spec to canonical JSON. What is left out here means the same as what is written. */
#include "vgw/model/spec_internal.h"

#include <string.h>

#include "vgw/model/json_writer.h"

static void put_positive(struct buf *b, const char *key, int64_t n)
{
	if (n)
		json_put_int(b, key, n);
}

static void put_address(struct buf *b, const char *key, const struct ip_addr *a)
{
	char text[IP_ADDR_STRLEN];

	json_put_text(b, key, ip_addr_print(a, text));
}

static void put_network(struct buf *b, const char *key, const struct ip_prefix *p)
{
	char text[IP_PREFIX_STRLEN];

	if (p->addr.family)
		json_put_string(b, key, ip_prefix_print(p, text));
}

static void put_networks(struct buf *b, const char *key, const struct spec_prefixes *p)
{
	if (!p->n)
		return;
	json_put_open(b, key, "[");
	for (size_t i = 0; i < p->n; i++)
		put_network(b, NULL, &p->v[i]);
	buf_puts(b, "]");
}

static void put_duration(struct buf *b, const char *key, uint32_t ms)
{
	char text[16];

	json_put_string(b, key, spec_duration_print(ms, text));
}

static bool is_expect(const struct spec_check *c, const struct spec_check *def)
{
	return c->n_expect == def->n_expect &&
	       !memcmp(c->expect, def->expect, c->n_expect * sizeof(*c->expect));
}

/* The members of C, less those that are as in DEF, if given. */
static void put_check(struct buf *b, const struct spec_check *c, const struct spec_check *def)
{
	if (!def || c->type != def->type)
		json_put_string(b, "type", spec_check_type_name(c->type));
	put_positive(b, "port", c->port);
	if (!def || strcmp(c->path, def->path) != 0)
		json_put_string(b, "path", c->path);
	if (!def || !is_expect(c, def)) {
		json_put_open(b, "expect", "[");
		for (size_t i = 0; i < c->n_expect; i++)
			json_put_int(b, NULL, c->expect[i]);
		buf_puts(b, "]");
	}
	if (!def || c->interval_ms != def->interval_ms)
		put_duration(b, "interval", c->interval_ms);
	if (!def || c->timeout_ms != def->timeout_ms)
		put_duration(b, "timeout", c->timeout_ms);
	if (!def || c->rise != def->rise)
		json_put_int(b, "rise", c->rise);
	if (!def || c->fall != def->fall)
		json_put_int(b, "fall", c->fall);
	json_put_text(b, "ca", c->ca);
}

static void put_health_check(struct buf *b, const struct spec_frontend *f, bool brief)
{
	struct buf members = {0};
	struct spec_check def;

	spec_check_default(f->port, f->protocol, &def);
	put_check(&members, &f->check, brief ? &def : NULL);
	if (members.len) {
		json_put_open(b, "healthCheck", "{");
		buf_append(b, members.data, members.len);
		buf_puts(b, "}");
	}
	b->failed = b->failed || members.failed;
	buf_free(&members);
}

/* There may be hundreds of thousands: their defaults stay out, always. */
static void put_backend(struct buf *b, const struct spec_backend *be)
{
	char text[IP_ADDR_STRLEN];

	json_put_open(b, NULL, "{");
	buf_printf(b, "\"address\":\"%s\",\"port\":%u", ip_addr_print(&be->address, text), be->port);
	if (be->weight != 1)
		json_put_int(b, "weight", be->weight);
	if (be->drain)
		json_put_bool(b, "drain", true);
	buf_puts(b, "}");
}

static void put_placement(struct buf *b, const struct spec *s, const struct spec_frontend *f, bool brief)
{
	bool internal = f->placement == SPEC_INTERNAL;

	/* Where it decides, the default is written out; elsewhere it is only kept. */
	if (f->control_plane || *f->load_balancer_class) {
		if (f->internal >= 0)
			json_put_bool(b, "internal", f->internal);
	} else if (!brief || internal != s->default_internal) {
		json_put_bool(b, "internal", internal);
	}
	json_put_text(b, "loadBalancerClass", f->load_balancer_class);
}

static void put_frontend(struct buf *b, const struct spec *s, const struct spec_frontend *f, bool brief)
{
	bool given =
		f->address.family && (f->placement != SPEC_INTERNAL || ip_addr_cmp(&f->address, &f->gateway));

	json_put_open(b, NULL, "{");
	json_put_string(b, "name", f->name);
	if (given)
		put_address(b, "address", &f->address);
	else if (f->placement == SPEC_INTERNAL &&
		 (!brief || !f->n_backends)) /* it may be what tells the family */
		put_address(b, "address", &f->gateway);
	json_put_int(b, "port", f->port);
	if (!brief || f->protocol != SPEC_TCP)
		json_put_string(b, "protocol", spec_protocol_name(f->protocol));
	if (!brief || f->balance != SPEC_ROUNDROBIN)
		json_put_string(b, "balance", spec_balance_name(f->balance));
	if (!brief || f->when_none_healthy != SPEC_FAILOPEN)
		json_put_string(b, "whenNoneHealthy", spec_none_healthy_name(f->when_none_healthy));
	put_health_check(b, f, brief);
	put_placement(b, s, f, brief);
	json_put_open(b, "backends", "[");
	for (size_t i = 0; i < f->n_backends; i++)
		put_backend(b, &f->backends[i]);
	buf_puts(b, "]}");
}

static void put_tunnel(struct buf *b, const struct spec_tunnel *t)
{
	json_put_open(b, NULL, "{");
	json_put_string(b, "name", t->name);
	json_put_text(b, "interface", t->interface);
	if (t->mtu)
		json_put_int(b, "mtu", t->mtu);
	else
		json_put_string(b, "mtu", "auto");
	json_put_int(b, "maxMTU", t->max_mtu);
	json_put_open(b, "peer", "{");
	json_put_text(b, "cloudspaceId", t->peer_cloudspace);
	put_network(b, "privateNetwork", &t->peer_network);
	put_address(b, "address", &t->peer_address);
	buf_puts(b, "}}");
}

static void put_probe(struct buf *b, const struct spec_probe *p)
{
	char target[IP_ENDPOINT_STRLEN];

	json_put_open(b, NULL, "{");
	json_put_string(b, "name", p->name);
	json_put_string(b, "target", ip_endpoint_print(&p->target, target));
	put_check(b, &p->check, NULL);
	buf_puts(b, "}");
}

static void put_cloudspace(struct buf *b, const struct spec *s)
{
	json_put_open(b, "cloudspace", "{");
	json_put_text(b, "id", s->cloudspace_id);
	if (s->private_networks.n == 1)
		put_network(b, "privateNetwork", &s->private_networks.v[0]);
	else
		put_networks(b, "privateNetworks", &s->private_networks);
	json_put_bool(b, "private", s->cloudspace_private);
	buf_puts(b, "}");
	if (s->geo_networks.n) {
		json_put_open(b, "geo", "{");
		put_networks(b, "privateNetworks", &s->geo_networks);
		buf_puts(b, "}");
	}
}

static void put_cluster_network(struct buf *b, const struct spec *s)
{
	json_put_open(b, "clusterNetwork", "{");
	put_networks(b, "pods", &s->pods);
	put_networks(b, "services", &s->services);
	buf_puts(b, "}");
	json_put_open(b, "cni", "{");
	json_put_text(b, "name", s->cni_name);
	json_put_string(b, "encapsulation", spec_encapsulation_name(s->encapsulation));
	put_positive(b, "vethMTU", s->veth_mtu);
	json_put_open(b, "ipPools", "[");
	for (size_t i = 0; i < s->n_ip_pools; i++) {
		json_put_open(b, NULL, "{");
		put_network(b, "cidr", &s->ip_pools[i].cidr);
		put_positive(b, "blockSize", s->ip_pools[i].block_size);
		buf_puts(b, "}");
	}
	buf_puts(b, "]}");
}

static void put_management_access(struct buf *b, const struct spec *s)
{
	if (!s->has_management_access)
		return;
	json_put_open(b, "managementAccess", "{");
	json_put_open(b, "connectedCloudspace", "{");
	json_put_string(b, "cloudspaceId", s->connected_cloudspace);
	buf_puts(b, "}}");
}

static void put_spec(struct buf *out, const struct spec *s, bool brief)
{
	buf_puts(out, "{");
	json_put_string(out, "apiVersion", "vgw-agent/v1");
	json_put_int(out, "generation", s->generation);
	json_put_string(out, "cluster", s->cluster);
	json_put_string(out, "role", spec_role_name(s->role));
	json_put_string(out, "controlPlaneExposure", spec_exposure_name(s->exposure));
	put_cloudspace(out, s);
	put_cluster_network(out, s);
	json_put_open(out, "addons", "{");
	json_put_text(out, "ccm", s->addon_ccm);
	json_put_text(out, "serviceLB", s->addon_service_lb);
	buf_puts(out, "}");
	json_put_bool(out, "defaultInternalLoadBalancers", s->default_internal);
	json_put_open(out, "frontends", "[");
	for (size_t i = 0; i < s->n_frontends; i++)
		put_frontend(out, s, &s->frontends[i], brief);
	buf_puts(out, "]");
	json_put_open(out, "tunnels", "[");
	for (size_t i = 0; i < s->n_tunnels; i++)
		put_tunnel(out, &s->tunnels[i]);
	buf_puts(out, "]");
	put_management_access(out, s);
	json_put_open(out, "probes", "[");
	for (size_t i = 0; i < s->n_probes; i++)
		put_probe(out, &s->probes[i]);
	buf_puts(out, "]}");
}

void spec_encode(const struct spec *s, struct buf *out)
{
	struct buf b = {0};

	put_spec(&b, s, false);
	/* What was accepted must be accepted again when it comes from a file: then without the defaults. */
	if (b.len > SPEC_MAX_BYTES) {
		buf_free(&b);
		put_spec(&b, s, true);
	}
	buf_append(out, b.data, b.len);
	out->failed = out->failed || b.failed;
	buf_free(&b);
}
