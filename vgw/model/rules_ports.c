/* SPDX-License-Identifier: Apache-2.0 */
/* PortConflict: one address, protocol and port is one thing. */
#include "vgw/model/rules_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "vgw/model/json_reader.h"

static int compare(unsigned a, unsigned b)
{
	return (a > b) - (a < b);
}

/* All internal frontends of a family are on one address, and all public ones on another. */
static int compare_place(const struct spec_frontend *a, const struct spec_frontend *b)
{
	int c = compare(a->placement, b->placement);

	if (!c)
		c = compare(a->family, b->family);
	if (!c)
		c = compare(a->protocol, b->protocol);
	return c ? c : compare(a->port, b->port);
}

static int compare_sorted(const void *a, const void *b)
{
	const struct spec_frontend *x = *(const struct spec_frontend *const *)a;
	const struct spec_frontend *y = *(const struct spec_frontend *const *)b;
	int c = compare_place(x, y);

	return c ? c : (x > y) - (x < y);
}

/* "192.168.150.1:443/TCP" */
static void describe(const struct spec_frontend *f, char *out, size_t size)
{
	struct ip_endpoint e = {.addr = f->gateway, .port = f->port};
	char text[IP_ENDPOINT_STRLEN];

	if (f->placement == SPEC_INTERNAL)
		snprintf(out, size, "%s/%s", ip_endpoint_print(&e, text), spec_protocol_name(f->protocol));
	else
		snprintf(out, size, "the external interface's port %u/%s", f->port,
			 spec_protocol_name(f->protocol));
}

static int refuse_pair(const struct spec *s, const struct spec_frontend *first,
		       const struct spec_frontend *second, struct vgw_err *err)
{
	struct json_quoted a, b;
	char where[48], place[96];

	snprintf(where, sizeof(where), "/frontends/%zu/port", (size_t)(second - s->frontends));
	describe(second, place, sizeof(place));
	return vgw_err_set(err, -EINVAL, "PortConflict", where, "frontends \"%s\" and \"%s\" are both on %s",
			   json_quote(first->name, &a), json_quote(second->name, &b), place);
}

static int check_pairs(const struct spec *s, struct vgw_err *err)
{
	const struct spec_frontend **v = malloc((s->n_frontends ? s->n_frontends : 1) * sizeof(*v));
	const struct spec_frontend *first = NULL, *second = NULL;
	size_t n = 0;

	if (!v)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", NULL, "memory is out");
	for (size_t i = 0; i < s->n_frontends; i++)
		if (s->frontends[i].placement != SPEC_IGNORED)
			v[n++] = &s->frontends[i];
	qsort(v, n, sizeof(*v), compare_sorted);
	for (size_t i = 1; i < n; i++) {
		if (compare_place(v[i - 1], v[i]) || (second && v[i] > second))
			continue;
		first = v[i - 1];
		second = v[i];
	}
	free(v);
	return second ? refuse_pair(s, first, second, err) : 0;
}

static bool is_wildcard(const struct ip_addr *a)
{
	for (size_t i = 0; i < sizeof(a->bytes); i++)
		if (a->bytes[i])
			return false;
	return true;
}

/* Would a control listener at E share its port with F? */
static bool meets(const struct spec_frontend *f, const struct ip_endpoint *e)
{
	if (e->port != f->port)
		return false;
	/* [::] listens on IPv4 as well (ipv6(7), IPV6_V6ONLY). */
	if (is_wildcard(&e->addr))
		return e->addr.family == IP_V6 || e->addr.family == f->family;
	return !ip_addr_cmp(&e->addr, f->placement == SPEC_INTERNAL ? &f->gateway : &f->address);
}

static bool is_control_port(const struct spec_frontend *f, const struct rules_host *host)
{
	if (f->protocol != SPEC_TCP)
		return false;
	if (!host->n_control)
		return f->placement == SPEC_INTERNAL && f->port == host->control_port;
	for (size_t i = 0; i < host->n_control; i++)
		if (meets(f, &host->control[i]))
			return true;
	return false;
}

int rules_check_ports(const struct spec *s, const struct rules_host *host, struct vgw_err *err)
{
	int rc = check_pairs(s, err);

	for (size_t i = 0; i < s->n_frontends && !rc; i++) {
		const struct spec_frontend *f = &s->frontends[i];
		const char *what = NULL;
		struct json_quoted name;
		char where[48], place[96];

		if (f->placement == SPEC_IGNORED)
			continue;
		if (is_control_port(f, host))
			what = "control";
		else if (f->protocol == SPEC_UDP && f->placement == SPEC_INTERNAL &&
			 f->port == host->probe_port)
			what = "probe";
		if (!what)
			continue;
		snprintf(where, sizeof(where), "/frontends/%zu/port", i);
		describe(f, place, sizeof(place));
		rc = vgw_err_set(err, -EINVAL, "PortConflict", where,
				 "frontend \"%s\" is on the agent's %s port, %s", json_quote(f->name, &name),
				 what, place);
	}
	return rc;
}
