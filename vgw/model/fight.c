/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/fight.h"

bool fight_lost(struct fight *f, int64_t now_ms)
{
	f->last_ms = now_ms;
	if (f->contested && now_ms < f->retry_ms)
		return false;
	if (f->contested) {
		f->retry_ms = now_ms + FIGHT_RETRY_MS;
		f->repairs++;
		return true;
	}
	f->losses[f->n++ % FIGHT_LOSSES] = now_ms;
	/* Behind the latest of a full ring lies the oldest. */
	if (f->n >= FIGHT_LOSSES && now_ms - f->losses[f->n % FIGHT_LOSSES] <= FIGHT_WINDOW_MS) {
		f->contested = true;
		f->retry_ms = now_ms + FIGHT_RETRY_MS;
		return false;
	}
	f->repairs++;
	return true;
}

void fight_quiet(struct fight *f, int64_t now_ms)
{
	/* As it should be, and not lost for a window: the other side has given up. */
	if (f->contested && now_ms - f->last_ms > FIGHT_WINDOW_MS) {
		f->contested = false;
		f->n = 0;
	}
}

bool fight_due(const struct fight *f, int64_t now_ms)
{
	return f->contested && (now_ms >= f->retry_ms || now_ms - f->last_ms > FIGHT_WINDOW_MS);
}
