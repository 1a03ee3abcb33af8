/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/status.h"

#include <string.h>

#include "vgw/model/json_writer.h"

static const char *frontend_state_name(enum status_frontend_state s)
{
	switch (s) {
	case STATUS_PROGRAMMED:
		return "Programmed";
	case STATUS_DEGRADED:
		return "Degraded";
	case STATUS_FAIL_OPEN:
		return "FailOpen";
	case STATUS_NO_BACKENDS:
		return "NoBackends";
	case STATUS_PENDING:
		return "Pending";
	case STATUS_IGNORED:
		return "Ignored";
	case STATUS_FAILED:
		return "Failed";
	}
	return "Failed";
}

const char *status_tunnel_state_name(enum status_tunnel_state s)
{
	switch (s) {
	case TUNNEL_ABSENT:
		return "Absent";
	case TUNNEL_UNKNOWN:
		return "Unknown";
	case TUNNEL_DOWN:
		return "Down";
	case TUNNEL_NO_ROUTE:
		return "NoRoute";
	case TUNNEL_UP:
		return "Up";
	case TUNNEL_ONE_WAY_TX:
		return "OneWayTx";
	case TUNNEL_ONE_WAY_RX:
		return "OneWayRx";
	case TUNNEL_BLACK_HOLE:
		return "BlackHole";
	}
	return "Unknown";
}

static const char *mtu_state_name(enum status_mtu_state s)
{
	switch (s) {
	case MTU_IN_SYNC:
		return "InSync";
	case MTU_PENDING:
		return "Pending";
	case MTU_CONTESTED:
		return "Contested";
	case MTU_OUT_OF_RANGE:
		return "OutOfRange";
	}
	return "Pending";
}

static const char *truth_name(enum status_truth t)
{
	switch (t) {
	case STATUS_FALSE:
		return "False";
	case STATUS_TRUE:
		return "True";
	case STATUS_UNKNOWN:
		return "Unknown";
	}
	return "Unknown";
}

static void put_check(struct buf *b, const struct status_check *c, bool substance)
{
	if (!c->done)
		return;
	json_put_open(b, "check", "{");
	json_put_string(b, "stage", check_stage_name(c->result.stage));
	json_put_string(b, "code", check_code_name(c->result.code));
	json_put_text(b, "detail", c->result.detail);
	if (!substance) {
		json_put_tenths(b, "latencyMs", c->result.latency_ms);
		json_put_int(b, "streak", c->streak);
		json_put_time(b, "time", c->time);
	}
	buf_puts(b, "}");
}

static void put_certificate(struct buf *b, const struct check_certificate *c)
{
	if (!c->seen)
		return;
	json_put_open(b, "certificate", "{");
	json_put_time(b, "notAfter", c->not_after * 1000);
	json_put_bool(b, "hasGatewayAddress", c->has_gateway_address);
	json_put_bool(b, "verified", c->verified);
	buf_puts(b, "}");
}

static void put_address(struct buf *b, const char *key, const struct ip_addr *a)
{
	char text[IP_ADDR_STRLEN];

	json_put_text(b, key, ip_addr_print(a, text));
}

static void put_backend(struct buf *b, const struct status_backend *e, bool substance)
{
	json_put_open(b, NULL, "{");
	put_address(b, "address", &e->at.addr);
	json_put_int(b, "port", e->at.port);
	json_put_string(b, "state", health_state_name(e->state));
	if (!substance)
		json_put_time(b, "since", e->since);
	put_check(b, &e->check, substance);
	put_certificate(b, &e->check.result.certificate);
	if (!substance) {
		json_put_int(b, "flows", (int64_t)e->flows);
		json_put_int(b, "flowsReaped", (int64_t)e->flows_reaped);
	}
	buf_puts(b, "}");
}

static void put_frontends(struct buf *b, const struct status *s, bool substance)
{
	json_put_open(b, "frontends", "[");
	for (size_t i = 0; i < s->n_frontends; i++) {
		const struct status_frontend *f = &s->frontends[i];

		json_put_open(b, NULL, "{");
		json_put_string(b, "name", f->name);
		put_address(b, "address", &f->at.addr);
		json_put_int(b, "port", f->at.port);
		json_put_string(b, "protocol", spec_protocol_name(f->protocol));
		json_put_string(b, "state", frontend_state_name(f->state));
		json_put_int(b, "healthy", (int64_t)f->n_healthy);
		json_put_int(b, "total", (int64_t)f->n_backends);
		json_put_open(b, "backends", "[");
		for (size_t j = 0; j < f->n_backends; j++)
			put_backend(b, &f->backends[j], substance);
		buf_puts(b, "]}");
	}
	buf_puts(b, "]");
}

static void put_mtu(struct buf *b, const char *key, uint32_t mtu)
{
	if (mtu)
		json_put_int(b, key, mtu);
}

static void put_peer(struct buf *b, const struct status_tunnel *t, bool substance)
{
	json_put_open(b, "peer", "{");
	put_address(b, "address", &t->peer_address);
	if (t->asked)
		json_put_bool(b, "agent", t->has_agent);
	if (t->asked && !substance) {
		if (t->rtt_ms >= 0)
			json_put_tenths(b, "rttMs", t->rtt_ms);
		if (t->loss_percent >= 0)
			json_put_int(b, "lossPercent", t->loss_percent);
		if (t->last_heard >= 0)
			json_put_time(b, "lastHeard", t->last_heard);
	}
	buf_puts(b, "}");
}

static void put_tunnel(struct buf *b, const struct status_tunnel *t, bool substance)
{
	json_put_open(b, NULL, "{");
	json_put_string(b, "name", t->name);
	json_put_text(b, "interface", t->interface);
	json_put_string(b, "state", status_tunnel_state_name(t->state));
	json_put_open(b, "mtu", "{");
	json_put_string(b, "state", mtu_state_name(t->mtu_state));
	put_mtu(b, "wanted", t->wanted);
	put_mtu(b, "actual", t->actual);
	put_mtu(b, "original", t->original);
	put_mtu(b, "minimum", t->minimum);
	put_mtu(b, "maximum", t->maximum);
	if (!substance)
		json_put_int(b, "repairs", (int64_t)t->repairs);
	buf_puts(b, "}");
	json_put_open(b, "path", "{");
	put_mtu(b, "mtu", t->path_mtu);
	put_mtu(b, "reverseMtu", t->reverse_mtu);
	json_put_string(b, "pmtud", pmtu_verdict_name(t->pmtud));
	if (t->path_mtu && !substance)
		json_put_time(b, "measuredAt", t->measured_at);
	buf_puts(b, "}");
	put_mtu(b, "maxPodMTU", t->max_pod_mtu);
	put_peer(b, t, substance);
	buf_puts(b, "}");
}

static void put_probes(struct buf *b, const struct status *s, bool substance)
{
	json_put_open(b, "probes", "[");
	for (size_t i = 0; i < s->n_probes; i++) {
		json_put_open(b, NULL, "{");
		json_put_string(b, "name", s->probes[i].name);
		json_put_string(b, "state", health_state_name(s->probes[i].state));
		put_check(b, &s->probes[i].check, substance);
		buf_puts(b, "}");
	}
	buf_puts(b, "]");
}

static void put_management(struct buf *b, const struct status *s)
{
	const char *asked = s->spec ? s->spec->connected_cloudspace : "";

	if (!*asked)
		return;
	json_put_open(b, "managementConnections", "[");
	for (size_t i = 0; i < s->n_tunnels; i++) {
		const struct status_tunnel *t = &s->tunnels[i];

		if (strcmp(t->peer_cloudspace, asked))
			continue;
		json_put_open(b, NULL, "{");
		json_put_string(b, "cloudspaceId", t->peer_cloudspace);
		json_put_string(b, "tunnel", t->name);
		json_put_string(b, "outbound", truth_name(t->asked ? t->outbound : STATUS_UNKNOWN));
		json_put_string(b, "inbound", truth_name(t->asked ? t->inbound : STATUS_UNKNOWN));
		buf_puts(b, "}");
	}
	buf_puts(b, "]");
}

static void put_conditions(struct buf *b, const struct status *s, bool substance)
{
	json_put_open(b, "conditions", "[");
	for (int i = 0; i < N_CONDITIONS; i++) {
		const struct status_condition *c = &s->conditions[i];

		if (!c->present)
			continue;
		json_put_open(b, NULL, "{");
		json_put_string(b, "type", status_condition_name((enum status_condition_type)i));
		json_put_string(b, "status", truth_name(c->status));
		json_put_string(b, "reason", c->reason);
		json_put_string(b, "message", c->message);
		if (!substance)
			json_put_time(b, "lastTransitionTime", c->since);
		buf_puts(b, "}");
	}
	buf_puts(b, "]");
}

static void put_agent(struct buf *b, const struct status *s)
{
	json_put_int(b, "revision", s->revision);
	json_put_string(b, "bootId", s->boot_id);
	json_put_time(b, "time", s->now);
	json_put_int(b, "ageMs", s->age_ms);
	json_put_open(b, "agent", "{");
	json_put_string(b, "version", s->version);
	json_put_time(b, "startTime", s->start_time);
	json_put_int(b, "rssBytes", s->rss_bytes);
	json_put_string(b, "kernel", s->kernel);
	json_put_open(b, "features", "[");
	for (size_t i = 0; i < s->n_features; i++)
		json_put_string(b, NULL, s->features[i]);
	buf_puts(b, "]}");
}

static void put_drift(struct buf *b, const struct status *s)
{
	json_put_open(b, "drift", "[");
	for (size_t i = 0; i < s->n_drift; i++) {
		const struct status_drift *d = &s->drift[i];

		json_put_open(b, NULL, "{");
		json_put_time(b, "time", d->time);
		json_put_string(b, "object", d->object);
		json_put_text(b, "by", d->by);
		if (d->repaired_after_ms >= 0)
			json_put_int(b, "repairedAfterMs", d->repaired_after_ms);
		buf_puts(b, "}");
	}
	buf_puts(b, "]");
}

static void put_endpoint(struct buf *b, const struct status *s)
{
	for (size_t i = 0; i < s->n_frontends; i++) {
		if (!s->frontends[i].control_plane || !s->frontends[i].at.addr.family)
			continue;
		json_put_open(b, "endpoint", "{");
		put_address(b, "host", &s->frontends[i].at.addr);
		json_put_int(b, "port", s->frontends[i].at.port);
		buf_puts(b, "}");
		return;
	}
}

/* Days left move by themselves: the date is what counts. */
static void put_own_certificate(struct buf *b, const struct status *s, bool substance)
{
	if (!s->certificate_not_after)
		return;
	json_put_open(b, "certificate", "{");
	json_put_time(b, "notAfter", s->certificate_not_after * 1000);
	if (!substance)
		json_put_int(b, "daysLeft", (s->certificate_not_after - s->now / 1000) / 86400);
	buf_puts(b, "}");
}

static void put_warnings(struct buf *b, const struct status *s)
{
	json_put_open(b, "warnings", "[");
	for (size_t i = 0; i < s->n_warnings; i++) {
		json_put_open(b, NULL, "{");
		json_put_string(b, "code", s->warnings[i].code);
		json_put_string(b, "message", s->warnings[i].message);
		json_put_text(b, "fix", s->warnings[i].fix);
		buf_puts(b, "}");
	}
	buf_puts(b, "]");
}

void status_render(const struct status *s, bool substance, struct buf *out)
{
	json_put_open(out, NULL, "{");
	json_put_string(out, "apiVersion", "vgw-agent/v1");
	json_put_string(out, "kind", "GatewayStatus");
	if (!substance)
		put_agent(out, s);
	if (s->spec)
		json_put_string(out, "cluster", s->spec->cluster);
	json_put_open(out, "generation", "{");
	json_put_int(out, "accepted", s->accepted);
	json_put_int(out, "applied", s->applied);
	buf_puts(out, "}");
	put_endpoint(out, s);
	put_conditions(out, s, substance);
	put_frontends(out, s, substance);
	json_put_open(out, "tunnels", "[");
	for (size_t i = 0; i < s->n_tunnels; i++)
		put_tunnel(out, &s->tunnels[i], substance);
	buf_puts(out, "]");
	put_management(out, s);
	put_probes(out, s, substance);
	put_own_certificate(out, s, substance);
	if (s->has_skew && !substance)
		json_put_tenths(out, "clockSkewSeconds", s->skew_seconds);
	if (!substance)
		put_drift(out, s);
	put_warnings(out, s);
	buf_puts(out, "}");
}
