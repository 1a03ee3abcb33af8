/* SPDX-License-Identifier: Apache-2.0 */
/* The rules between a spec and the one that is live. */
#include "tests/unit/spec_text.h"

#include <errno.h>

#include "vgw/model/rules.h"

static const struct rules_host no_host = {.control_port = 9443, .probe_port = 9444};

#define CLUSTER(generation, cluster, members)                                                                \
	"{'apiVersion':'vgw-agent/v1','generation':" generation ",'cluster':'" cluster "'" members "}"

static void generations(void **state)
{
	static const struct {
		const char *wanted;
		int rc;
	} rows[] = {
		{CLUSTER("5", "c", "," SPEC_NETWORK), 0},
		{CLUSTER("5", "c", "," SPEC_NETWORK ",'role':'gateway','probes':[]"),
		 0}, /* the same, decoded */
		{CLUSTER("6", "c", "," SPEC_NETWORK), 0},
		{CLUSTER("6", "c", "," SPEC_NETWORK ",'role':'management'"), 0},
		{CLUSTER("4", "c", "," SPEC_NETWORK), -ESTALE},
		{CLUSTER("0", "c", "," SPEC_NETWORK), -ESTALE},
		{CLUSTER("5", "c", "," SPEC_NETWORK ",'role':'management'"), -ESTALE},
		{CLUSTER("4", "d", "," SPEC_NETWORK), 0}, /* counts per cluster */
		{CLUSTER("5", "d", "," SPEC_NETWORK), 0},
	};
	struct spec *accepted = spec_of(CLUSTER("5", "c", "," SPEC_NETWORK));
	struct vgw_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec *s = spec_of(rows[i].wanted);
		int rc;

		memset(&err, 0, sizeof(err));
		rc = rules_check_generation(s, accepted, &err);
		if (rc != rows[i].rc)
			fail_msg("%s: %d", rows[i].wanted, rc);
		assert_string_equal(err.reason, rc ? "StaleGeneration" : "");
		assert_string_equal(err.where, rc ? "/generation" : "");
		assert_int_equal(rules_check_generation(s, NULL, &err), 0);
		spec_free(s);
	}
	spec_free(accepted);
}

static void live_control_plane(void **state)
{
#define LIVE(cluster, exposure, network, members)                                                            \
	CLUSTER("1", cluster, ",'controlPlaneExposure':'" exposure "','cloudspace':{" network "}" members)
#define NET_A	"'privateNetwork':'192.168.150.0/24'"
#define NET_B	"'privateNetwork':'192.168.151.0/24'"
#define API	",'frontends':[{'name':'kube-apiserver','port':6443}]"
#define CHANGED "ControlPlaneExposureChanged"
	static const struct {
		const char *accepted, *wanted, *reason, *where;
	} rows[] = {
		{LIVE("c", "private", NET_A, API), LIVE("c", "private", NET_A, API), NULL, ""},
		{LIVE("c", "private", NET_A, API), LIVE("c", "private", NET_A, ""), NULL, ""},
		{LIVE("c", "private", NET_A, API), LIVE("c", "public", NET_A, API), CHANGED,
		 "/controlPlaneExposure"},
		{LIVE("c", "public", NET_A, API), LIVE("c", "private", NET_A, API), CHANGED,
		 "/controlPlaneExposure"},
		{LIVE("c", "private", NET_A, API), LIVE("c", "public", NET_A, ""), CHANGED,
		 "/controlPlaneExposure"},
		{LIVE("c", "private", NET_A, API), LIVE("c", "private", NET_B, API), CHANGED,
		 "/cloudspace/privateNetwork"},
		{LIVE("c", "public", NET_A, API), LIVE("c", "public", NET_B, API), CHANGED,
		 "/cloudspace/privateNetwork"},
		{LIVE("c", "private", NET_A, API),
		 LIVE("c", "private", "'privateNetwork':'192.168.150.0/23'", API), CHANGED,
		 "/cloudspace/privateNetwork"},
		{LIVE("c", "private", NET_A, API),
		 LIVE("c", "private", "'privateNetworks':['192.168.151.0/24','fd00:150::/64']", API), CHANGED,
		 "/cloudspace/privateNetworks"},
		{LIVE("c", "private", NET_A, API),
		 LIVE("c", "private", "'privateNetworks':['fd00:150::/64']", ""), CHANGED,
		 "/cloudspace/privateNetworks"},
		/* A second family does not move the first, nor does another way to write it. */
		{LIVE("c", "private", NET_A, API),
		 LIVE("c", "private", "'privateNetworks':['fd00:150::/64','192.168.150.0/24']",
		      ",'frontends':[{'name':'kube-apiserver','port':6443,'address':'192.168.150.1'}]"),
		 NULL, ""},
		{LIVE("c", "private", NET_A, API), LIVE("d", "private", NET_A, API), "ClusterChanged",
		 "/cluster"},
		{LIVE("c", "private", NET_A, API), LIVE("d", "public", NET_B, ""), "ClusterChanged",
		 "/cluster"},
		/* Without a control-plane frontend nothing is bound. */
		{LIVE("c", "private", NET_A, ""), LIVE("d", "public", NET_B, API), NULL, ""},
	};
	struct vgw_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec *accepted = spec_of(rows[i].accepted), *s = spec_of(rows[i].wanted);
		struct rules_live live = {.accepted = accepted, .control_plane_live = true};
		int rc;

		memset(&err, 0, sizeof(err));
		rc = rules_check(s, &no_host, &live, &err);
		if (rc != (rows[i].reason ? -EINVAL : 0) ||
		    strcmp(err.reason, rows[i].reason ? rows[i].reason : "") != 0 ||
		    strcmp(err.where, rows[i].where) != 0)
			fail_msg("row %zu: %d, %s at %s", i, rc, err.reason, err.where);
		/* Not programmed: nothing to keep. And the old one is always welcome back. */
		live.control_plane_live = false;
		assert_int_equal(rules_check(s, &no_host, &live, &err), 0);
		live.control_plane_live = true;
		assert_int_equal(rules_check(accepted, &no_host, &live, &err), 0);
		assert_int_equal(rules_check(s, &no_host, NULL, &err), 0);
		spec_free(s);
		spec_free(accepted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(generations),
		cmocka_unit_test(live_control_plane),
	};

	return cmocka_run_group_tests_name("rules with a live spec", tests, NULL, NULL);
}
