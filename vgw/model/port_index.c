/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/port_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int cmp_place(const void *a, const void *b)
{
	return ns_port_cmp(&((const struct port_place *)a)->port, &((const struct port_place *)b)->port);
}

int port_index_make(const struct spec *spec, const struct wanted_host *host, struct arena *arena,
		    struct port_index *out)
{
	size_t n = spec ? spec->n_frontends : 0;

	memset(out, 0, sizeof(*out));
	out->v = arena_calloc(arena, n, sizeof(*out->v));
	if (!out->v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		out->v[out->n].frontend = i;
		out->n += wanted_port(&spec->frontends[i], host, &out->v[out->n].port);
	}
	if (out->n)
		qsort(out->v, out->n, sizeof(*out->v), cmp_place);
	return 0;
}

bool port_index_find(const struct port_index *x, const struct ns_port *port, size_t *frontend)
{
	const struct port_place key = {.port = *port}, *found;

	found = x->n ? bsearch(&key, x->v, x->n, sizeof(*x->v), cmp_place) : NULL;
	if (found)
		*frontend = found->frontend;
	return found != NULL;
}
