/* SPDX-License-Identifier: Apache-2.0 */
/* The rules between the members of a spec, and the warnings. */
#include "tests/unit/spec_text.h"

#include <errno.h>
#include <stdio.h>

#include "vgw/model/rules.h"

static const struct rules_host no_host = {.control_port = 9443, .probe_port = 9444};
static const struct rules_live nothing_live;

/* REASON NULL: accepted. WORDS: what the message must contain, each. */
struct row {
	const char *text, *reason, *where, *words[2];
};

static void judge(const struct row *rows, size_t n)
{
	struct vgw_err err;

	for (size_t i = 0; i < n; i++) {
		const struct row *row = &rows[i];
		struct spec *s = spec_of(row->text);
		int rc;

		memset(&err, 0, sizeof(err));
		rc = rules_check(s, &no_host, &nothing_live, &err);
		if (rc != (row->reason ? -EINVAL : 0) ||
		    strcmp(err.reason, row->reason ? row->reason : "") != 0 ||
		    strcmp(err.where, row->where ? row->where : "") != 0)
			fail_msg("%s\nrc %d, %s at \"%s\": %s", row->text, rc, err.reason, err.where,
				 err.text);
		for (size_t w = 0; w < 2 && row->words[w]; w++)
			if (!strstr(err.text, row->words[w]))
				fail_msg("%s\n\"%s\" does not say \"%s\"", row->text, err.text,
					 row->words[w]);
		spec_free(s);
	}
}

#define JUDGE(rows) judge(rows, sizeof(rows) / sizeof((rows)[0]))

static void overlaps(void **state)
{
#define NETS(pods, services, pools, tunnels)                                                                 \
	SPEC(",'clusterNetwork':{'pods':[" pods "],'services':[" services "]},'cni':{'ipPools':[" pools      \
	     "]},'tunnels':[" tunnels "]")
#define POOL(cidr) "{'cidr':'" cidr "'}"
#define PEER(name, id, cidr)                                                                                 \
	"{'name':'" name "','peer':{'cloudspaceId':'" id "','privateNetwork':'" cidr "'}}"
#define GEO(nets) ",'geo':{'privateNetworks':[" nets "]}"
	static const struct row rows[] = {
		{NETS("'10.244.0.0/16'", "'10.96.0.0/12'", POOL("10.244.0.0/16"),
		      PEER("t", "x", "192.168.10.0/24")),
		 NULL,
		 NULL,
		 {NULL}},
		/* Each kind with each of the others. */
		{SPEC(GEO("'192.168.144.0/20'")),
		 "CIDROverlap",
		 "/geo/privateNetworks/0",
		 {"private network 192.168.150.0/24", "geo network 192.168.144.0/20"}},
		{NETS("'192.168.144.0/20'", "", "", ""),
		 "CIDROverlap",
		 "/clusterNetwork/pods/0",
		 {"private network 192.168.150.0/24", "pod network 192.168.144.0/20"}},
		{NETS("", "'192.168.150.128/25'", "", ""),
		 "CIDROverlap",
		 "/clusterNetwork/services/0",
		 {"private network 192.168.150.0/24", "service network 192.168.150.128/25"}},
		{NETS("", "", POOL("192.168.150.4/30"), ""),
		 "CIDROverlap",
		 "/cni/ipPools/0/cidr",
		 {"private network 192.168.150.0/24", "IP pool 192.168.150.4/30"}},
		{NETS("", "", "", PEER("t", "x", "192.168.150.0/24")),
		 "CIDROverlap",
		 "/tunnels/0/peer/privateNetwork",
		 {"private network 192.168.150.0/24 behind tunnel \"t\"",
		  "the private network 192.168.150.0/24"}},
		{NETS("", "", "", PEER("t", "x", "0.0.0.0/0")),
		 "CIDROverlap",
		 "/tunnels/0/peer/privateNetwork",
		 {"0.0.0.0/0", "192.168.150.0/24"}},
		{SPEC(GEO("'10.1.0.0/16','10.1.2.0/24'")),
		 "CIDROverlap",
		 "/geo/privateNetworks/1",
		 {"10.1.0.0/16", "10.1.2.0/24"}},
		{SPEC(GEO("'10.1.0.0/16'") ",'clusterNetwork':{'pods':['10.1.0.0/24']}"),
		 "CIDROverlap",
		 "/clusterNetwork/pods/0",
		 {"geo network 10.1.0.0/16", "pod network 10.1.0.0/24"}},
		{SPEC(GEO("'10.1.0.0/16'") ",'clusterNetwork':{'services':['10.0.0.0/8']}"),
		 "CIDROverlap",
		 "/clusterNetwork/services/0",
		 {"geo", "service"}},
		{SPEC(GEO("'10.1.0.0/16'") ",'cni':{'ipPools':[" POOL("10.1.0.0/16") "]}"),
		 "CIDROverlap",
		 "/cni/ipPools/0/cidr",
		 {"geo", "pool"}},
		{SPEC(GEO("'10.1.0.0/16'") ",'tunnels':[" PEER("t", "x", "10.1.0.0/16") "]"),
		 "CIDROverlap",
		 "/tunnels/0/peer/privateNetwork",
		 {"geo", "behind tunnel"}},
		{NETS("'10.96.0.0/16'", "'10.96.0.0/12'", "", ""),
		 "CIDROverlap",
		 "/clusterNetwork/services/0",
		 {"pod network 10.96.0.0/16", "service network 10.96.0.0/12"}},
		{NETS("'10.244.0.0/16'", "", "", PEER("t", "x", "10.244.7.0/24")),
		 "CIDROverlap",
		 "/tunnels/0/peer/privateNetwork",
		 {"pod network 10.244.0.0/16", "10.244.7.0/24 behind tunnel \"t\""}},
		{NETS("", "'10.96.0.0/12'", POOL("10.97.0.0/16"), ""),
		 "CIDROverlap",
		 "/cni/ipPools/0/cidr",
		 {"service network 10.96.0.0/12", "IP pool 10.97.0.0/16"}},
		{NETS("", "'10.96.0.0/12'", "", PEER("t", "x", "10.97.0.0/16")),
		 "CIDROverlap",
		 "/tunnels/0/peer/privateNetwork",
		 {"service", "behind tunnel"}},
		{NETS("", "", POOL("10.244.0.0/16") "," POOL("10.244.0.0/16"), ""),
		 "CIDROverlap",
		 "/cni/ipPools/1/cidr",
		 {"IP pool 10.244.0.0/16", NULL}},
		{NETS("", "", POOL("10.244.0.0/16"), PEER("t", "x", "10.244.0.0/16")),
		 "CIDROverlap",
		 "/tunnels/0/peer/privateNetwork",
		 {"IP pool", "behind tunnel"}},
		/* Pools and pods: equal or inside is the same network, around is not, beside is only a
		   warning. */
		{NETS("'10.244.0.0/16'", "", POOL("10.244.128.0/17") "," POOL("10.244.0.0/17"), ""),
		 NULL,
		 NULL,
		 {NULL}},
		{NETS("'10.244.0.0/16'", "", POOL("10.240.0.0/12"), ""),
		 "CIDROverlap",
		 "/cni/ipPools/0/cidr",
		 {"IP pool 10.240.0.0/12", "pod network 10.244.0.0/16"}},
		{NETS("'10.244.0.0/16'", "", POOL("10.245.0.0/16"), ""), NULL, NULL, {NULL}},
		{NETS("'10.244.0.0/16'", "", POOL("10.244.0.0/17") "," POOL("10.244.64.0/18"), ""),
		 "CIDROverlap",
		 "/cni/ipPools/1/cidr",
		 {"10.244.0.0/17", "10.244.64.0/18"}},
		/* Tunnels: two may lead to one cloudspace and network, and to nothing else in common. */
		{NETS("", "", "", PEER("a", "x", "192.168.10.0/24") "," PEER("b", "x", "192.168.10.0/24")),
		 NULL,
		 NULL,
		 {NULL}},
		{NETS("", "", "", PEER("a", "x", "192.168.10.0/24") "," PEER("b", "y", "192.168.10.0/24")),
		 "CIDROverlap",
		 "/tunnels/1/peer/privateNetwork",
		 {"behind tunnel \"a\"", "behind tunnel \"b\""}},
		{NETS("", "", "", PEER("a", "x", "192.168.10.0/24") "," PEER("b", "x", "192.168.10.0/25")),
		 "CIDROverlap",
		 "/tunnels/1/peer/privateNetwork",
		 {"192.168.10.0/24", "192.168.10.0/25"}},
		{TUNNEL(""), NULL, NULL, {NULL}}, /* no network at all */
		/* Neighbours, and the other family. */
		{NETS("'192.168.151.0/24'", "'192.168.149.0/24'", "", PEER("t", "x", "192.168.148.0/24")),
		 NULL,
		 NULL,
		 {NULL}},
		{NETS("'::/1'", "", "", ""), NULL, NULL, {NULL}},
		{"{" SPEC_HEAD "," SPEC_NETWORKS ",'clusterNetwork':{'pods':['10.244.0.0/16','fd00::/16']}}",
		 "CIDROverlap",
		 "/clusterNetwork/pods/1",
		 {"pod network fd00::/16", "private network fd00:150::/64"}},
	};

	(void)state;
	JUDGE(rows);
}

static void addresses(void **state)
{
	static const struct row rows[] = {
		{FRONTEND(",'address':'192.168.150.1'"), NULL, NULL, {NULL}},
		{FRONTEND(",'address':'192.168.150.2'"),
		 "AddressNotAvailable",
		 "/frontends/0/address",
		 {"192.168.150.2", "192.168.150.1"}},
		{FRONTENDS("{'name':'a','port':1},{'name':'b','port':2,'address':'203.0.113.1'}"),
		 "AddressNotAvailable",
		 "/frontends/1/address",
		 {"203.0.113.1", NULL}},
		{FRONTEND(",'address':'fd00:150::1'"),
		 "AddressNotAvailable",
		 "/frontends/0/address",
		 {"fd00:150::1", NULL}},
		/* Public ones are elsewhere, ignored ones nowhere. */
		{FRONTEND(",'internal':false,'address':'203.0.113.1'"), NULL, NULL, {NULL}},
		{FRONTEND(",'loadBalancerClass':'x','address':'203.0.113.1'"), NULL, NULL, {NULL}},
		{FRONTENDS("{'name':'kube-apiserver','port':6443,'internal':false,'address':'203.0.113.1'}"),
		 "AddressNotAvailable",
		 "/frontends/0/address",
		 {NULL}},
		/* There is no gateway address of the backends' family. */
		{BACKENDS("{'address':'fd00:150::11','port':1}"),
		 "AddressNotAvailable",
		 "/frontends/0/backends/0/address",
		 {"IPv6", NULL}},
		{FRONTEND(",'internal':false,'backends':[{'address':'fd00:150::11','port':1}]"),
		 NULL,
		 NULL,
		 {NULL}},
		{"{" SPEC_HEAD "," SPEC_NETWORKS ",'defaultInternalLoadBalancers':true,'frontends':["
		 "{'name':'a','port':1,'address':'fd00:150::1','backends':[{'address':'fd00:150::11','port':"
		 "1}]},"
		 "{'name':'b','port':1,'address':'192.168.150.1','backends':[{'address':'192.168.150.11','"
		 "port':1}]}]}",
		 NULL,
		 NULL,
		 {NULL}},
	};

	(void)state;
	JUDGE(rows);
}

static void ports(void **state)
{
#define TWO(a, b) FRONTENDS("{'name':'a'," a "},{'name':'b'," b "}")
	static const struct row rows[] = {
		{TWO("'port':80", "'port':80"),
		 "PortConflict",
		 "/frontends/1/port",
		 {"\"a\" and \"b\"", "192.168.150.1:80/TCP"}},
		{TWO("'port':80,'protocol':'UDP'", "'port':80,'protocol':'UDP'"),
		 "PortConflict",
		 "/frontends/1/port",
		 {"192.168.150.1:80/UDP", NULL}},
		{TWO("'port':80", "'port':80,'protocol':'UDP'"), NULL, NULL, {NULL}},
		{TWO("'port':80", "'port':80,'internal':false"), NULL, NULL, {NULL}},
		{TWO("'port':80,'internal':false", "'port':80,'internal':false"),
		 "PortConflict",
		 "/frontends/1/port",
		 {"\"a\" and \"b\"", "external"}},
		{TWO("'port':80", "'port':80,'loadBalancerClass':'metallb.io/x'"), NULL, NULL, {NULL}},
		{TWO("'port':80,'loadBalancerClass':'x'", "'port':80,'loadBalancerClass':'x'"),
		 NULL,
		 NULL,
		 {NULL}},
		{FRONTENDS("{'name':'a','port':5},{'name':'b','port':7},{'name':'c','port':7},{'name':'d','"
			   "port':5},"
			   "{'name':'e','port':5}"),
		 "PortConflict",
		 "/frontends/2/port",
		 {"\"b\" and \"c\"", ":7/TCP"}},
		{"{" SPEC_HEAD "," SPEC_NETWORKS ",'defaultInternalLoadBalancers':true,'frontends':["
		 "{'name':'a','port':1,'backends':[{'address':'fd00:150::11','port':1}]},"
		 "{'name':'b','port':1,'backends':[{'address':'192.168.150.11','port':1}]},"
		 "{'name':'c','port':1,'backends':[{'address':'fd00:150::12','port':1}]}]}",
		 "PortConflict",
		 "/frontends/2/port",
		 {"\"a\" and \"c\"", "[fd00:150::1]:1/TCP"}},
		/* The agent's own ports. */
		{FRONTENDS("{'name':'a','port':9443}"),
		 "PortConflict",
		 "/frontends/0/port",
		 {"\"a\" is on the agent's control port", "192.168.150.1:9443/TCP"}},
		{FRONTENDS("{'name':'a','port':9443,'protocol':'UDP'}"), NULL, NULL, {NULL}},
		{FRONTENDS("{'name':'a','port':9444,'protocol':'UDP'}"),
		 "PortConflict",
		 "/frontends/0/port",
		 {"probe port", "192.168.150.1:9444/UDP"}},
		{FRONTENDS("{'name':'a','port':9444}"), NULL, NULL, {NULL}},
		{FRONTENDS("{'name':'a','port':9443,'internal':false},"
			   "{'name':'b','port':9444,'protocol':'UDP','internal':false}"),
		 NULL,
		 NULL,
		 {NULL}},
		{FRONTENDS("{'name':'a','port':9443,'loadBalancerClass':'x'}"), NULL, NULL, {NULL}},
		{"{" SPEC_HEAD "," SPEC_NETWORKS ",'defaultInternalLoadBalancers':true,'frontends':["
		 "{'name':'a','port':9443,'backends':[{'address':'fd00:150::11','port':1}]}]}",
		 "PortConflict",
		 "/frontends/0/port",
		 {"[fd00:150::1]:9443/TCP", NULL}},
	};

	(void)state;
	JUDGE(rows);
}

static void unsupported(void **state)
{
#define PRIVATE_SPACE(exposure, members)                                                                     \
	"{" SPEC_HEAD ",'cloudspace':{'privateNetwork':'192.168.150.0/24','private':true}"                   \
	",'controlPlaneExposure':'" exposure "'" members "}"
#define CONNECTED(id) ",'managementAccess':{'connectedCloudspace':{'cloudspaceId':'" id "'}}"
	static const struct row rows[] = {
		{PRIVATE_SPACE("private", CONNECTED("")), NULL, NULL, {NULL}},
		{PRIVATE_SPACE("private",
			       ",'frontends':[{'name':'a','port':1},{'name':'kube-apiserver','port':6443,"
			       "'internal':false}]"),
		 NULL,
		 NULL,
		 {NULL}},
		{PRIVATE_SPACE("public", ""), "UnsupportedConfiguration", "/controlPlaneExposure", {NULL}},
		{PRIVATE_SPACE("private", CONNECTED("cs-1")),
		 "UnsupportedConfiguration",
		 "/managementAccess/connectedCloudspace/cloudspaceId",
		 {NULL}},
		{PRIVATE_SPACE("private",
			       ",'frontends':[{'name':'a','port':1},{'name':'b','port':2,'internal':false}]"),
		 "UnsupportedConfiguration",
		 "/frontends/1/internal",
		 {NULL}},
		{PRIVATE_SPACE("private", ",'frontends':[{'name':'a','port':1,"
					  "'loadBalancerClass':'vco.whitesky.cloud/public'}]"),
		 "UnsupportedConfiguration",
		 "/frontends/0/loadBalancerClass",
		 {NULL}},
		{PRIVATE_SPACE("private",
			       ",'defaultInternalLoadBalancers':false,'frontends':[{'name':'a','port':1}]"),
		 "UnsupportedConfiguration",
		 "/frontends/0",
		 {NULL}},
		{PRIVATE_SPACE("private", ",'frontends':[{'name':'a','port':1,'loadBalancerClass':'x'}]"),
		 NULL,
		 NULL,
		 {NULL}},
		{PRIVATE(CONNECTED("cs-1")), NULL, NULL, {NULL}}, /* the cloudspace is not private */
		{PRIVATE(",'frontends':[{'name':'a','port':1,'internal':false}]"), NULL, NULL, {NULL}},
		{PRIVATE(",'geo':{'privateNetworks':['192.168.160.0/24']}"),
		 "UnsupportedConfiguration",
		 "/geo",
		 {NULL}},
		{SPEC(",'geo':{'privateNetworks':['192.168.160.0/24']}"), NULL, NULL, {NULL}},
		{PRIVATE(",'addons':{'ccm':'enabled'}"), "UnsupportedConfiguration", "/addons/ccm", {NULL}},
		{PRIVATE(",'addons':{'ccm':'internal'}"), NULL, NULL, {NULL}},
		{PRIVATE(",'addons':{'serviceLB':'vco'}"), NULL, NULL, {NULL}},
		{SPEC(",'addons':{'ccm':'enabled'}"), NULL, NULL, {NULL}},
		{SPEC(",'role':'management','frontends':[{'name':'a','port':1}]"),
		 "UnsupportedConfiguration",
		 "/frontends",
		 {NULL}},
		{SPEC(",'role':'management','frontends':[],'tunnels':[{'name':'t','interface':'wg0'}]"),
		 NULL,
		 NULL,
		 {NULL}},
	};

	(void)state;
	JUDGE(rows);
}

struct warnings {
	char codes[256];
};

static void collect(void *ctx, const char *code, const char *message, const char *fix)
{
	struct warnings *w = ctx;

	assert_string_not_equal(message, "");
	assert_string_not_equal(fix, "");
	strncat(w->codes, code, sizeof(w->codes) - strlen(w->codes) - 1);
	if (!strcmp(code, "PodCIDRMismatch"))
		assert_non_null(strstr(message, "10.245.0.0/16"));
	strncat(w->codes, " ", sizeof(w->codes) - strlen(w->codes) - 1);
}

static void warnings(void **state)
{
#define POOLS(pods, pools) SPEC(",'clusterNetwork':{'pods':[" pods "]},'cni':{'ipPools':[" pools "]}")
	static const struct {
		const char *text, *codes;
	} rows[] = {
		{SPEC(""), ""},
		{POOLS("'10.244.0.0/16'", POOL("10.244.0.0/16") "," POOL("10.244.0.0/24")), ""},
		{POOLS("'10.244.0.0/16'", POOL("10.244.0.0/16") "," POOL("10.245.0.0/16")),
		 "PodCIDRMismatch "},
		{POOLS("'10.240.0.0/14','fd00::/56'", POOL("10.245.0.0/16")), "PodCIDRMismatch "},
		{POOLS("'10.240.0.0/14','fd00::/56'", POOL("fd00::/64")), ""},
		{POOLS("", POOL("10.245.0.0/16")), ""},
		{PRIVATE(",'addons':{'serviceLB':'vco'}"), "ServiceLBVco "},
		{PRIVATE(",'addons':{'serviceLB':'vco-internal'}"), ""},
		{SPEC(",'addons':{'serviceLB':'vco'}"), ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec *s = spec_of(rows[i].text);
		struct warnings w = {""};

		rules_warnings(s, collect, &w);
		assert_string_equal(w.codes, rows[i].codes);
		spec_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlaps),    cmocka_unit_test(addresses), cmocka_unit_test(ports),
		cmocka_unit_test(unsupported), cmocka_unit_test(warnings),
	};

	return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
