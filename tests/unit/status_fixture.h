/* SPDX-License-Identifier: Apache-2.0 */
/* A status with one of everything, as in CONTRACT's example, and its document as cJSON reads it. */
#ifndef TESTS_UNIT_STATUS_FIXTURE_H
#define TESTS_UNIT_STATUS_FIXTURE_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "vgw/model/json_reader.h"
#include "vgw/model/status.h"
#include "wanted_fixture.h"

enum { NOW_S = 1796032800 }; /* 2026-11-30T10:00:00Z */
#define NOW_MS ((int64_t)NOW_S * 1000)

static const char status_spec[] =
	PRIVATE(",'cni':{'vethMTU':1350},'frontends':[" APISERVER "],"
		"'managementAccess':{'connectedCloudspace':{'cloudspaceId':'cs-7f2a'}}");

struct status_fixture {
	struct status s;
	struct spec *spec;
	struct vgw_err refused;
	struct status_backend backends[3];
	struct status_frontend frontends[2];
	struct status_tunnel tunnels[2];
	struct status_probe probe;
	struct status_drift drift;
	struct status_warning warning;
	struct status_condition before[N_CONDITIONS];
};

static inline struct status_check check_passed(void)
{
	struct status_check c = {.done = true, .streak = 41, .time = NOW_MS - 1000};

	c.result.stage = CHECK_STAGE_HTTP;
	strcpy(c.result.detail, "200");
	c.result.latency_ms = 3.14;
	c.result.certificate = (struct check_certificate){true, NOW_S + 86400, true, true};
	return c;
}

static inline void fixture_frontends(struct status_fixture *x)
{
	for (int i = 0; i < 3; i++) {
		x->backends[i].at = endpoint_of("192.168.150.11:6443");
		x->backends[i].at.addr.bytes[3] = (uint8_t)(11 + i);
		x->backends[i].state = HEALTH_UP;
		x->backends[i].since = NOW_MS - 5000;
		x->backends[i].check = check_passed();
	}
	x->frontends[0] = (struct status_frontend){.name = "kube-apiserver",
						   .at = endpoint_of("192.168.150.1:6443"),
						   .protocol = SPEC_TCP,
						   .control_plane = true,
						   .backends = x->backends,
						   .n_backends = 3,
						   .n_healthy = 3};
	x->frontends[1] = (struct status_frontend){
		.name = "theirs", .at = {.port = 53}, .protocol = SPEC_UDP, .state = STATUS_IGNORED};
}

static inline void fixture_start(struct status_fixture *x)
{
	static const char *const features[] = {"nft-owner-persist"};
	static const struct status_tunnel tunnel = {.name = "mgmt",
						    .interface = "wg0",
						    .state = TUNNEL_UNKNOWN,
						    .wanted = 1400,
						    .actual = 1400,
						    .original = 1420,
						    .max_pod_mtu = 1350,
						    .peer_cloudspace = "cs-7f2a"};

	memset(x, 0, sizeof(*x));
	x->spec = spec_of(status_spec);
	fixture_frontends(x);
	x->tunnels[0] = x->tunnels[1] = tunnel;
	x->tunnels[0].peer_address = address_of("192.168.10.1");
	x->tunnels[1].name = "policy";
	x->tunnels[1].interface = "";
	x->tunnels[1].peer_cloudspace = "cs-other";
	x->probe = (struct status_probe){"remote-api", HEALTH_UP, check_passed()};
	x->drift = (struct status_drift){NOW_MS - 60000, "table inet vgw_agent", "pid 812 nft", 40};
	x->warning = (struct status_warning){"ForwardDrop", "another table drops", "accept it there"};
	x->s = (struct status){.revision = 118,
			       .now = NOW_MS,
			       .start_time = NOW_MS - 7200000,
			       .age_ms = 12,
			       .boot_id = "b00t",
			       .version = "0.1.0",
			       .kernel = "6.12.0",
			       .rss_bytes = 3100000,
			       .features = features,
			       .n_features = 1,
			       .spec = x->spec,
			       .accepted = 3,
			       .applied = 3,
			       .apply_error = "",
			       .frontends = x->frontends,
			       .n_frontends = 2,
			       .tunnels = x->tunnels,
			       .n_tunnels = 2,
			       .probes = &x->probe,
			       .n_probes = 1,
			       .guard_in_force = true,
			       .contested = "",
			       .certificate_not_after = NOW_S + 300 * 86400,
			       .has_skew = true,
			       .skew_seconds = 0.5,
			       .drift = &x->drift,
			       .n_drift = 1,
			       .warnings = &x->warning,
			       .n_warnings = 1};
}

static inline void fixture_free(struct status_fixture *x)
{
	spec_free(x->spec);
}

/* The document, which must be one that a strict reader takes; for cJSON_Delete(). */
static inline cJSON *fixture_document(struct status_fixture *x)
{
	struct buf text = {0};
	struct json_reader r;
	cJSON *root;

	status_judge(&x->s, x->before);
	status_render(&x->s, false, &text);
	if (json_open(&r, "InvalidStatus", buf_str(&text), text.len, 1 << 20, &x->refused) < 0)
		fail_msg("%s: %s", x->refused.text, buf_str(&text));
	json_close(&r);
	root = cJSON_Parse(buf_str(&text));
	assert_non_null(root);
	buf_free(&text);
	return root;
}

/* The value at a path such as "frontends/0/state"; NULL when there is none. */
static inline const cJSON *value_at(const cJSON *root, const char *path)
{
	char copy[128], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *p = strtok_r(copy, "/", &save); p && root; p = strtok_r(NULL, "/", &save))
		root = cJSON_IsArray(root) ? cJSON_GetArrayItem(root, atoi(p))
					   : cJSON_GetObjectItemCaseSensitive(root, p);
	return root;
}

/* The value at PATH, printed as JSON, is EXPECTED; "" stands for none at all. */
static inline void assert_value(const cJSON *root, const char *path, const char *expected)
{
	const cJSON *v = value_at(root, path);
	char *text = v ? cJSON_PrintUnformatted(v) : strdup("");

	if (strcmp(text, expected))
		fail_msg("%s is %s, not %s", path, text, expected);
	free(text);
}

#endif
