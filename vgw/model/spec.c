/* SPDX-License-Identifier: Apache-2.0 */
/* The spec as a value. */
#include "vgw/model/spec.h"

#include <string.h>

#include "netcfg/base/arena.h"

void spec_free(struct spec *s)
{
	/* It lives in its own arena. */
	if (s)
		arena_free(s->arena);
}

bool spec_equal(const struct spec *a, const struct spec *b)
{
	struct buf x = {0}, y = {0};
	bool equal;

	spec_encode(a, &x);
	spec_encode(b, &y);
	equal = !x.failed && !y.failed && x.len == y.len && !memcmp(buf_str(&x), buf_str(&y), x.len);
	buf_free(&x);
	buf_free(&y);
	return equal;
}

const struct spec_frontend *spec_control_plane(const struct spec *s)
{
	for (size_t i = 0; i < s->n_frontends; i++)
		if (s->frontends[i].control_plane)
			return &s->frontends[i];
	return NULL;
}

const struct ip_addr *spec_gateway(const struct spec *s, uint8_t family)
{
	for (size_t i = 0; i < s->private_networks.n; i++)
		if (s->gateways[i].family == family)
			return &s->gateways[i];
	return NULL;
}

size_t spec_count_backends(const struct spec *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_frontends; i++)
		n += s->frontends[i].n_backends;
	return n;
}
