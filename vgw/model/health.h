/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on one backend, from the results of its checks. Pure: times are arguments, in ms of one clock.
 */
#ifndef VGW_MODEL_HEALTH_H
#define VGW_MODEL_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

enum check_stage {
	CHECK_STAGE_NONE,
	CHECK_STAGE_ROUTE,
	CHECK_STAGE_CONNECT,
	CHECK_STAGE_TLS,
	CHECK_STAGE_HTTP
};

enum check_code {
	CHECK_OK,
	CHECK_NO_ROUTE,
	CHECK_REFUSED,
	CHECK_UNREACHABLE,
	CHECK_TIMEOUT,
	CHECK_TLS_FAILED,
	CHECK_CERTIFICATE_INVALID,
	CHECK_HTTP_STATUS,
	CHECK_AUTH_REQUIRED,
	CHECK_MALFORMED,
};

/* What the handshake showed of the server's certificate; reported also where it decides nothing. */
struct check_certificate {
	bool seen;
	int64_t not_after; /* Unix seconds */
	bool has_gateway_address;
	bool verified; /* against the given CA; false without one */
};

struct check_result {
	enum check_stage stage; /* the stage that failed, or the last one for CHECK_OK */
	enum check_code code;
	char detail[96];   /* "200", "connection refused", a TLS alert's name */
	double latency_ms; /* whole check */
	struct check_certificate certificate;
};

enum health_state { HEALTH_UNKNOWN, HEALTH_UP, HEALTH_DRAINING, HEALTH_DEAD };

struct health {
	enum health_state state;
	bool in_rotation; /* may take new flows, by the checks alone (drain and failopen are the caller's) */
	uint32_t dead_streak; /* samples in a row that nothing answered */
	uint32_t rise, fall;  /* samples */
	uint32_t streak;      /* equal outcomes (healthy or not) in a row, this one included */
	bool streak_healthy;  /* outcome of the streak */
	int64_t since_ms;     /* when `state` was entered */
	bool sampled;
	struct check_result last;
};

/*
 * No verdict yet: HEALTH_UNKNOWN, in rotation unless IN_ROTATION is false (a verdict that was in force before
 * a restart and holds until rise or fall).
 */
void health_init(struct health *h, uint32_t rise, uint32_t fall, bool in_rotation, int64_t now_ms);
/* New rise and fall (0 counts as 1) from a changed spec; the verdict stays. */
void health_tune(struct health *h, uint32_t rise, uint32_t fall);

/*
 * Count one sample. Healthy: CHECK_OK only. After `rise` healthy samples HEALTH_UP. After `fall` failures out
 * of rotation: HEALTH_DEAD when each of the last `fall` was NoRoute, Refused, Unreachable or Timeout (at any
 * stage), else HEALTH_DRAINING; a dead one that answers badly is Draining at once. From HEALTH_UNKNOWN in
 * rotation the first healthy sample is enough for HEALTH_UP. Returns true when state or in_rotation changed.
 */
bool health_sample(struct health *h, const struct check_result *r, int64_t now_ms);

/* A backend that nothing checks: up, with stage none and code OK. */
void health_unchecked(struct health *h, int64_t now_ms);

/*
 * Ms from the end of the last check to the start of the next: 0 after the first sample that speaks against
 * the verdict in force, where one is not enough to change it (a first failure of something in rotation, a
 * first success of something out); else what is left of INTERVAL since the last check STARTED (0 when nothing
 * is left). Two checks in a row at once never happen, so that nothing is checked more than twice an interval.
 */
int64_t health_next_delay(const struct health *h, uint32_t interval_ms, int64_t started_ms, int64_t now_ms);

const char *check_stage_name(enum check_stage s);   /* "route" … */
const char *check_code_name(enum check_code c);	    /* "OK", "NoRoute" … */
const char *health_state_name(enum health_state s); /* "Unknown" … */

#endif
