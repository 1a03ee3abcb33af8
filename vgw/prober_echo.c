/* SPDX-License-Identifier: Apache-2.0 */
/* Peers without an agent: ICMP echo, which measures both directions at once. */
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/clock.h"
#include "vgw/prober_internal.h"

/* One that comes back by another way says nothing of the tunnel. */
static void on_reply(void *ctx, const struct ip_addr *from, int interface, uint64_t nonce)
{
	struct prober *p = ctx;
	int64_t us = clock_mono_us();

	for (size_t i = 0; i < p->n; i++) {
		struct asked *a = p->asked[i];
		bool of_path;

		if (ip_addr_cmp(&a->now.peer, from) || (a->now.interface && a->now.interface != interface))
			continue;
		of_path = path_confirmed(&a->path, nonce, us / 1000);
		if (peer_take_echo(&a->peer, nonce, of_path, us) || of_path)
			prober_turn(a);
	}
}

void prober_ping(struct asked *a, uint64_t nonce, uint32_t size)
{
	struct prober *p = a->prober;
	unsigned f = a->now.peer.family == IP_V6;
	int rc = 0;

	if (!p->pings[f] && p->own[f].family)
		rc = ping_open(p->loop, &p->own[f], on_reply, p, &p->pings[f]);
	if (rc && !p->no_pings) {
		log_warning("probe: no ICMP echo, so peers without an agent are not measured: %s",
			    strerror(-rc));
		p->no_pings = true;
	}
	if (p->pings[f])
		ping_send(p->pings[f], &a->now.peer, a->now.interface, size, nonce);
}

static void on_done(void *ctx, const struct echo_result *result)
{
	struct asked *a = ctx;
	struct pmtu_search_result path = result->path;

	a->echo = NULL;
	if (result->state != PMTU_SEARCH_DONE)
		path.mtu = 0;
	prober_searched(a, &path);
	prober_turn(a);
}

bool prober_echo(struct asked *a, uint32_t ceiling)
{
	char name[IF_NAMESIZE];
	struct echo_params params = {.address = a->now.peer,
				     .source = a->prober->own[a->now.peer.family == IP_V6],
				     .search = {.floor = PMTU_FLOOR_V4, .ceiling = ceiling}};
	struct vgw_err err = {0};

	params.search.expected = a->path.mtu;
	if (a->now.interface)
		params.interface = if_indextoname((unsigned)a->now.interface, name);
	a->echo = echo_start(a->prober->loop, &params, NULL, on_done, a, &err);
	return a->echo != NULL;
}
