/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by wanted.c and wanted_tunnels.c alone. */
#ifndef VGW_MODEL_WANTED_INTERNAL_H
#define VGW_MODEL_WANTED_INTERNAL_H

#include "vgw/model/wanted.h"

struct wanted_maker {
	const struct spec *spec;
	const struct wanted_host *host;
	const struct wanted_verdict *const *verdicts;
	struct arena *arena;
	struct netstate *out;
	bool failed;
};

/* Zeroed, in the arena; NULL when memory is out, which M remembers. */
void *wanted_array(struct wanted_maker *m, size_t n, size_t size);
/* Whether the cloudspace has an IPv6 network. */
bool wanted_uses_ipv6(const struct spec *s);
/* Links, routes and clamps. */
void wanted_make_tunnels(struct wanted_maker *m);

#endif
