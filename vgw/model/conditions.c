/* SPDX-License-Identifier: Apache-2.0 */
/* What the values of a status mean, condition by condition. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vgw/model/status.h"

const char *status_condition_name(enum status_condition_type t)
{
	static const char *const names[N_CONDITIONS] = {
		[CONDITION_READY] = "Ready",
		[CONDITION_SPEC_ACCEPTED] = "SpecAccepted",
		[CONDITION_FRONTENDS_PROGRAMMED] = "FrontendsProgrammed",
		[CONDITION_CONTROL_PLANE_REACHABLE] = "ControlPlaneReachable",
		[CONDITION_TUNNEL_MTU_READY] = "TunnelMTUReady",
		[CONDITION_POD_MTU_FITS] = "PodMTUFits",
		[CONDITION_PRIVATE_ONLY] = "PrivateOnly",
		[CONDITION_HOST_HEALTHY] = "HostHealthy",
		[CONDITION_CERTIFICATE_VALID] = "CertificateValid",
		[CONDITION_MANAGEMENT_ACCESS_READY] = "ManagementAccessReady",
	};

	return t < N_CONDITIONS ? names[t] : "";
}

static void judge(struct status *s, enum status_condition_type t, enum status_truth truth, const char *reason,
		  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static void judge(struct status *s, enum status_condition_type t, enum status_truth truth, const char *reason,
		  const char *fmt, ...)
{
	struct status_condition *c = &s->conditions[t];
	va_list ap;

	c->present = true;
	c->status = truth;
	c->reason = reason;
	va_start(ap, fmt);
	vsnprintf(c->message, sizeof(c->message), fmt, ap);
	va_end(ap);
}

static void judge_spec(struct status *s)
{
	if (s->refused)
		judge(s, CONDITION_SPEC_ACCEPTED, STATUS_FALSE, s->refused->reason, "%s%s%s",
		      s->refused->text, s->refused->where[0] ? " at " : "", s->refused->where);
	else if (!s->spec)
		judge(s, CONDITION_SPEC_ACCEPTED, STATUS_FALSE, "NoSpec", "no spec has been accepted yet");
	else
		judge(s, CONDITION_SPEC_ACCEPTED, STATUS_TRUE, "Accepted", "generation %lld of cluster %s",
		      (long long)s->accepted, s->spec->cluster);
}

static void judge_frontends(struct status *s)
{
	const struct status_frontend *bad = NULL;
	size_t counted = 0;

	for (size_t i = 0; i < s->n_frontends; i++) {
		const struct status_frontend *f = &s->frontends[i];

		counted += f->state != STATUS_IGNORED;
		if ((f->state == STATUS_PENDING || f->state == STATUS_FAILED) && !bad)
			bad = f;
	}
	if (!s->spec)
		judge(s, CONDITION_FRONTENDS_PROGRAMMED, STATUS_UNKNOWN, "NoSpec", "no spec is in force");
	else if (*s->apply_error)
		judge(s, CONDITION_FRONTENDS_PROGRAMMED, STATUS_FALSE, "ApplyFailed", "%s", s->apply_error);
	else if (bad)
		judge(s, CONDITION_FRONTENDS_PROGRAMMED, STATUS_FALSE,
		      bad->state == STATUS_FAILED ? "Failed" : "Pending", "frontend %s is %s", bad->name,
		      bad->state == STATUS_FAILED ? "not in the kernel as wanted"
						  : "waiting for its address");
	else
		judge(s, CONDITION_FRONTENDS_PROGRAMMED, STATUS_TRUE, "Programmed", "%zu of %zu frontends",
		      counted, counted);
}

static void judge_control_plane(struct status *s)
{
	const enum status_condition_type t = CONDITION_CONTROL_PLANE_REACHABLE;
	const struct status_frontend *f = NULL;
	size_t unknown = 0;

	for (size_t i = 0; i < s->n_frontends; i++)
		if (s->frontends[i].control_plane)
			f = &s->frontends[i];
	if (!f) {
		judge(s, t, STATUS_UNKNOWN, "NotConfigured", "the spec has no control-plane frontend");
		return;
	}
	for (size_t i = 0; i < f->n_backends; i++)
		unknown += f->backends[i].state == HEALTH_UNKNOWN;
	if (f->n_healthy)
		judge(s, t, STATUS_TRUE, "Healthy", "%zu of %zu backends are up", f->n_healthy,
		      f->n_backends);
	else if (unknown)
		judge(s, t, STATUS_UNKNOWN, "NoVerdict", "%zu of %zu backends have no verdict yet", unknown,
		      f->n_backends);
	else
		judge(s, t, STATUS_FALSE, "NoHealthyBackend", "0 of %zu backends are up", f->n_backends);
}

enum { IPV6_MINIMUM = 1280 }; /* RFC 8200 5 */

static void judge_out_of_range(struct status *s, const struct status_tunnel *x)
{
	const enum status_condition_type t = CONDITION_TUNNEL_MTU_READY;
	bool low = x->wanted < x->minimum, high = x->maximum && x->wanted > x->maximum;
	const char *who = low && x->minimum == IPV6_MINIMUM ? "IPv6 on it needs" : "its device takes";

	if (low || high)
		judge(s, t, STATUS_FALSE, "OutOfRange",
		      "tunnel %s: an MTU of %u is wanted, %s at %s %u; %u is in force", x->name, x->wanted,
		      who, low ? "least" : "most", low ? x->minimum : x->maximum, x->actual);
	else
		judge(s, t, STATUS_FALSE, "OutOfRange",
		      "tunnel %s: its device refuses an MTU of %u; %u is in force", x->name, x->wanted,
		      x->actual);
}

static void judge_tunnels(struct status *s)
{
	const enum status_condition_type t = CONDITION_TUNNEL_MTU_READY;

	for (size_t i = 0; i < s->n_tunnels; i++) {
		const struct status_tunnel *x = &s->tunnels[i];

		switch (x->mtu_state) {
		case MTU_IN_SYNC:
			if (x->state != TUNNEL_BLACK_HOLE)
				continue;
			judge(s, t, STATUS_FALSE, "BlackHole",
			      "tunnel %s: its path carries %u, its MTU is %u", x->name, x->path_mtu,
			      x->actual);
			return;
		case MTU_PENDING:
			judge(s, t, STATUS_FALSE, "Pending", "tunnel %s: MTU %u is wanted, %u is there",
			      x->name, x->wanted, x->actual);
			return;
		case MTU_CONTESTED:
			judge(s, t, STATUS_FALSE, "Contested",
			      "tunnel %s: someone keeps setting its MTU to %u", x->name, x->actual);
			return;
		case MTU_OUT_OF_RANGE:
			judge_out_of_range(s, x);
			return;
		}
	}
	judge(s, t, STATUS_TRUE, s->n_tunnels ? "InSync" : "NoTunnels", "%zu tunnels", s->n_tunnels);
}

static void judge_pods(struct status *s)
{
	const enum status_condition_type t = CONDITION_POD_MTU_FITS;
	uint32_t veth = s->spec ? s->spec->veth_mtu : 0;
	const struct status_tunnel *least = NULL;

	for (size_t i = 0; i < s->n_tunnels; i++)
		if (s->tunnels[i].max_pod_mtu && (!least || s->tunnels[i].max_pod_mtu < least->max_pod_mtu))
			least = &s->tunnels[i];
	if (!veth)
		judge(s, t, STATUS_UNKNOWN, "NotGiven", "the spec has no cni.vethMTU");
	else if (!least)
		judge(s, t, s->n_tunnels ? STATUS_UNKNOWN : STATUS_TRUE, s->n_tunnels ? "NoMTU" : "NoTunnels",
		      s->n_tunnels ? "no tunnel has an MTU yet" : "no tunnel limits the pods");
	else if (veth > least->max_pod_mtu)
		judge(s, t, STATUS_FALSE, "PodMTUTooLarge", "pods use %u, tunnel %s leaves room for %u", veth,
		      least->name, least->max_pod_mtu);
	else
		judge(s, t, STATUS_TRUE, "Fits", "pods use %u, tunnel %s leaves room for %u", veth,
		      least->name, least->max_pod_mtu);
}

static void judge_exposure(struct status *s)
{
	const enum status_condition_type t = CONDITION_PRIVATE_ONLY;

	if (!s->spec)
		judge(s, t, STATUS_UNKNOWN, "NoSpec", "no spec is in force");
	else if (s->spec->exposure == SPEC_PUBLIC && spec_control_plane(s->spec))
		judge(s, t, STATUS_FALSE, "ControlPlanePublic", "controlPlaneExposure is public");
	else if (!s->guard_in_force)
		judge(s, t, STATUS_FALSE, "GuardMissing", "the guard is not in the kernel as wanted");
	else
		judge(s, t, STATUS_TRUE, "GuardInForce",
		      "private frontends are accepted from allowed interfaces only");
}

static void judge_host(struct status *s)
{
	if (*s->contested)
		judge(s, CONDITION_HOST_HEALTHY, STATUS_FALSE, "Contested", "someone keeps changing %s",
		      s->contested);
	else if (*s->apply_error)
		judge(s, CONDITION_HOST_HEALTHY, STATUS_FALSE, "ApplyFailed", "%s", s->apply_error);
	else
		judge(s, CONDITION_HOST_HEALTHY, STATUS_TRUE, "AsWanted", "the host is as the spec wants it");
}

static void judge_certificate(struct status *s)
{
	const enum status_condition_type t = CONDITION_CERTIFICATE_VALID;
	int64_t left = s->certificate_not_after - s->now / 1000;

	if (!s->certificate_not_after)
		judge(s, t, STATUS_UNKNOWN, "NoCertificate", "no certificate is in use");
	else if (left < 0)
		judge(s, t, STATUS_FALSE, "Expired", "the server certificate has expired");
	else
		judge(s, t, STATUS_TRUE, "Valid", "the server certificate is valid");
}

/* One direction alone is no tunnel. Of several tunnels the best counts. */
static enum status_truth access_by(const struct status_tunnel *x)
{
	if (!x->asked)
		return STATUS_UNKNOWN;
	if (x->outbound == STATUS_TRUE && x->inbound == STATUS_TRUE)
		return STATUS_TRUE;
	return x->outbound == STATUS_FALSE || x->inbound == STATUS_FALSE ? STATUS_FALSE : STATUS_UNKNOWN;
}

static void judge_access(struct status *s, const struct status_tunnel *x, const char *asked)
{
	const enum status_condition_type t = CONDITION_MANAGEMENT_ACCESS_READY;

	switch (access_by(x)) {
	case STATUS_TRUE:
		judge(s, t, STATUS_TRUE, "BothWays", "tunnel %s to cloudspace %s carries packets both ways",
		      x->name, asked);
		break;
	case STATUS_FALSE:
		judge(s, t, STATUS_FALSE, status_tunnel_state_name(x->state),
		      "tunnel %s to cloudspace %s does not carry packets both ways", x->name, asked);
		break;
	case STATUS_UNKNOWN:
		judge(s, t, STATUS_UNKNOWN, "NotMeasured", "tunnel %s leads to cloudspace %s", x->name,
		      asked);
		break;
	}
}

static void judge_management(struct status *s)
{
	const enum status_condition_type t = CONDITION_MANAGEMENT_ACCESS_READY;
	const char *asked = s->spec ? s->spec->connected_cloudspace : "";
	const struct status_tunnel *best = NULL;

	if (!*asked)
		return;
	for (size_t i = 0; i < s->n_tunnels; i++) {
		const struct status_tunnel *x = &s->tunnels[i];

		if (strcmp(x->peer_cloudspace, asked))
			continue;
		if (!best || access_by(x) == STATUS_TRUE ||
		    (access_by(best) == STATUS_FALSE && access_by(x) == STATUS_UNKNOWN))
			best = x;
		if (access_by(best) == STATUS_TRUE)
			break;
	}
	if (best)
		judge_access(s, best, asked);
	else
		judge(s, t, STATUS_FALSE, "NoTunnel", "no tunnel leads to cloudspace %s", asked);
}

/* Ready is what the others say: the first that is not, in their order, is its reason. */
static void judge_ready(struct status *s)
{
	static const enum status_condition_type needed[] = {
		CONDITION_SPEC_ACCEPTED, CONDITION_FRONTENDS_PROGRAMMED, CONDITION_CONTROL_PLANE_REACHABLE,
		CONDITION_TUNNEL_MTU_READY};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		const struct status_condition *c = &s->conditions[needed[i]];

		/* A refused spec leaves the one in force as it is. */
		if (c->status != STATUS_FALSE || (needed[i] == CONDITION_SPEC_ACCEPTED && s->spec))
			continue;
		judge(s, CONDITION_READY, STATUS_FALSE, c->reason, "%s: %s", status_condition_name(needed[i]),
		      c->message);
		return;
	}
	judge(s, CONDITION_READY, STATUS_TRUE, "Ready", "the spec is in force");
}

void status_judge(struct status *s, const struct status_condition *previous)
{
	memset(s->conditions, 0, sizeof(s->conditions));
	judge_spec(s);
	judge_frontends(s);
	judge_control_plane(s);
	judge_tunnels(s);
	judge_pods(s);
	judge_exposure(s);
	judge_host(s);
	judge_certificate(s);
	judge_management(s);
	judge_ready(s);
	for (int i = 0; i < N_CONDITIONS; i++) {
		const struct status_condition *p = &previous[i];
		bool same = p->present && s->conditions[i].present && p->status == s->conditions[i].status;

		s->conditions[i].since = same ? p->since : s->now;
	}
}
