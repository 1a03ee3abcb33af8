/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics (CONTRACT.md 5): values in, Prometheus' text format 0.0.4 out. Pure. */
#ifndef VGW_MODEL_METRICS_H
#define VGW_MODEL_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "netcfg/base/buf.h"
#include "netcfg/model/ip.h"
#include "vgw/model/health.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Zero-initialise. Durations from 1 ms to 10 s; the last count is of what took longer. */
enum { METRICS_BUCKETS = 13 };
struct metrics_histogram {
	uint64_t counts[METRICS_BUCKETS + 1]; /* each its own, not cumulative */
	double sum;			      /* seconds */
};

struct metrics_backend {
	struct ip_endpoint at;
	enum health_state state;
	uint64_t flows_reaped;
};

struct metrics_frontend {
	const char *name;
	const struct metrics_backend *backends;
	size_t n_backends;
};

struct metrics_tunnel {
	const char *name, *state;			 /* STATE: a word of the contract */
	uint32_t wanted, actual, path, reverse, max_pod; /* bytes; 0: not known */
	double rtt_seconds;				 /* below 0: not known */
};

struct metrics_repairs {
	const char *object;
	uint64_t n;
};

struct metrics_code {
	unsigned code; /* HTTP */
	uint64_t n;
};

/* Below 0: not known. */
struct metrics_process {
	double cpu_seconds, start_time; /* START_TIME: Unix seconds */
	int64_t open_fds, max_fds, virtual_bytes, resident_bytes;
};

/* Strings are never NULL. A number below 0 is not known and left out. */
struct metrics {
	const char *version;
	int64_t accepted, applied; /* generations; 0: none */
	const struct metrics_frontend *frontends;
	size_t n_frontends;
	const struct metrics_histogram *checks;
	const struct metrics_tunnel *tunnels;
	size_t n_tunnels;
	const struct metrics_repairs *repairs;
	size_t n_repairs;
	uint64_t tampered, dropped;
	int64_t conntrack_entries, conntrack_limit, conntrack_insert_failed;
	int64_t certificate_not_after; /* Unix seconds; 0: no certificate in use */
	const struct metrics_code *codes;
	size_t n_codes;
	int64_t connections;
	struct metrics_process process;
};

/* Count one duration. */
void metrics_observe(struct metrics_histogram *h, double seconds);

/* The whole text, appended to OUT. */
void metrics_render(const struct metrics *m, struct buf *out);

#endif
