/* SPDX-License-Identifier: Apache-2.0 */
/* What the values of a status mean: every outcome of every condition, when it changed, and what counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "status_fixture.h"

/* The ways a status can differ from the fixture's, where all is well. */
enum change {
	NOTHING,
	NO_SPEC,
	REFUSED,
	REFUSED_FIRST,
	FRONTEND_PENDING,
	FRONTEND_FAILED,
	FRONTEND_DEGRADED,
	FRONTEND_OPEN,
	FRONTEND_EMPTY,
	APPLY_FAILED,
	NO_CONTROL_PLANE,
	BACKENDS_DOWN,
	BACKENDS_UNKNOWN,
	BACKENDS_SOME,
	NO_TUNNELS,
	MTU_IS_PENDING,
	MTU_IS_CONTESTED,
	MTU_IS_OUT_OF_RANGE,
	SECOND_PENDING,
	NO_VETH,
	VETH_TOO_LARGE,
	NO_MTU_YET,
	PUBLIC_CONTROL_PLANE,
	GUARD_MISSING,
	CONTESTED,
	NO_CERTIFICATE,
	EXPIRED,
	LAST_SECOND,
	NO_MANAGEMENT_TUNNEL,
	BOTH_WAYS,
	ONE_WAY,
	SECOND_BOTH_WAYS,
	TOO_LARGE_FOR_PATH,
	/* What is no substance. */
	LATENCY,
	STREAK,
	CHECK_TIME,
	SINCE,
	REPAIRS,
	DRIFT,
	CLOCK,
	SKEW,
	ROUND_TRIP,
	LOSS,
	HEARD,
	MEASURED,
	MEMORY,
	/* What is. */
	PATH_MTU,
	REVERSE_MTU,
	PMTUD,
	DIRECTION,
	BACKEND_STATE,
	CHECK_CODE,
	CHECK_STAGE,
	TUNNEL_STATE,
	TUNNEL_MTU,
	POD_MTU,
	PROBE_STATE,
	PROBE_CODE,
	ACCEPTED,
	APPLIED,
	WARNING,
	ADDRESS,
};

static void change_backends(struct status_fixture *x, enum health_state state, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x->backends[i].state = state;
	x->frontends[0].n_healthy = 3 - n;
}

static void change_spec(struct status_fixture *x, enum change c)
{
	struct status *s = &x->s;

	if (c == NO_SPEC || c == REFUSED_FIRST) {
		s->spec = NULL;
		s->n_frontends = s->n_tunnels = s->n_probes = 0;
		s->accepted = s->applied = 0;
	}
	if (c == REFUSED || c == REFUSED_FIRST) {
		vgw_err_set(&x->refused, 0, "CIDROverlap", "/tunnels/0", "two networks overlap");
		s->refused = &x->refused;
	}
	if (c == NO_VETH)
		x->spec->veth_mtu = 0;
	if (c == VETH_TOO_LARGE)
		x->spec->veth_mtu = 1351;
	if (c == PUBLIC_CONTROL_PLANE)
		x->spec->exposure = SPEC_PUBLIC;
	if (c == NO_MANAGEMENT_TUNNEL)
		x->tunnels[0].peer_cloudspace = "";
	if (c == NO_CONTROL_PLANE)
		x->frontends[0].control_plane = false;
	if (c == ACCEPTED)
		s->accepted = 4;
	if (c == APPLIED)
		s->applied = 2;
}

static void change_frontend(struct status_fixture *x, enum change c)
{
	static const enum status_frontend_state states[] = {[FRONTEND_PENDING] = STATUS_PENDING,
							    [FRONTEND_FAILED] = STATUS_FAILED,
							    [FRONTEND_DEGRADED] = STATUS_DEGRADED,
							    [FRONTEND_OPEN] = STATUS_FAIL_OPEN,
							    [FRONTEND_EMPTY] = STATUS_NO_BACKENDS};

	if (c >= FRONTEND_PENDING && c <= FRONTEND_EMPTY)
		x->frontends[0].state = states[c];
	if (c == BACKENDS_DOWN)
		change_backends(x, HEALTH_DEAD, 3);
	if (c == BACKENDS_UNKNOWN)
		change_backends(x, HEALTH_UNKNOWN, 3);
	if (c == BACKENDS_SOME)
		change_backends(x, HEALTH_DEAD, 2);
	if (c == BACKEND_STATE)
		x->backends[1].state = HEALTH_DRAINING;
	if (c == CHECK_CODE)
		x->backends[1].check.result.code = CHECK_TIMEOUT;
	if (c == CHECK_STAGE)
		x->backends[1].check.result.stage = CHECK_STAGE_TLS;
	if (c == LATENCY)
		x->backends[1].check.result.latency_ms = 800;
	if (c == STREAK)
		x->backends[1].check.streak++;
	if (c == CHECK_TIME)
		x->backends[1].check.time += 1000;
	if (c == SINCE)
		x->backends[1].since += 1000;
	if (c == ADDRESS)
		x->frontends[0].at.addr.bytes[3]++;
	if (c == PROBE_STATE)
		x->probe.state = HEALTH_DEAD;
	if (c == PROBE_CODE)
		x->probe.check.result.code = CHECK_REFUSED;
}

/* The second is one that is measured. */
static void change_measured(struct status_tunnel *t, enum change c)
{
	if (c == ROUND_TRIP)
		t->rtt_ms = 7;
	if (c == LOSS)
		t->loss_percent = 50;
	if (c == HEARD)
		t->last_heard++;
	if (c == MEASURED)
		t->measured_at++;
	if (c == PATH_MTU)
		t->path_mtu = 1399;
	if (c == REVERSE_MTU)
		t->reverse_mtu = 1300;
	if (c == PMTUD)
		t->pmtud = PMTU_BLACK_HOLE;
	if (c == DIRECTION)
		t->has_agent = true;
}

static void change_tunnel(struct status_fixture *x, enum change c)
{
	if (c == NO_TUNNELS)
		x->s.n_tunnels = 0;
	if (c == MTU_IS_PENDING)
		x->tunnels[0].mtu_state = MTU_PENDING;
	if (c == MTU_IS_CONTESTED)
		x->tunnels[0].mtu_state = MTU_CONTESTED;
	if (c == MTU_IS_OUT_OF_RANGE)
		x->tunnels[0].mtu_state = MTU_OUT_OF_RANGE;
	if (c == SECOND_PENDING)
		x->tunnels[1].mtu_state = MTU_PENDING;
	if (c == NO_MTU_YET)
		x->tunnels[0].max_pod_mtu = x->tunnels[1].max_pod_mtu = 0;
	if (c == TUNNEL_STATE)
		x->tunnels[0].state = TUNNEL_DOWN;
	if (c == TUNNEL_MTU)
		x->tunnels[0].actual = 1300;
	if (c == POD_MTU)
		x->tunnels[1].max_pod_mtu = 1360;
	if (c == REPAIRS)
		x->tunnels[0].repairs++;
	if (c == BOTH_WAYS || c == ONE_WAY || c == SECOND_BOTH_WAYS)
		x->tunnels[0].outbound = x->tunnels[0].inbound = STATUS_TRUE;
	if (c == BOTH_WAYS || c == ONE_WAY || c == SECOND_BOTH_WAYS)
		x->tunnels[0].asked = true;
	if (c == ONE_WAY || c == SECOND_BOTH_WAYS) {
		x->tunnels[0].inbound = STATUS_FALSE;
		x->tunnels[0].state = TUNNEL_ONE_WAY_TX;
	}
	if (c == SECOND_BOTH_WAYS) {
		x->tunnels[1] = x->tunnels[0];
		x->tunnels[1].inbound = STATUS_TRUE;
	}
	if (c == TOO_LARGE_FOR_PATH) {
		x->tunnels[0].state = TUNNEL_BLACK_HOLE;
		x->tunnels[0].path_mtu = 1300;
	}
	change_measured(&x->tunnels[1], c);
}

static void change_host(struct status_fixture *x, enum change c)
{
	struct status *s = &x->s;

	if (c == APPLY_FAILED)
		s->apply_error = "the kernel said no";
	if (c == GUARD_MISSING)
		s->guard_in_force = false;
	if (c == CONTESTED)
		s->contested = "table inet vgw_agent";
	if (c == NO_CERTIFICATE)
		s->certificate_not_after = 0;
	if (c == EXPIRED)
		s->certificate_not_after = NOW_S - 1;
	if (c == LAST_SECOND)
		s->certificate_not_after = NOW_S;
	if (c == DRIFT)
		s->n_drift = 0;
	if (c == CLOCK) {
		s->now += 86400000;
		s->age_ms = 1;
		s->revision++;
	}
	if (c == SKEW)
		s->skew_seconds = -3;
	if (c == MEMORY)
		s->rss_bytes *= 2;
	if (c == WARNING)
		x->warning.code = "PortShadowed";
}

static void fixture_changed(struct status_fixture *x, enum change c)
{
	fixture_start(x);
	x->tunnels[1].asked = true;
	change_spec(x, c);
	change_frontend(x, c);
	change_tunnel(x, c);
	change_host(x, c);
}

static const struct outcome {
	enum change change;
	const char *type, *status, *reason;
	const char *ready; /* "True", or the reason why not */
} outcomes[] = {
	{NOTHING, "SpecAccepted", "True", "Accepted", "True"},
	{NO_SPEC, "SpecAccepted", "False", "NoSpec", "NoSpec"},
	{REFUSED_FIRST, "SpecAccepted", "False", "CIDROverlap", "CIDROverlap"},
	{REFUSED, "SpecAccepted", "False", "CIDROverlap", "True"}, /* the one in force stays */
	{NOTHING, "FrontendsProgrammed", "True", "Programmed", "True"},
	{NO_SPEC, "FrontendsProgrammed", "Unknown", "NoSpec", "NoSpec"},
	{FRONTEND_PENDING, "FrontendsProgrammed", "False", "Pending", "Pending"},
	{FRONTEND_FAILED, "FrontendsProgrammed", "False", "Failed", "Failed"},
	{FRONTEND_DEGRADED, "FrontendsProgrammed", "True", "Programmed", "True"},
	{FRONTEND_OPEN, "FrontendsProgrammed", "True", "Programmed", "True"},
	{FRONTEND_EMPTY, "FrontendsProgrammed", "True", "Programmed", "True"},
	{APPLY_FAILED, "FrontendsProgrammed", "False", "ApplyFailed", "ApplyFailed"},
	{NOTHING, "ControlPlaneReachable", "True", "Healthy", "True"},
	{NO_CONTROL_PLANE, "ControlPlaneReachable", "Unknown", "NotConfigured", "True"},
	{BACKENDS_SOME, "ControlPlaneReachable", "True", "Healthy", "True"},
	{BACKENDS_DOWN, "ControlPlaneReachable", "False", "NoHealthyBackend", "NoHealthyBackend"},
	{BACKENDS_UNKNOWN, "ControlPlaneReachable", "Unknown", "NoVerdict", "True"},
	{NOTHING, "TunnelMTUReady", "True", "InSync", "True"},
	{NO_TUNNELS, "TunnelMTUReady", "True", "NoTunnels", "True"},
	{MTU_IS_PENDING, "TunnelMTUReady", "False", "Pending", "Pending"},
	{MTU_IS_CONTESTED, "TunnelMTUReady", "False", "Contested", "Contested"},
	{MTU_IS_OUT_OF_RANGE, "TunnelMTUReady", "False", "OutOfRange", "OutOfRange"},
	{SECOND_PENDING, "TunnelMTUReady", "False", "Pending", "Pending"},
	{NOTHING, "PodMTUFits", "True", "Fits", "True"},
	{NO_TUNNELS, "PodMTUFits", "True", "NoTunnels", "True"},
	{NO_VETH, "PodMTUFits", "Unknown", "NotGiven", "True"},
	{NO_MTU_YET, "PodMTUFits", "Unknown", "NoMTU", "True"},
	{VETH_TOO_LARGE, "PodMTUFits", "False", "PodMTUTooLarge", "True"},
	{NOTHING, "PrivateOnly", "True", "GuardInForce", "True"},
	{NO_SPEC, "PrivateOnly", "Unknown", "NoSpec", "NoSpec"},
	{PUBLIC_CONTROL_PLANE, "PrivateOnly", "False", "ControlPlanePublic", "True"},
	{GUARD_MISSING, "PrivateOnly", "False", "GuardMissing", "True"},
	{NOTHING, "HostHealthy", "True", "AsWanted", "True"},
	{CONTESTED, "HostHealthy", "False", "Contested", "True"},
	{APPLY_FAILED, "HostHealthy", "False", "ApplyFailed", "ApplyFailed"},
	{NOTHING, "CertificateValid", "True", "Valid", "True"},
	{LAST_SECOND, "CertificateValid", "True", "Valid", "True"},
	{EXPIRED, "CertificateValid", "False", "Expired", "True"},
	{NO_CERTIFICATE, "CertificateValid", "Unknown", "NoCertificate", "True"},
	{NOTHING, "ManagementAccessReady", "Unknown", "NotMeasured", "True"},
	{BOTH_WAYS, "ManagementAccessReady", "True", "BothWays", "True"},
	{ONE_WAY, "ManagementAccessReady", "False", "OneWayTx", "True"},
	{SECOND_BOTH_WAYS, "ManagementAccessReady", "True", "BothWays", "True"},
	{TOO_LARGE_FOR_PATH, "TunnelMTUReady", "False", "BlackHole", "BlackHole"},
	{NO_MANAGEMENT_TUNNEL, "ManagementAccessReady", "False", "NoTunnel", "True"},
};

static const cJSON *condition_of(const cJSON *root, const char *type)
{
	const cJSON *c;

	cJSON_ArrayForEach(
		c, cJSON_GetObjectItemCaseSensitive(
			   root, "conditions")) if (!strcmp(value_at(c, "type")->valuestring, type)) return c;
	return NULL;
}

static void all_outcomes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
		const struct outcome *o = &outcomes[i];
		const char *status, *reason, *ready;
		struct status_fixture x;
		const cJSON *c;
		cJSON *root;

		fixture_changed(&x, o->change);
		root = fixture_document(&x);
		c = condition_of(root, o->type);
		assert_non_null(c);
		status = value_at(c, "status")->valuestring;
		reason = value_at(c, "reason")->valuestring;
		if (strcmp(status, o->status) || strcmp(reason, o->reason))
			fail_msg("%zu: %s is %s for %s, not %s for %s", i, o->type, status, reason, o->status,
				 o->reason);
		c = condition_of(root, "Ready");
		ready = value_at(c, "status")->valuestring;
		if (strcmp(ready, "True"))
			ready = value_at(c, "reason")->valuestring;
		if (strcmp(ready, o->ready))
			fail_msg("%zu: with %s %s, Ready is %s, not %s", i, o->type, o->status, ready,
				 o->ready);
		cJSON_Delete(root);
		fixture_free(&x);
	}
}

/* A condition's time moves with its status alone. */
static void transitions(void **state)
{
	struct status_fixture x;
	struct status *s = &x.s;
	const struct status_condition *c = &s->conditions[CONDITION_TUNNEL_MTU_READY];

	(void)state;
	fixture_changed(&x, NOTHING);
	status_judge(s, x.before);
	assert_int_equal(c->since, NOW_MS);
	for (int step = 1; step < 6; step++) {
		static const enum status_mtu_state states[] = {MTU_IN_SYNC,   MTU_IN_SYNC, MTU_PENDING,
							       MTU_CONTESTED, MTU_IN_SYNC, MTU_IN_SYNC};
		static const int changed[] = {0, 0, 2, 2, 4, 4};

		memcpy(x.before, s->conditions, sizeof(x.before));
		s->now += 1000;
		x.tunnels[0].mtu_state = states[step];
		status_judge(s, x.before);
		assert_int_equal(c->since, NOW_MS + 1000 * changed[step]);
		assert_int_equal(s->conditions[CONDITION_HOST_HEALTHY].since, NOW_MS);
		assert_int_equal(s->conditions[CONDITION_READY].since, NOW_MS + 1000 * changed[step]);
	}
	/* One that went and comes back is new. */
	memcpy(x.before, s->conditions, sizeof(x.before));
	s->spec = NULL;
	status_judge(s, x.before);
	assert_false(s->conditions[CONDITION_MANAGEMENT_ACCESS_READY].present);
	memcpy(x.before, s->conditions, sizeof(x.before));
	s->spec = x.spec;
	s->now += 7000;
	status_judge(s, x.before);
	assert_int_equal(s->conditions[CONDITION_MANAGEMENT_ACCESS_READY].since, s->now);
	fixture_free(&x);
}

/* What the operator reads: the numbers. */
static void out_of_range(void **state)
{
	static const struct {
		uint32_t wanted, minimum, maximum;
		const char *message;
	} cases[] = {
		{9000, 68, 1450,
		 "tunnel mgmt: an MTU of 9000 is wanted, its device takes at most 1450; 1420 is in force"},
		{600, 700, 0,
		 "tunnel mgmt: an MTU of 600 is wanted, its device takes at least 700; 1420 is in force"},
		{1200, 1280, 1450,
		 "tunnel mgmt: an MTU of 1200 is wanted, IPv6 on it needs at least 1280; 1420 is in force"},
		{9000, 68, 0, "tunnel mgmt: its device refuses an MTU of 9000; 1420 is in force"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct status_fixture x;
		struct buf text = {0};
		char bounds[64];

		fixture_changed(&x, MTU_IS_OUT_OF_RANGE);
		x.tunnels[0].wanted = cases[i].wanted;
		x.tunnels[0].actual = 1420;
		x.tunnels[0].minimum = cases[i].minimum;
		x.tunnels[0].maximum = cases[i].maximum;
		status_judge(&x.s, x.before);
		assert_string_equal(x.s.conditions[CONDITION_TUNNEL_MTU_READY].message, cases[i].message);
		status_render(&x.s, false, &text);
		snprintf(bounds, sizeof(bounds),
			 cases[i].maximum ? "\"minimum\":%u,\"maximum\":%u," : "\"minimum\":%u,\"repairs\"",
			 cases[i].minimum, cases[i].maximum);
		assert_non_null(strstr(buf_str(&text), bounds));
		buf_free(&text);
		fixture_free(&x);
	}
}

static void substance_of(struct status_fixture *x, struct buf *out)
{
	cJSON *root;

	status_judge(&x->s, x->before);
	status_render(&x->s, true, out);
	root = cJSON_Parse(buf_str(out));
	assert_non_null(root);
	cJSON_Delete(root);
}

static void substance(void **state)
{
	struct status_fixture x;
	struct buf plain = {0};

	(void)state;
	fixture_changed(&x, NOTHING);
	substance_of(&x, &plain);
	fixture_free(&x);
	for (enum change c = NO_SPEC; c <= ADDRESS; c++) {
		bool counts = (c < LATENCY || c > MEMORY);
		struct buf text = {0};

		fixture_changed(&x, c);
		substance_of(&x, &text);
		if (!strcmp(buf_str(&plain), buf_str(&text)) == counts)
			fail_msg("change %d %s: %s", c, counts ? "does not count" : "counts", buf_str(&text));
		fixture_free(&x);
		buf_free(&text);
	}
	buf_free(&plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_outcomes),
		cmocka_unit_test(transitions),
		cmocka_unit_test(out_of_range),
		cmocka_unit_test(substance),
	};

	return cmocka_run_group_tests_name("conditions", tests, NULL, NULL);
}
