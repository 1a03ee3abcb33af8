/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to spec: tunnels, probes, and the check that probes and frontends have in common. */
#include "vgw/model/spec_internal.h"

#include <errno.h>
#include <string.h>

enum {
	MAX_MTU_DEFAULT = 1400,
	INTERVAL_DEFAULT = 1000, /* ms, as the next five */
	INTERVAL_MIN = 50,
	TIMEOUT_DEFAULT = 800,
	TIMEOUT_MIN = 10,
	CHECK_TIME_MAX = 3600000,
	SAMPLES_DEFAULT = 2,
	SAMPLES_MAX = 1000,
	IFNAME_MAX = 15 /* IFNAMSIZ less the NUL */
};

static int tunnel_by_name(const void *a, const void *b)
{
	return strcmp(((const struct spec_tunnel *)a)->name, ((const struct spec_tunnel *)b)->name);
}

static int probe_by_name(const void *a, const void *b)
{
	return strcmp(((const struct spec_probe *)a)->name, ((const struct spec_probe *)b)->name);
}

static uint32_t read_duration(const struct json_value *v, uint32_t min, uint32_t fallback)
{
	const char *s = json_string(v, NULL);
	char low[16], high[16];
	struct json_quoted q;
	uint32_t ms;
	int rc;

	if (!s)
		return fallback;
	rc = spec_duration_parse(s, &ms);
	if (rc == -EINVAL)
		json_fail(v, "must be a duration like \"250ms\" or \"2s\", not \"%s\"", json_quote(s, &q));
	else if (rc < 0 || ms < min || ms > CHECK_TIME_MAX)
		json_fail(v, "must be from %s to %s", spec_duration_print(min, low),
			  spec_duration_print(CHECK_TIME_MAX, high));
	return ms;
}

/* It is sent as it stands: nothing that would end the request line. */
static const char *read_path(struct spec_decoder *d, const struct json_value *v, const char *fallback)
{
	const char *s = json_string(v, fallback);

	if (s[0] != '/' || strlen(s) > SPEC_PATH_MAX) {
		json_fail(v, "must begin with \"/\" and be at most %d bytes long", SPEC_PATH_MAX);
		return "";
	}
	for (const char *p = s; *p; p++)
		if (*p <= ' ' || *p > '~')
			json_fail(v, "must be printable ASCII without spaces");
	return s == fallback ? fallback : spec_copy(d, s);
}

static void read_expect(struct spec_decoder *d, const struct json_value *v, struct spec_check *out)
{
	size_t n = json_array(v, SPEC_EXPECT_MAX);
	int *statuses;

	if (json_given(v) && !n)
		json_fail(v, "must not be empty");
	if (!n)
		return;
	out->n_expect = 0;
	statuses = spec_alloc(d, n, sizeof(*statuses));
	if (!statuses)
		return;
	out->expect = statuses;
	for (struct json_value e = json_elements(v); e.item; json_next(&e))
		statuses[out->n_expect++] = (int)json_int(&e, 100, 599, 200);
}

/* Only its look: whether the certificates are any good shows when they are loaded. */
static const char *read_ca(struct spec_decoder *d, const struct json_value *v)
{
	const char *s = json_string(v, NULL), *begin;

	if (!s)
		return "";
	begin = strstr(s, "-----BEGIN CERTIFICATE-----");
	if (!begin || !strstr(begin, "-----END CERTIFICATE-----"))
		json_fail(v, "must be a certificate in PEM");
	return spec_copy(d, s);
}

void spec_check_default(uint16_t port, enum spec_protocol p, struct spec_check *out)
{
	static const int ok = 200;
	bool api = port == SPEC_API_PORT;

	*out = (struct spec_check){
		.type = p == SPEC_UDP ? SPEC_CHECK_NONE
			: api	      ? SPEC_CHECK_HTTPS
				      : SPEC_CHECK_TCP,
		.path = api ? "/readyz" : "/",
		.expect = &ok,
		.n_expect = 1,
		.interval_ms = INTERVAL_DEFAULT,
		.timeout_ms = TIMEOUT_DEFAULT,
		.rise = SAMPLES_DEFAULT,
		.fall = SAMPLES_DEFAULT,
		.ca = "",
	};
}

void spec_read_check(struct spec_decoder *d, const struct json_value *m, uint16_t port, enum spec_protocol p,
		     struct spec_check *out)
{
	static const char *const types[] = {
		[SPEC_CHECK_NONE] = "none",
		[SPEC_CHECK_TCP] = "tcp",
		[SPEC_CHECK_TLS] = "tls",
		[SPEC_CHECK_HTTPS] = "https",
	};

	spec_check_default(port, p, out);
	out->type = (enum spec_check_type)json_enum(&m[HC_TYPE], types, 4, (int)out->type);
	out->path = read_path(d, &m[HC_PATH], out->path);
	read_expect(d, &m[HC_EXPECT], out);
	out->interval_ms = read_duration(&m[HC_INTERVAL], INTERVAL_MIN, out->interval_ms);
	out->timeout_ms = read_duration(&m[HC_TIMEOUT], TIMEOUT_MIN, out->timeout_ms);
	out->rise = (uint32_t)json_int(&m[HC_RISE], 1, SAMPLES_MAX, out->rise);
	out->fall = (uint32_t)json_int(&m[HC_FALL], 1, SAMPLES_MAX, out->fall);
	out->ca = read_ca(d, &m[HC_CA]);
}

/* What the kernel takes for a name (dev_valid_name()). */
static const char *read_interface(struct spec_decoder *d, const struct json_value *v)
{
	const char *s = json_string(v, "");

	if (strlen(s) > IFNAME_MAX || strpbrk(s, "/: \t\n\v\f\r") || !strcmp(s, ".") || !strcmp(s, ".."))
		json_fail(v, "is no interface's name: at most %d bytes, without \"/\", \":\" and spaces",
			  IFNAME_MAX);
	return spec_read_text(d, v);
}

/* A number, or "auto" (0). */
static uint32_t read_mtu(const struct json_value *v)
{
	static const char *const words[] = {"auto"};

	if (!json_given(v) || json_is_string(v)) {
		json_enum(v, words, 1, 0);
		return 0;
	}
	return (uint32_t)json_int(v, SPEC_MTU_MIN, SPEC_MTU_MAX, 0);
}

static void read_peer(struct spec_decoder *d, const struct json_value *v, struct spec_tunnel *t)
{
	enum { CLOUDSPACE, NETWORK, ADDRESS, N };
	static const char *const names[N] = {"cloudspaceId", "privateNetwork", "address"};
	struct json_value m[N];

	json_members(v, names, N, m);
	t->peer_cloudspace = spec_read_text(d, &m[CLOUDSPACE]);
	spec_read_network(&m[NETWORK], false, &t->peer_network);
	spec_read_address(&m[ADDRESS], true, &t->peer_address);
	if (t->peer_network.addr.family && t->peer_address.family &&
	    t->peer_network.addr.family != t->peer_address.family)
		json_fail(&m[ADDRESS], "mixes families: privateNetwork is of the other one");
	if (!*t->interface && !t->peer_network.addr.family)
		json_fail(&m[NETWORK],
			  "is required of a tunnel without interface: its route carries the MTU");
}

static void read_tunnel(struct spec_decoder *d, const struct json_value *v, struct spec_tunnel *t)
{
	enum { NAME, INTERFACE, MTU, MAX_MTU, PEER, N };
	static const char *const names[N] = {"name", "interface", "mtu", "maxMTU", "peer"};
	struct json_value m[N];

	json_members(v, names, N, m);
	t->name = spec_read_name(d, &m[NAME]);
	t->interface = read_interface(d, &m[INTERFACE]);
	t->mtu = read_mtu(&m[MTU]);
	t->max_mtu = (uint32_t)json_int(&m[MAX_MTU], SPEC_MTU_MIN, SPEC_MTU_MAX, MAX_MTU_DEFAULT);
	read_peer(d, &m[PEER], t);
}

void spec_read_tunnels(struct spec_decoder *d, const struct json_value *v)
{
	static const struct spec_order order = {tunnel_by_name, "name", "is the name of another tunnel"};
	struct spec *s = d->spec;

	s->tunnels = spec_alloc(d, json_array(v, SPEC_MAX_TUNNELS), sizeof(*s->tunnels));
	if (!s->tunnels)
		return;
	for (struct json_value e = json_elements(v); e.item; json_next(&e))
		read_tunnel(d, &e, &s->tunnels[s->n_tunnels++]);
	spec_read_unique(d, v, s->tunnels, s->n_tunnels, sizeof(*s->tunnels), &order);
}

static void read_probe(struct spec_decoder *d, const struct json_value *v, struct spec_probe *p)
{
	enum { NAME = HC_MEMBERS, TARGET, N };
	static const char *const names[N] = {SPEC_CHECK_NAMES, "name", "target"};
	struct json_value m[N];
	struct json_quoted q;
	const char *target;

	json_members(v, names, N, m);
	p->name = spec_read_name(d, &m[NAME]);
	json_require(&m[TARGET]);
	target = json_string(&m[TARGET], NULL);
	if (target && ip_endpoint_parse(target, &p->target) < 0)
		json_fail(&m[TARGET], "must be ADDRESS:PORT, not \"%s\"", json_quote(target, &q));
	spec_read_check(d, m, p->target.port, SPEC_TCP, &p->check);
	if (p->check.type == SPEC_CHECK_NONE)
		json_fail(&m[HC_TYPE], "a probe that checks nothing");
}

void spec_read_probes(struct spec_decoder *d, const struct json_value *v)
{
	static const struct spec_order order = {probe_by_name, "name", "is the name of another probe"};
	struct spec *s = d->spec;

	s->probes = spec_alloc(d, json_array(v, SPEC_MAX_PROBES), sizeof(*s->probes));
	if (!s->probes)
		return;
	for (struct json_value e = json_elements(v); e.item; json_next(&e))
		read_probe(d, &e, &s->probes[s->n_probes++]);
	spec_read_unique(d, v, s->probes, s->n_probes, sizeof(*s->probes), &order);
}
