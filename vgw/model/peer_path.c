/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/peer_path.h"

#include <string.h>

void path_init(struct peer_path *p, int64_t now_ms)
{
	memset(p, 0, sizeof(*p));
	p->pmtud = PMTU_UNKNOWN;
	p->measured_ms = -1;
	p->raise_every_ms = PATH_RAISE_MS;
	p->retry_ms = PATH_RETRY_MS;
	path_changed(p, now_ms);
}

static void search_at(struct peer_path *p, int64_t when_ms)
{
	if (!p->search_due || p->search_ms > when_ms)
		p->search_ms = when_ms;
	p->search_due = true;
}

void path_changed(struct peer_path *p, int64_t now_ms)
{
	p->up = p->mtu != 0;
	search_at(p, now_ms);
}

void path_reported(struct peer_path *p, uint32_t size, int64_t now_ms)
{
	/* Of what is larger than we use it is known already. */
	if (p->searching || !p->mtu || size > p->mtu)
		return;
	search_at(p, p->measured_ms + PATH_REPORT_MS > now_ms ? p->measured_ms + PATH_REPORT_MS : now_ms);
}

enum path_task path_next(struct peer_path *p, int64_t now_ms)
{
	if (p->searching)
		return PATH_NOTHING;
	if (p->search_due && now_ms >= p->search_ms)
		return p->up ? PATH_RAISE : PATH_SEARCH;
	if (!p->mtu)
		return PATH_NOTHING;
	if (!p->at_ceiling && now_ms >= p->raise_ms)
		return PATH_RAISE;
	if (!p->awaiting)
		return now_ms >= p->confirm_ms ? PATH_CONFIRM : PATH_NOTHING;
	if (now_ms < p->miss_ms)
		return PATH_NOTHING;
	p->awaiting = false;
	if (++p->misses < PATH_MISSES)
		return PATH_CONFIRM;
	p->misses = 0;
	return PATH_SEARCH;
}

int64_t path_wait(const struct peer_path *p, int64_t now_ms)
{
	if (p->searching || !p->awaiting)
		return -1;
	return p->miss_ms > now_ms ? p->miss_ms - now_ms : 0;
}

void path_confirm_sent(struct peer_path *p, uint64_t nonce, double rtt_ms, int64_t now_ms)
{
	int64_t wait = PATH_MISS_MS;

	if (rtt_ms >= 0 && rtt_ms < PATH_MISS_MS)
		wait = (int64_t)(3 * rtt_ms) + PATH_MISS_MIN_MS;
	p->miss_ms = now_ms + (wait < PATH_MISS_MS ? wait : PATH_MISS_MS);
	p->nonce = nonce;
	p->awaiting = true;
	p->confirm_ms = now_ms;
}

bool path_confirmed(struct peer_path *p, uint64_t nonce, int64_t now_ms)
{
	if (!p->awaiting || nonce != p->nonce)
		return false;
	p->awaiting = false;
	p->misses = 0;
	p->confirm_ms = now_ms + PATH_CONFIRM_MS;
	p->measured_ms = now_ms;
	return true;
}

void path_search_started(struct peer_path *p)
{
	p->searching = true;
	p->search_due = p->up = false;
	p->awaiting = false;
}

bool path_swallows(const struct peer_path *p, uint32_t in_force)
{
	return p->mtu && p->mtu < p->tried && p->mtu < in_force;
}

bool path_search_ended(struct peer_path *p, const struct pmtu_search_result *result, uint32_t tried,
		       uint32_t limit, int64_t now_ms)
{
	bool changed;

	p->searching = false;
	p->misses = 0;
	p->confirm_ms = now_ms + PATH_CONFIRM_MS;
	p->raise_ms = now_ms + p->raise_every_ms;
	if (!result->mtu) {
		search_at(p, now_ms + p->retry_ms);
		p->retry_ms = p->retry_ms * 2 < PATH_RETRY_MAX_MS ? p->retry_ms * 2 : PATH_RETRY_MAX_MS;
		return false;
	}
	p->retry_ms = PATH_RETRY_MS;
	changed = result->mtu != p->mtu || result->pmtud != p->pmtud;
	p->mtu = result->mtu;
	p->pmtud = result->pmtud;
	p->tried = tried;
	p->at_ceiling = result->mtu >= limit;
	p->measured_ms = now_ms;
	return changed;
}
