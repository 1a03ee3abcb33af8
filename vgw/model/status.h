/* SPDX-License-Identifier: Apache-2.0 */
/* The status document (CONTRACT.md 5): values in, JSON out; and the conditions that follow from the values.
 * Pure. */
#ifndef VGW_MODEL_STATUS_H
#define VGW_MODEL_STATUS_H

#include "vgw/model/health.h"
#include "vgw/model/pmtu_search.h"
#include "vgw/model/spec.h"

/* All times are Unix ms; below 0: not known. Strings are never NULL unless it says so. */

enum status_frontend_state {
	STATUS_PROGRAMMED,
	STATUS_DEGRADED,
	STATUS_FAIL_OPEN,
	STATUS_NO_BACKENDS,
	STATUS_PENDING,
	STATUS_IGNORED,
	STATUS_FAILED,
};

struct status_check {
	bool done;
	struct check_result result;
	uint32_t streak;
	int64_t time;
};

struct status_backend {
	struct ip_endpoint at;
	enum health_state state;
	int64_t since;
	struct status_check check;
	uint64_t flows, flows_reaped;
};

struct status_frontend {
	const char *name;
	struct ip_endpoint at; /* family IP_NONE while it has no address */
	enum spec_protocol protocol;
	enum status_frontend_state state;
	bool control_plane;
	struct status_backend *backends;
	size_t n_backends, n_healthy;
};

enum status_truth { STATUS_FALSE, STATUS_TRUE, STATUS_UNKNOWN };

enum status_tunnel_state {
	TUNNEL_ABSENT,
	TUNNEL_UNKNOWN,
	TUNNEL_DOWN,
	TUNNEL_NO_ROUTE,
	TUNNEL_UP,
	TUNNEL_ONE_WAY_TX,
	TUNNEL_ONE_WAY_RX,
	TUNNEL_BLACK_HOLE,
};
enum status_mtu_state { MTU_IN_SYNC, MTU_PENDING, MTU_CONTESTED, MTU_OUT_OF_RANGE };

struct status_tunnel {
	const char *name, *interface;
	enum status_tunnel_state state;
	enum status_mtu_state mtu_state;
	uint32_t wanted, actual, original; /* bytes; 0: not known */
	uint32_t minimum, maximum;	   /* what it can be, bytes; 0: no bound is known */
	uint64_t repairs;
	uint32_t max_pod_mtu; /* 0: not known */
	const char *peer_cloudspace;
	struct ip_addr peer_address;
	bool asked; /* the peer is: only then the rest counts */
	bool has_agent;
	enum status_truth outbound, inbound; /* we are heard; we hear */
	uint32_t path_mtu, reverse_mtu;	     /* bytes; 0: not known */
	enum pmtu_verdict pmtud;
	int64_t measured_at, last_heard;
	double rtt_ms;	  /* below 0: not known */
	int loss_percent; /* below 0: not known */
};

struct status_probe {
	const char *name;
	enum health_state state;
	struct status_check check;
};

struct status_drift {
	int64_t time;
	char object[64];
	char by[64];		   /* "" : the kernel does not tell */
	int64_t repaired_after_ms; /* below 0: not put back */
};

struct status_warning {
	const char *code, *message, *fix;
};

enum status_condition_type {
	CONDITION_READY,
	CONDITION_SPEC_ACCEPTED,
	CONDITION_FRONTENDS_PROGRAMMED,
	CONDITION_CONTROL_PLANE_REACHABLE,
	CONDITION_TUNNEL_MTU_READY,
	CONDITION_POD_MTU_FITS,
	CONDITION_PRIVATE_ONLY,
	CONDITION_HOST_HEALTHY,
	CONDITION_CERTIFICATE_VALID,
	CONDITION_MANAGEMENT_ACCESS_READY,
	N_CONDITIONS,
};

struct status_condition {
	bool present;
	enum status_truth status;
	const char *reason; /* static */
	char message[256];
	int64_t since;
};

struct status {
	/* Who and when. */
	int64_t revision, now, start_time, age_ms;
	const char *boot_id, *version, *kernel;
	int64_t rss_bytes;
	const char *const *features;
	size_t n_features;

	/* The spec: NULL for none. */
	const struct spec *spec;
	int64_t accepted, applied;     /* generations; 0: none */
	const struct vgw_err *refused; /* a stored spec that was refused: reason and text; NULL */
	const char *apply_error;       /* what the kernel refused; "" */

	struct status_frontend *frontends;
	size_t n_frontends;
	struct status_tunnel *tunnels;
	size_t n_tunnels;
	struct status_probe *probes;
	size_t n_probes;
	bool guard_in_force;	       /* the table in the kernel is the wanted one */
	const char *contested;	       /* an object that someone keeps changing; "" */
	int64_t certificate_not_after; /* Unix seconds; 0: no certificate in use */
	bool has_skew;
	double skew_seconds;
	const struct status_drift *drift;
	size_t n_drift;
	const struct status_warning *warnings;
	size_t n_warnings;
	struct status_condition conditions[N_CONDITIONS];
};

/*
 * Fill S->conditions from the rest. PREVIOUS are those of last time: a status that has not changed keeps its
 * time, another is as of S->now.
 */
void status_judge(struct status *s, const struct status_condition *previous);

/*
 * The document. SUBSTANCE: only what the revision counts, without times, latencies and counters, to be
 * compared with the last; not a document for others.
 */
void status_render(const struct status *s, bool substance, struct buf *out);

const char *status_condition_name(enum status_condition_type t);
const char *status_tunnel_state_name(enum status_tunnel_state s);

#endif
