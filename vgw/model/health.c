/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/health.h"

#include <string.h>

static uint32_t at_least_one(uint32_t n)
{
	return n ? n : 1;
}

void health_init(struct health *h, uint32_t rise, uint32_t fall, bool in_rotation, int64_t now_ms)
{
	memset(h, 0, sizeof(*h));
	h->state = HEALTH_UNKNOWN;
	h->in_rotation = in_rotation;
	h->since_ms = now_ms;
	health_tune(h, rise, fall);
}

void health_tune(struct health *h, uint32_t rise, uint32_t fall)
{
	h->rise = at_least_one(rise);
	h->fall = at_least_one(fall);
}

/* Whether flows that exist have a chance: nothing answers (Dead), or something answers badly (Draining). */
static enum health_state verdict_of(enum check_code code)
{
	switch (code) {
	case CHECK_OK:
		return HEALTH_UP;
	case CHECK_NO_ROUTE:
	case CHECK_REFUSED:
	case CHECK_UNREACHABLE:
	case CHECK_TIMEOUT:
		return HEALTH_DEAD;
	case CHECK_TLS_FAILED:
	case CHECK_CERTIFICATE_INVALID:
	case CHECK_HTTP_STATUS:
	case CHECK_AUTH_REQUIRED:
	case CHECK_MALFORMED:
		return HEALTH_DRAINING;
	}
	return HEALTH_DRAINING;
}

static bool enter(struct health *h, enum health_state state, int64_t now_ms)
{
	bool in_rotation = state == HEALTH_UP;
	bool changed = h->state != state || h->in_rotation != in_rotation;

	if (h->state != state)
		h->since_ms = now_ms;
	h->state = state;
	h->in_rotation = in_rotation;
	return changed;
}

static void count(struct health *h, bool healthy)
{
	if (!h->sampled || h->streak_healthy != healthy)
		h->streak = 0;
	if (h->streak < UINT32_MAX)
		h->streak++;
	h->streak_healthy = healthy;
	h->sampled = true;
}

bool health_sample(struct health *h, const struct check_result *r, int64_t now_ms)
{
	enum health_state verdict = verdict_of(r->code);
	bool healthy = verdict == HEALTH_UP;
	uint32_t needed = healthy ? h->rise : h->fall;

	count(h, healthy);
	if (verdict != HEALTH_DEAD)
		h->dead_streak = 0;
	else if (h->dead_streak < UINT32_MAX)
		h->dead_streak++;
	h->last = *r;

	/* It takes flows already, and nothing speaks against it: no reason to wait for the rest of `rise`. */
	if (healthy && h->in_rotation)
		needed = 1;
	if (h->streak < needed)
		return false;
	/* Resetting flows takes as many samples of its own: one time-out of a server that answers badly is
	 * not death. */
	if (verdict == HEALTH_DEAD && h->dead_streak < h->fall && h->state != HEALTH_DEAD)
		verdict = HEALTH_DRAINING;
	return enter(h, verdict, now_ms);
}

void health_unchecked(struct health *h, int64_t now_ms)
{
	memset(&h->last, 0, sizeof(h->last));
	h->last.stage = CHECK_STAGE_NONE;
	h->last.code = CHECK_OK;
	count(h, true);
	enter(h, HEALTH_UP, now_ms);
}

int64_t health_next_delay(const struct health *h, uint32_t interval_ms, int64_t started_ms, int64_t now_ms)
{
	/*
	 * Only the first sample against the verdict in force is followed up at once: it is over after one
	 * more check, whatever comes of it, so that even an endpoint that refuses within microseconds, or one
	 * that flaps with every check, is checked at most twice an interval.
	 */
	bool against = h->sampled && h->streak_healthy != h->in_rotation;
	uint32_t needed = h->streak_healthy ? h->rise : h->fall;
	int64_t elapsed = now_ms - started_ms;
	int64_t interval = interval_ms ? interval_ms : 1;

	if (against && h->streak == 1 && needed > 1)
		return 0;
	if (elapsed < 0)
		elapsed = 0;
	return elapsed < interval ? interval - elapsed : 0;
}

const char *check_stage_name(enum check_stage s)
{
	switch (s) {
	case CHECK_STAGE_NONE:
		return "none";
	case CHECK_STAGE_ROUTE:
		return "route";
	case CHECK_STAGE_CONNECT:
		return "connect";
	case CHECK_STAGE_TLS:
		return "tls";
	case CHECK_STAGE_HTTP:
		return "http";
	}
	return "";
}

const char *check_code_name(enum check_code c)
{
	switch (c) {
	case CHECK_OK:
		return "OK";
	case CHECK_NO_ROUTE:
		return "NoRoute";
	case CHECK_REFUSED:
		return "Refused";
	case CHECK_UNREACHABLE:
		return "Unreachable";
	case CHECK_TIMEOUT:
		return "Timeout";
	case CHECK_TLS_FAILED:
		return "TLSFailed";
	case CHECK_CERTIFICATE_INVALID:
		return "CertificateInvalid";
	case CHECK_HTTP_STATUS:
		return "HTTPStatus";
	case CHECK_AUTH_REQUIRED:
		return "AuthRequired";
	case CHECK_MALFORMED:
		return "Malformed";
	}
	return "";
}

const char *health_state_name(enum health_state s)
{
	switch (s) {
	case HEALTH_UNKNOWN:
		return "Unknown";
	case HEALTH_UP:
		return "Up";
	case HEALTH_DRAINING:
		return "Draining";
	case HEALTH_DEAD:
		return "Dead";
	}
	return "";
}
