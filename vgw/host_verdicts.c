/* SPDX-License-Identifier: Apache-2.0 */
/* The verdicts that a table holds. */
#include <errno.h>
#include <string.h>

#include "vgw/host.h"
#include "vgw/model/port_index.h"

/* Whether PREVIOUS let this backend take flows, so that its absence from the slots is a verdict. */
static bool was_eligible(const struct spec_frontend *previous, const struct spec_backend *b)
{
	for (size_t i = 0; previous && i < previous->n_backends; i++) {
		const struct spec_backend *p = &previous->backends[i];

		if (p->port == b->port && !ip_addr_cmp(&p->address, &b->address))
			return wanted_weight(p) > 0;
	}
	return false;
}

static void read_verdicts(const struct spec_frontend *f, const struct spec_frontend *previous,
			  const struct ns_service *s, struct wanted_verdict *out)
{
	for (size_t b = 0; b < f->n_backends; b++) {
		struct ip_endpoint at = {0};

		at.addr = f->backends[b].address;
		at.port = f->backends[b].port;
		out[b].in_rotation = !was_eligible(previous, &f->backends[b]);
		for (size_t i = 0; i < s->n_slots && !out[b].in_rotation; i++)
			out[b].in_rotation = !ip_endpoint_cmp(&s->slots[i], &at);
	}
}

int host_verdicts(const struct spec *spec, const struct spec *previous, const struct host_view *view,
		  struct arena *arena, const struct wanted_verdict *const **out)
{
	const struct wanted_verdict **rows = arena_calloc(arena, spec->n_frontends, sizeof(*rows));
	struct port_index before;
	struct ns_service *services;
	size_t n;

	*out = NULL;
	if (!rows || port_index_make(previous, &view->facts, arena, &before) < 0 ||
	    nft_table_services(&view->observed.table, arena, &services, &n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_frontends; i++) {
		const struct spec_frontend *f = &spec->frontends[i];
		const struct ns_service *s = NULL;
		struct wanted_verdict *row;
		struct ns_port port;
		size_t was;

		if (wanted_port(f, &view->facts, &port))
			s = ns_service_find(services, n, &port);
		if (!s)
			continue;
		row = arena_calloc(arena, f->n_backends, sizeof(*row));
		if (!row)
			return -ENOMEM;
		read_verdicts(f, port_index_find(&before, &port, &was) ? &previous->frontends[was] : NULL, s,
			      row);
		rows[i] = row;
	}
	*out = rows;
	return 0;
}
