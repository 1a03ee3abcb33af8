/* SPDX-License-Identifier: Apache-2.0 */
/* The status document: the contract's members and words, and what the revision counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "status_fixture.h"

struct expected {
	const char *path, *value;
};

static void assert_values(const cJSON *root, const struct expected *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_value(root, e[i].path, e[i].value);
}
#define assert_all(root, list) assert_values(root, list, sizeof(list) / sizeof((list)[0]))

static void members(void **state)
{
	static const struct expected list[] = {
		{"apiVersion", "\"vgw-agent/v1\""},
		{"kind", "\"GatewayStatus\""},
		{"revision", "118"},
		{"bootId", "\"b00t\""},
		{"time", "\"2026-11-30T10:00:00Z\""},
		{"ageMs", "12"},
		{"agent", "{\"version\":\"0.1.0\",\"startTime\":\"2026-11-30T08:00:00Z\",\"rssBytes\":"
			  "3100000,\"kernel\":\"6.12.0\",\"features\":[\"nft-owner-persist\"]}"},
		{"generation", "{\"accepted\":3,\"applied\":3}"},
		{"endpoint", "{\"host\":\"192.168.150.1\",\"port\":6443}"},
		{"conditions/0/type", "\"Ready\""},
		{"conditions/0/lastTransitionTime", "\"2026-11-30T10:00:00Z\""},
		{"frontends/0/name", "\"kube-apiserver\""},
		{"frontends/0/address", "\"192.168.150.1\""},
		{"frontends/0/port", "6443"},
		{"frontends/0/protocol", "\"TCP\""},
		{"frontends/0/state", "\"Programmed\""},
		{"frontends/0/healthy", "3"},
		{"frontends/0/total", "3"},
		{"frontends/0/backends/2/address", "\"192.168.150.13\""},
		{"frontends/0/backends/2/port", "6443"},
		{"frontends/0/backends/2/state", "\"Up\""},
		{"frontends/0/backends/2/since", "\"2026-11-30T09:59:55Z\""},
		{"frontends/0/backends/2/check",
		 "{\"stage\":\"http\",\"code\":\"OK\",\"detail\":\"200\",\"latencyMs\":3.1,\"streak\":41,"
		 "\"time\":\"2026-11-30T09:59:59Z\"}"},
		{"frontends/0/backends/2/certificate",
		 "{\"notAfter\":\"2026-12-01T10:00:00Z\",\"hasGatewayAddress\":true,\"verified\":true}"},
		{"frontends/1/state", "\"Ignored\""},
		{"frontends/1/protocol", "\"UDP\""},
		{"frontends/1/address", ""},
		{"frontends/1/backends", "[]"},
		{"tunnels/0/name", "\"mgmt\""},
		{"tunnels/0/interface", "\"wg0\""},
		{"tunnels/0/state", "\"Unknown\""},
		{"tunnels/0/mtu", "{\"state\":\"InSync\",\"wanted\":1400,\"actual\":1400,\"original\":1420,"
				  "\"repairs\":0}"},
		{"tunnels/0/path/pmtud", "\"Unknown\""},
		{"tunnels/0/maxPodMTU", "1350"},
		{"tunnels/0/peer/address", "\"192.168.10.1\""},
		{"tunnels/1/interface", ""},
		{"tunnels/1/peer/address", ""},
		/* Only tunnels that lead to the cloudspace asked for. */
		{"managementConnections", "[{\"cloudspaceId\":\"cs-7f2a\",\"tunnel\":\"mgmt\",\"outbound\":"
					  "\"Unknown\",\"inbound\":\"Unknown\"}]"},
		{"probes/0/name", "\"remote-api\""},
		{"probes/0/state", "\"Up\""},
		{"probes/0/check/code", "\"OK\""},
		{"certificate", "{\"notAfter\":\"2027-09-26T10:00:00Z\",\"daysLeft\":300}"},
		{"drift", "[{\"time\":\"2026-11-30T09:59:00Z\",\"object\":\"table inet vgw_agent\",\"by\":"
			  "\"pid 812 nft\",\"repairedAfterMs\":40}]"},
		{"warnings", "[{\"code\":\"ForwardDrop\",\"message\":\"another table drops\",\"fix\":"
			     "\"accept it there\"}]"},
	};
	struct status_fixture x;
	cJSON *root;

	(void)state;
	fixture_start(&x);
	root = fixture_document(&x);
	assert_all(root, list);
	cJSON_Delete(root);
	fixture_free(&x);
}

/* What is not known is left out, or null where it is a time. */
static void nothing_yet(void **state)
{
	static const struct expected list[] = {
		{"generation", "{\"accepted\":0,\"applied\":0}"},
		{"frontends", "[]"},
		{"tunnels", "[]"},
		{"probes", "[]"},
		{"drift", "[]"},
		{"warnings", "[]"},
		{"endpoint", ""},
		{"certificate", ""},
		{"managementConnections", ""},
		{"agent/features", "[]"},
		{"conditions/1/type", "\"SpecAccepted\""},
		{"conditions/1/status", "\"False\""},
		{"conditions/9", ""}, /* ManagementAccessReady was not asked for */
	};
	struct status_fixture x;
	struct status s = {.boot_id = "", .version = "", .kernel = "", .apply_error = "", .contested = ""};
	cJSON *root;

	(void)state;
	fixture_start(&x);
	x.s = s;
	root = fixture_document(&x);
	assert_all(root, list);
	cJSON_Delete(root);
	fixture_free(&x);
}

static void partly_known(void **state)
{
	static const struct expected list[] = {
		{"endpoint", ""},
		{"frontends/0/address", ""},
		{"frontends/0/state", "\"Pending\""},
		{"frontends/0/backends/0/since", "null"},
		{"frontends/0/backends/0/check", ""},
		{"frontends/0/backends/0/certificate", ""},
		{"tunnels/0/mtu/actual", ""},
		{"tunnels/0/maxPodMTU", ""},
		{"drift/0/by", ""},
		{"drift/0/repairedAfterMs", ""},
		{"warnings/0/fix", ""},
		{"managementConnections", "[]"},
	};
	struct status_fixture x;
	cJSON *root;

	(void)state;
	fixture_start(&x);
	x.frontends[0].at.addr.family = IP_NONE;
	x.frontends[0].state = STATUS_PENDING;
	x.backends[0].since = -1;
	memset(&x.backends[0].check, 0, sizeof(x.backends[0].check));
	x.tunnels[0].actual = x.tunnels[0].max_pod_mtu = 0;
	x.tunnels[0].peer_cloudspace = "cs-other";
	x.drift.by[0] = '\0';
	x.drift.repaired_after_ms = -1;
	x.warning.fix = "";
	root = fixture_document(&x);
	assert_all(root, list);
	cJSON_Delete(root);
	fixture_free(&x);
}

/* One value of the fixture set to each of its words. */
static void assert_words(struct status_fixture *x, void *at, size_t size, const char *path,
			 const char *const *words)
{
	for (unsigned i = 0; words[i]; i++) {
		char expected[64];
		cJSON *root;

		memcpy(at, &i, size);
		root = fixture_document(x);
		snprintf(expected, sizeof(expected), "\"%s\"", words[i]);
		assert_value(root, path, expected);
		cJSON_Delete(root);
	}
}
#define assert_enum(member, path, ...)                                                                       \
	assert_words(&x, &(member), sizeof(member), path, (const char *const[]){__VA_ARGS__, NULL})

static void words(void **state)
{
	struct status_fixture x;

	(void)state;
	_Static_assert(sizeof(x.frontends[0].state) == sizeof(unsigned), "enums are copied as such");
	fixture_start(&x);
	assert_enum(x.frontends[0].state, "frontends/0/state", "Programmed", "Degraded", "FailOpen",
		    "NoBackends", "Pending", "Ignored", "Failed");
	assert_enum(x.backends[1].state, "frontends/0/backends/1/state", "Unknown", "Up", "Draining", "Dead");
	assert_enum(x.probe.state, "probes/0/state", "Unknown", "Up", "Draining", "Dead");
	assert_enum(x.backends[1].check.result.stage, "frontends/0/backends/1/check/stage", "none", "route",
		    "connect", "tls", "http");
	assert_enum(x.backends[1].check.result.code, "frontends/0/backends/1/check/code", "OK", "NoRoute",
		    "Refused", "Unreachable", "Timeout", "TLSFailed", "CertificateInvalid", "HTTPStatus",
		    "AuthRequired", "Malformed");
	assert_enum(x.tunnels[0].mtu_state, "tunnels/0/mtu/state", "InSync", "Pending", "Contested",
		    "OutOfRange");
	fixture_free(&x);
}

static void measured_tunnel(void **state)
{
	static const struct expected list[] = {
		{"tunnels/0/state", "\"Up\""},
		{"tunnels/0/path", "{\"mtu\":1400,\"reverseMtu\":1320,\"pmtud\":\"Working\","
				   "\"measuredAt\":\"2026-11-30T10:00:00Z\"}"},
		{"tunnels/0/peer",
		 "{\"address\":\"192.168.10.1\",\"agent\":true,\"rttMs\":1.9,\"lossPercent\":0,"
		 "\"lastHeard\":\"2026-11-30T09:59:59Z\"}"},
		{"managementConnections/0/outbound", "\"True\""},
		{"managementConnections/0/inbound", "\"False\""},
		/* Asked, and nothing heard yet. */
		{"tunnels/1/path", "{\"pmtud\":\"Unknown\"}"},
		{"tunnels/1/peer", "{\"agent\":false}"},
	};
	struct status_fixture x;
	cJSON *root;

	(void)state;
	fixture_start(&x);
	x.tunnels[0].state = TUNNEL_UP;
	x.tunnels[0].asked = x.tunnels[0].has_agent = x.tunnels[1].asked = true;
	x.tunnels[0].path_mtu = 1400;
	x.tunnels[0].reverse_mtu = 1320;
	x.tunnels[0].pmtud = PMTU_WORKING;
	x.tunnels[0].measured_at = NOW_MS;
	x.tunnels[0].rtt_ms = 1.9;
	x.tunnels[0].last_heard = NOW_MS - 1000;
	x.tunnels[0].outbound = STATUS_TRUE;
	x.tunnels[1].rtt_ms = x.tunnels[1].loss_percent = -1;
	x.tunnels[1].last_heard = -1;
	root = fixture_document(&x);
	assert_all(root, list);
	cJSON_Delete(root);
	fixture_free(&x);
}

static void tunnel_words(void **state)
{
	static const struct {
		enum status_tunnel_state state;
		const char *word;
	} cases[] = {{TUNNEL_ABSENT, "\"Absent\""},
		     {TUNNEL_UNKNOWN, "\"Unknown\""},
		     {TUNNEL_DOWN, "\"Down\""},
		     {TUNNEL_UP, "\"Up\""},
		     {TUNNEL_ONE_WAY_TX, "\"OneWayTx\""},
		     {TUNNEL_ONE_WAY_RX, "\"OneWayRx\""},
		     {TUNNEL_BLACK_HOLE, "\"BlackHole\""},
		     {TUNNEL_NO_ROUTE, "\"NoRoute\""}};
	struct status_fixture x;

	(void)state;
	fixture_start(&x);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cJSON *root;

		x.tunnels[1].state = cases[i].state;
		root = fixture_document(&x);
		assert_value(root, "tunnels/1/state", cases[i].word);
		cJSON_Delete(root);
	}
	fixture_free(&x);
}

/* Whatever a name or a message holds, the document is JSON, and reads back as far as it is text. */
static void hostile_text(void **state)
{
	static const struct {
		const char *text, *back;
	} cases[] = {
		{"\"}],\\", "\"}],\\"},
		{"\x01\x1f\t\r\n\x7f", "\x01\x1f\t\r\n\x7f"},
		{"gr\xc3\xbc\xc3\x9f \xf0\x9f\x94\xa5", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x94\xa5"},
		{"cut \xf0\x9f\x94", "cut \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xff\xc0\xaf\xed\xa0\x80.", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
					      "\xef\xbf\xbd."},
		{"a\xc3", "a\xef\xbf\xbd"},
		{"</script>%s%n", "</script>%s%n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct status_fixture x;
		cJSON *root;

		fixture_start(&x);
		x.frontends[0].name = x.tunnels[0].name = x.warning.message = x.probe.name = cases[i].text;
		x.s.apply_error = x.s.contested = cases[i].text;
		snprintf(x.drift.by, sizeof(x.drift.by), "%s", cases[i].text);
		snprintf(x.backends[0].check.result.detail, 96, "%s", cases[i].text);
		root = fixture_document(&x);
		assert_string_equal(value_at(root, "frontends/0/name")->valuestring, cases[i].back);
		assert_string_equal(value_at(root, "drift/0/by")->valuestring, cases[i].back);
		assert_string_equal(value_at(root, "frontends/0/backends/0/check/detail")->valuestring,
				    cases[i].back);
		cJSON_Delete(root);
		fixture_free(&x);
	}
}

/* A message too long for its place is cut, in the middle of a character if need be. */
static void long_names(void **state)
{
	char name[254];

	(void)state;
	for (size_t shift = 0; shift < 3; shift++) {
		struct status_fixture x;

		memset(name, 'a', shift);
		for (size_t i = shift; i + 3 < sizeof(name); i += 3)
			memcpy(name + i, "\xe6\xbc\xa2", 4);
		fixture_start(&x);
		x.frontends[0].name = x.tunnels[0].name = name;
		x.frontends[0].state = STATUS_FAILED;
		x.tunnels[0].mtu_state = MTU_CONTESTED;
		cJSON_Delete(fixture_document(&x));
		fixture_free(&x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members),	   cmocka_unit_test(nothing_yet),
		cmocka_unit_test(partly_known),	   cmocka_unit_test(words),
		cmocka_unit_test(tunnel_words),	   cmocka_unit_test(hostile_text),
		cmocka_unit_test(measured_tunnel), cmocka_unit_test(long_names),
	};

	return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
