/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to spec: frontends, backends and where each frontend belongs. */
#include "vgw/model/spec_internal.h"

#include <string.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct spec_frontend *)a)->name, ((const struct spec_frontend *)b)->name);
}

static int by_endpoint(const void *a, const void *b)
{
	const struct spec_backend *x = a, *y = b;
	int c = ip_addr_cmp(&x->address, &y->address);

	return c ? c : (int)x->port - (int)y->port;
}

static void read_backend(struct spec_decoder *d, const struct json_value *v, struct spec_backend *out)
{
	enum { ADDRESS, PORT, WEIGHT, DRAIN, N };
	static const char *const names[N] = {"address", "port", "weight", "drain"};
	const struct ip_addr *gateway;
	struct json_value m[N];

	json_members(v, names, N, m);
	json_require(&m[ADDRESS]);
	json_require(&m[PORT]);
	spec_read_address(&m[ADDRESS], false, &out->address);
	out->port = (uint16_t)json_int(&m[PORT], 1, 65535, 0);
	out->weight = (uint8_t)json_int(&m[WEIGHT], 0, 100, 1);
	out->drain = json_bool(&m[DRAIN], false);
	gateway = spec_gateway(d->spec, out->address.family);
	if (gateway && !ip_addr_cmp(gateway, &out->address))
		json_fail(&m[ADDRESS], "is the gateway address: a frontend cannot be its own backend");
}

static void read_backends(struct spec_decoder *d, const struct json_value *v, struct spec_frontend *f)
{
	static const struct spec_order order = {by_endpoint, NULL, "is a backend that is listed already"};

	f->backends = spec_alloc(d, json_array(v, SPEC_MAX_BACKENDS), sizeof(*f->backends));
	if (!f->backends)
		return;
	for (struct json_value e = json_elements(v); e.item; json_next(&e)) {
		struct spec_backend *b = &f->backends[f->n_backends++];
		struct json_value address = json_member_at(&e, "address");

		read_backend(d, &e, b);
		if (b->address.family != f->backends[0].address.family)
			json_fail(&address,
				  "mixes families: the backends of a frontend are all IPv4 or all IPv6");
	}
	spec_read_unique(d, v, f->backends, f->n_backends, sizeof(*f->backends), &order);
}

static void read_family(struct spec_decoder *d, const struct json_value *address, struct spec_frontend *f)
{
	const struct spec *s = d->spec;
	const struct ip_addr *gateway;

	if (d->reader.rc)
		return;
	f->family = f->n_backends	? f->backends[0].address.family
		    : f->address.family ? f->address.family
					: s->private_networks.v[0].addr.family;
	gateway = spec_gateway(s, f->family);
	if (gateway)
		f->gateway = *gateway;
	/* Another address than the gateway's is not available in whatever family: the rules say so. */
	gateway = spec_gateway(s, f->address.family);
	if (gateway && f->address.family != f->family && !ip_addr_cmp(gateway, &f->address))
		json_fail(address, "mixes families: the backends are %s",
			  f->family == IP_V6 ? "IPv6" : "IPv4");
}

static void read_health_check(struct spec_decoder *d, const struct json_value *v, struct spec_frontend *f)
{
	enum { PORT = HC_MEMBERS, N };
	static const char *const names[N] = {SPEC_CHECK_NAMES, "port"};
	struct json_value m[N];

	json_members(v, names, N, m);
	spec_read_check(d, m, f->port, f->protocol, &f->check);
	f->check.port = (uint16_t)json_int(&m[PORT], 1, 65535, 0);
}

enum frontend_member {
	NAME,
	ADDRESS,
	PORT,
	PROTOCOL,
	BALANCE,
	NONE_HEALTHY,
	HEALTH_CHECK,
	BACKENDS,
	INTERNAL,
	CLASS,
	FRONTEND_MEMBERS
};

static const char *const frontend_names[FRONTEND_MEMBERS] = {
	[NAME] = "name",
	[ADDRESS] = "address",
	[PORT] = "port",
	[PROTOCOL] = "protocol",
	[BALANCE] = "balance",
	[NONE_HEALTHY] = "whenNoneHealthy",
	[HEALTH_CHECK] = "healthCheck",
	[BACKENDS] = "backends",
	[INTERNAL] = "internal",
	[CLASS] = "loadBalancerClass",
};

static void read_frontend(struct spec_decoder *d, const struct json_value *v, struct spec_frontend *f)
{
	static const char *const protocols[] = {"TCP", "UDP"};
	static const char *const balances[] = {"roundrobin", "random", "source"};
	static const char *const none_healthy[] = {"failopen", "reject"};
	struct json_value m[FRONTEND_MEMBERS];
	struct json_quoted q;
	const char *address;

	json_members(v, frontend_names, FRONTEND_MEMBERS, m);
	f->name = spec_read_name(d, &m[NAME]);
	address = json_string(&m[ADDRESS], NULL);
	if (address && ip_addr_parse(address, &f->address) < 0)
		json_fail(&m[ADDRESS], "must be an IP address, not \"%s\"", json_quote(address, &q));
	json_require(&m[PORT]);
	f->port = (uint16_t)json_int(&m[PORT], 1, 65535, 0);
	f->protocol = json_enum(&m[PROTOCOL], protocols, 2, 0) ? SPEC_UDP : SPEC_TCP;
	f->balance = (enum spec_balance)json_enum(&m[BALANCE], balances, 3, SPEC_ROUNDROBIN);
	f->when_none_healthy =
		(enum spec_none_healthy)json_enum(&m[NONE_HEALTHY], none_healthy, 2, SPEC_FAILOPEN);
	f->internal = json_given(&m[INTERNAL]) ? json_bool(&m[INTERNAL], false) : -1;
	f->load_balancer_class = spec_read_text(d, &m[CLASS]);
	read_health_check(d, &m[HEALTH_CHECK], f);
	read_backends(d, &m[BACKENDS], f);
	read_family(d, &m[ADDRESS], f);
}

/* The one named kube-apiserver, else the first on the API server's port. */
static struct spec_frontend *find_control_plane(struct spec *s)
{
	struct spec_frontend *on_port = NULL;

	for (size_t i = 0; i < s->n_frontends; i++) {
		struct spec_frontend *f = &s->frontends[i];

		if (!strcmp(f->name, "kube-apiserver"))
			return f;
		if (!on_port && f->port == SPEC_API_PORT && f->protocol == SPEC_TCP)
			on_port = f;
	}
	return on_port;
}

static enum spec_placement place(const struct spec *s, const struct spec_frontend *f)
{
	if (f->control_plane)
		return s->exposure == SPEC_PRIVATE ? SPEC_INTERNAL : SPEC_EXTERNAL;
	if (!strcmp(f->load_balancer_class, SPEC_CLASS_INTERNAL))
		return SPEC_INTERNAL;
	if (!strcmp(f->load_balancer_class, SPEC_CLASS_PUBLIC))
		return SPEC_EXTERNAL;
	if (*f->load_balancer_class)
		return SPEC_IGNORED;
	return (f->internal < 0 ? s->default_internal : f->internal) ? SPEC_INTERNAL : SPEC_EXTERNAL;
}

void spec_read_frontends(struct spec_decoder *d, const struct json_value *v)
{
	static const struct spec_order order = {by_name, "name", "is the name of another frontend"};
	struct spec *s = d->spec;
	struct spec_frontend *control_plane;

	s->frontends = spec_alloc(d, json_array(v, SPEC_MAX_FRONTENDS), sizeof(*s->frontends));
	if (!s->frontends)
		return;
	for (struct json_value e = json_elements(v); e.item; json_next(&e))
		read_frontend(d, &e, &s->frontends[s->n_frontends++]);
	spec_read_unique(d, v, s->frontends, s->n_frontends, sizeof(*s->frontends), &order);
	if (d->reader.rc)
		return;
	control_plane = find_control_plane(s);
	if (control_plane)
		control_plane->control_plane = true;
	for (size_t i = 0; i < s->n_frontends; i++)
		s->frontends[i].placement = place(s, &s->frontends[i]);
}
