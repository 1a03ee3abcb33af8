/* SPDX-License-Identifier: Apache-2.0 */
/* The frontends of a spec by where they listen. Pure. */
#ifndef VGW_MODEL_PORT_INDEX_H
#define VGW_MODEL_PORT_INDEX_H

#include "vgw/model/wanted.h"

struct port_place {
	struct ns_port port;
	size_t frontend; /* index in the spec */
};

struct port_index {
	struct port_place *v; /* sorted by port */
	size_t n;
};

/* Those of SPEC (NULL: none) whose port on HOST is known. *OUT in ARENA. 0 or -ENOMEM. */
int port_index_make(const struct spec *spec, const struct wanted_host *host, struct arena *arena,
		    struct port_index *out);
/* False when no frontend listens there. */
bool port_index_find(const struct port_index *x, const struct ns_port *port, size_t *frontend);

#endif
