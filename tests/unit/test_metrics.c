/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics' text: golden, escaped, and a histogram that adds up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vgw/model/metrics.h"

static struct ip_endpoint endpoint_of(const char *text)
{
	struct ip_endpoint e;

	assert_int_equal(ip_endpoint_parse(text, &e), 0);
	return e;
}

/* Nothing is known, nothing has happened. */
static struct metrics nothing(void)
{
	static const struct metrics_histogram no_checks;

	return (struct metrics){.version = "0.1.0",
				.checks = &no_checks,
				.conntrack_entries = -1,
				.conntrack_limit = -1,
				.conntrack_insert_failed = -1,
				.connections = -1,
				.process = {-1, -1, -1, -1, -1, -1}};
}

static char *render(const struct metrics *m)
{
	struct buf b = {0};

	metrics_render(m, &b);
	assert_false(b.failed);
	return buf_take(&b);
}

/* The text's samples, without HELP and TYPE lines; for free(3). */
static char *samples(const struct metrics *m)
{
	char *text = render(m), *save = NULL;
	struct buf b = {0};

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (*line != '#')
			buf_printf(&b, "%s\n", line);
	free(text);
	return buf_take(&b);
}

static const char golden_samples[] =
	"vgw_agent_build_info{version=\"0.1.0\"} 1\n"
	"vgw_agent_spec_generation{state=\"accepted\"} 3\n"
	"vgw_agent_spec_generation{state=\"applied\"} 2\n"
	"vgw_frontend_backends{frontend=\"kube-apiserver\",state=\"Unknown\"} 0\n"
	"vgw_frontend_backends{frontend=\"kube-apiserver\",state=\"Up\"} 1\n"
	"vgw_frontend_backends{frontend=\"kube-apiserver\",state=\"Draining\"} 0\n"
	"vgw_frontend_backends{frontend=\"kube-apiserver\",state=\"Dead\"} 1\n"
	"vgw_frontend_backends{frontend=\"empty\",state=\"Unknown\"} 0\n"
	"vgw_frontend_backends{frontend=\"empty\",state=\"Up\"} 0\n"
	"vgw_frontend_backends{frontend=\"empty\",state=\"Draining\"} 0\n"
	"vgw_frontend_backends{frontend=\"empty\",state=\"Dead\"} 0\n"
	"vgw_backend_up{frontend=\"kube-apiserver\",backend=\"192.168.150.11:6443\"} 1\n"
	"vgw_backend_up{frontend=\"kube-apiserver\",backend=\"[fd00:150::12]:6443\"} 0\n"
	"vgw_flows_reaped_total{frontend=\"kube-apiserver\",backend=\"192.168.150.11:6443\"} 0\n"
	"vgw_flows_reaped_total{frontend=\"kube-apiserver\",backend=\"[fd00:150::12]:6443\"} "
	"18446744073709551615\n"
	"vgw_backend_check_seconds_bucket{le=\"0.001\"} 1\n"
	"vgw_backend_check_seconds_bucket{le=\"0.0025\"} 1\n"
	"vgw_backend_check_seconds_bucket{le=\"0.005\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"0.01\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"0.025\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"0.05\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"0.1\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"0.25\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"0.5\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"1\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"2.5\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"5\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"10\"} 3\n"
	"vgw_backend_check_seconds_bucket{le=\"+Inf\"} 4\n"
	"vgw_backend_check_seconds_sum 20.008\n"
	"vgw_backend_check_seconds_count 4\n"
	"vgw_tunnel_state{tunnel=\"mgmt\",state=\"Absent\"} 0\n"
	"vgw_tunnel_state{tunnel=\"mgmt\",state=\"Unknown\"} 0\n"
	"vgw_tunnel_state{tunnel=\"mgmt\",state=\"Up\"} 0\n"
	"vgw_tunnel_state{tunnel=\"mgmt\",state=\"Down\"} 0\n"
	"vgw_tunnel_state{tunnel=\"mgmt\",state=\"OneWayTx\"} 0\n"
	"vgw_tunnel_state{tunnel=\"mgmt\",state=\"OneWayRx\"} 0\n"
	"vgw_tunnel_state{tunnel=\"mgmt\",state=\"BlackHole\"} 1\n"
	"vgw_tunnel_state{tunnel=\"mgmt\",state=\"NoRoute\"} 0\n"
	"vgw_tunnel_mtu_bytes{tunnel=\"mgmt\",kind=\"wanted\"} 1400\n"
	"vgw_tunnel_mtu_bytes{tunnel=\"mgmt\",kind=\"actual\"} 1420\n"
	"vgw_tunnel_mtu_bytes{tunnel=\"mgmt\",kind=\"reverse\"} 1380\n"
	"vgw_tunnel_mtu_bytes{tunnel=\"mgmt\",kind=\"maxPod\"} 1350\n"
	"vgw_tunnel_rtt_seconds{tunnel=\"mgmt\"} 0.0019\n"
	"vgw_drift_repairs_total{object=\"link wg0\"} 4\n"
	"vgw_ruleset_tampered_total 5\n"
	"vgw_guard_dropped_packets_total 6\n"
	"vgw_conntrack_entries 7\n"
	"vgw_conntrack_limit 262144\n"
	"vgw_conntrack_insert_failed_total 0\n"
	"vgw_certificate_not_after_seconds{certificate=\"server\"} 1795000000\n"
	"vgw_control_requests_total{code=\"200\"} 8\n"
	"vgw_control_requests_total{code=\"404\"} 1\n"
	"vgw_control_connections 2\n"
	"process_cpu_seconds_total 0.25\n"
	"process_open_fds 12\n"
	"process_max_fds 1024\n"
	"process_virtual_memory_bytes 9000000\n"
	"process_resident_memory_bytes 3100000\n"
	"process_start_time_seconds 1796032800.125\n";

static void golden(void **state)
{
	const struct metrics_backend backends[] = {
		{endpoint_of("192.168.150.11:6443"), HEALTH_UP, 0},
		{endpoint_of("[fd00:150::12]:6443"), HEALTH_DEAD, UINT64_MAX}};
	const struct metrics_frontend frontends[] = {{"kube-apiserver", backends, 2}, {"empty", NULL, 0}};
	const struct metrics_tunnel tunnel = {.name = "mgmt",
					      .state = "BlackHole",
					      .wanted = 1400,
					      .actual = 1420,
					      .reverse = 1380,
					      .max_pod = 1350,
					      .rtt_seconds = 0.0019};
	const struct metrics_repairs repairs = {"link wg0", 4};
	const struct metrics_code codes[] = {{200, 8}, {404, 1}};
	struct metrics_histogram checks = {.sum = 0};
	struct metrics m = nothing();
	char *text;

	metrics_observe(&checks, 0.001);
	metrics_observe(&checks, 0.003);
	metrics_observe(&checks, 0.004);
	metrics_observe(&checks, 20);
	m.accepted = 3;
	m.applied = 2;
	m.frontends = frontends;
	m.n_frontends = 2;
	m.checks = &checks;
	m.tunnels = &tunnel;
	m.n_tunnels = 1;
	m.repairs = &repairs;
	m.n_repairs = 1;
	m.tampered = 5;
	m.dropped = 6;
	m.conntrack_entries = 7;
	m.conntrack_limit = 262144;
	m.conntrack_insert_failed = 0;
	m.certificate_not_after = 1795000000;
	m.codes = codes;
	m.n_codes = 2;
	m.connections = 2;
	m.process = (struct metrics_process){0.25, 1796032800.125, 12, 1024, 9000000, 3100000};
	text = samples(&m);
	assert_string_equal(text, golden_samples);
	free(text);
}

/* Every family is announced, once and before its samples, also when nothing is known of it. */
static void announced(void **state)
{
	static const char *const families[] = {
		"vgw_agent_build_info gauge",
		"vgw_agent_spec_generation gauge",
		"vgw_frontend_backends gauge",
		"vgw_backend_up gauge",
		"vgw_backend_check_seconds histogram",
		"vgw_flows_reaped_total counter",
		"vgw_tunnel_state gauge",
		"vgw_tunnel_mtu_bytes gauge",
		"vgw_tunnel_rtt_seconds gauge",
		"vgw_drift_repairs_total counter",
		"vgw_ruleset_tampered_total counter",
		"vgw_guard_dropped_packets_total counter",
		"vgw_conntrack_entries gauge",
		"vgw_conntrack_limit gauge",
		"vgw_conntrack_insert_failed_total counter",
		"vgw_certificate_not_after_seconds gauge",
		"vgw_control_requests_total counter",
		"vgw_control_connections gauge",
		"process_cpu_seconds_total counter",
		"process_open_fds gauge",
		"process_max_fds gauge",
		"process_virtual_memory_bytes gauge",
		"process_resident_memory_bytes gauge",
		"process_start_time_seconds gauge",
	};
	struct metrics m = nothing();
	char *text = render(&m), line[128];

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		const char *at;

		snprintf(line, sizeof(line), "\n# TYPE %s\n", families[i]);
		at = strstr(text, line);
		if (!at || strstr(at + 1, line))
			fail_msg("%s is not there once", families[i]);
		snprintf(line, sizeof(line), "# HELP %.*s ", (int)strcspn(families[i], " "), families[i]);
		assert_non_null(strstr(text, line));
	}
	free(text);
	text = samples(&m);
	assert_null(strstr(text, "process_"));
	assert_null(strstr(text, "conntrack"));
	assert_null(strstr(text, "connections"));
	assert_null(strstr(text, "certificate"));
	free(text);
}

static void escaped(void **state)
{
	static const struct {
		const char *name, *label;
	} cases[] = {
		{"", "\"\""},		{"default/web", "\"default/web\""},
		{"a\"b", "\"a\\\"b\""}, {"a\\b", "\"a\\\\b\""},
		{"a\nb", "\"a\\nb\""},	{"\\\"\n", "\"\\\\\\\"\\n\""},
		{"\\n", "\"\\\\n\""},	{"caf\xc3\xa9 {x=\"y\"}", "\"caf\xc3\xa9 {x=\\\"y\\\"}\""},
	};
	char line[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct metrics_frontend frontend = {cases[i].name, NULL, 0};
		const struct metrics_repairs repairs = {cases[i].name, 1};
		struct metrics m = nothing();
		char *text;

		m.frontends = &frontend;
		m.n_frontends = 1;
		m.repairs = &repairs;
		m.n_repairs = 1;
		text = render(&m);
		snprintf(line, sizeof(line), "\nvgw_frontend_backends{frontend=%s,state=\"Up\"} 0\n",
			 cases[i].label);
		assert_non_null(strstr(text, line));
		snprintf(line, sizeof(line), "\nvgw_drift_repairs_total{object=%s} 1\n", cases[i].label);
		assert_non_null(strstr(text, line));
		free(text);
	}
}

/* Buckets grow, the last is the count, whatever was observed. */
static void histogram(void **state)
{
	struct metrics_histogram h = {.sum = 0};
	struct metrics m = nothing();
	uint64_t last = 0, n = 0;
	char *text, *at;

	for (int i = 0; i < 4000; i++)
		metrics_observe(&h, (double)i * (double)i / 1000000.0);
	m.checks = &h;
	text = samples(&m);
	for (at = strstr(text, "_bucket{"); at; at = strstr(at + 1, "_bucket{")) {
		uint64_t count = strtoull(strchr(at, '}') + 1, NULL, 10);

		assert_true(count >= last);
		last = count;
		n++;
	}
	assert_int_equal(n, METRICS_BUCKETS + 1);
	assert_int_equal(last, 4000);
	assert_non_null(strstr(text, "_count 4000\n"));
	/* On the bound is within it: 100² µs are 10 ms. */
	assert_non_null(strstr(text, "{le=\"0.001\"} 32\n"));
	assert_non_null(strstr(text, "{le=\"0.01\"} 101\n"));
	free(text);
}

/* Ten times as many frontends take about ten times as long. */
static void grows_linearly(void **state)
{
	enum { FRONTENDS = 10000, BACKENDS = 10 };
	static struct metrics_frontend frontends[FRONTENDS];
	struct metrics_backend backends[BACKENDS];
	double took[2];

	for (int i = 0; i < BACKENDS; i++)
		backends[i] = (struct metrics_backend){endpoint_of("192.168.150.11:30443"), HEALTH_UP, 1};
	for (int i = 0; i < FRONTENDS; i++)
		frontends[i] = (struct metrics_frontend){"default/web", backends, BACKENDS};
	for (int i = 0; i < 2; i++) {
		struct metrics m = nothing();
		clock_t begin = clock();

		m.frontends = frontends;
		m.n_frontends = i ? FRONTENDS : FRONTENDS / 10;
		free(render(&m));
		took[i] = (double)(clock() - begin) / CLOCKS_PER_SEC;
	}
	print_message("1,000 frontends %.1f ms, 10,000 frontends %.1f ms\n", took[0] * 1e3, took[1] * 1e3);
	assert_true(took[1] < 50 * took[0] + 0.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden),    cmocka_unit_test(announced),      cmocka_unit_test(escaped),
		cmocka_unit_test(histogram), cmocka_unit_test(grows_linearly),
	};

	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
