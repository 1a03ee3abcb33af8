/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical text, and when two specs are equal. */
#include "tests/unit/spec_text.h"

#include <stdio.h>

static char *encode(const struct spec *s)
{
	struct buf b = {0};

	spec_encode(s, &b);
	assert_false(b.failed);
	return buf_take(&b);
}

static void canonical_text(void **state)
{
	static const struct {
		const char *text, *canonical;
	} rows[] = {
		{SPEC(""), "{'apiVersion':'vgw-agent/v1','generation':3,'cluster':'c','role':'gateway',"
			   "'controlPlaneExposure':'public','cloudspace':{'privateNetwork':'192.168.150.0/"
			   "24','private':false},"
			   "'clusterNetwork':{},'cni':{'encapsulation':'vxlan','ipPools':[]},'addons':{},"
			   "'defaultInternalLoadBalancers':false,'frontends':[],'tunnels':[],'probes':[]}"},
		{"{'probes':[{'target':'[FD00:0::1]:6443','name':'p','interval':'0.5s'}],"
		 "'tunnels':[{'peer':{'address':'192.168.10.1','cloudspaceId':'cs'},'name':'t','interface':'"
		 "wg0'},"
		 "{'name':'u','mtu':1300,'peer':{'privateNetwork':'fd00:10::0/64'}}],'frontends':["
		 "{'port':443,'name':'\\u00e9\\\"\\\\\\/"
		 "','backends':[{'port':1,'address':'192.168.150.11','weight':1},"
		 "{'port':1,'address':'192.168.150.12','weight':5,'drain':true}],"
		 "'healthCheck':{'timeout':'60s','ca':'-----BEGIN CERTIFICATE-----\\n\\tx\\r-----END "
		 "CERTIFICATE-----'}},"
		 "{'port':444,'name':'x','loadBalancerClass':'other','address':'10.0.0.1','protocol':'UDP',"
		 "'balance':'random','whenNoneHealthy':'reject'},"
		 "{'port':6443,'name':'api','internal':false}],"
		 "'geo':{'privateNetworks':['192.168.160.0/24']},'controlPlaneExposure':'private',"
		 "'clusterNetwork':{'services':['10.96.0.0/12'],'pods':['10.244.0.0/16']},"
		 "'cni':{'ipPools':[{'blockSize':26,'cidr':'10.244.0.0/16'},{'cidr':'10.245.0.0/"
		 "16'}],'vethMTU':1350,"
		 "'name':'calico'},'addons':{'serviceLB':'vco','ccm':'internal'},'managementAccess':{},"
		 "'cloudspace':{'private':true,'id':'cs','privateNetworks':['192.168.150.0/24','fd00:0150::/"
		 "64']}"
		 "," SPEC_HEAD "}",
		 "{'apiVersion':'vgw-agent/v1','generation':3,'cluster':'c','role':'gateway',"
		 "'controlPlaneExposure':'private',"
		 "'cloudspace':{'id':'cs','privateNetworks':['192.168.150.0/24','fd00:150::/"
		 "64'],'private':true},"
		 "'geo':{'privateNetworks':['192.168.160.0/24']},"
		 "'clusterNetwork':{'pods':['10.244.0.0/16'],'services':['10.96.0.0/12']},"
		 "'cni':{'name':'calico','encapsulation':'vxlan','vethMTU':1350,'ipPools':["
		 "{'cidr':'10.244.0.0/16','blockSize':26},{'cidr':'10.245.0.0/16'}]},"
		 "'addons':{'ccm':'internal','serviceLB':'vco'},'defaultInternalLoadBalancers':true,'"
		 "frontends':["
		 "{'name':'\xc3\xa9\\\"\\\\/','address':'192.168.150.1','port':443,'protocol':'TCP',"
		 "'balance':'roundrobin','whenNoneHealthy':'failopen','healthCheck':{'type':'tcp','path':'/',"
		 "'expect':[200],'interval':'1s','timeout':'1m','rise':2,'fall':2,"
		 "'ca':'-----BEGIN CERTIFICATE-----\\n\\u0009x\\u000d-----END "
		 "CERTIFICATE-----'},'internal':true,"
		 "'backends':[{'address':'192.168.150.11','port':1},"
		 "{'address':'192.168.150.12','port':1,'weight':5,'drain':true}]},"
		 "{'name':'x','address':'10.0.0.1','port':444,'protocol':'UDP','balance':'random',"
		 "'whenNoneHealthy':'reject','healthCheck':{'type':'none','path':'/"
		 "','expect':[200],'interval':'1s',"
		 "'timeout':'800ms','rise':2,'fall':2},'loadBalancerClass':'other','backends':[]},"
		 "{'name':'api','address':'192.168.150.1','port':6443,'protocol':'TCP','balance':'roundrobin'"
		 ","
		 "'whenNoneHealthy':'failopen','healthCheck':{'type':'https','path':'/readyz','expect':[200],"
		 "'interval':'1s','timeout':'800ms','rise':2,'fall':2},'internal':false,'backends':[]}],"
		 "'tunnels':[{'name':'t','interface':'wg0','mtu':'auto','maxMTU':1400,"
		 "'peer':{'cloudspaceId':'cs','address':'192.168.10.1'}},"
		 "{'name':'u','mtu':1300,'maxMTU':1400,'peer':{'privateNetwork':'fd00:10::/64'}}],"
		 "'managementAccess':{'connectedCloudspace':{'cloudspaceId':''}},"
		 "'probes':[{'name':'p','target':'[fd00::1]:6443','type':'https','path':'/"
		 "readyz','expect':[200],"
		 "'interval':'500ms','timeout':'800ms','rise':2,'fall':2}]}"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec *s = spec_of(rows[i].text), *again = NULL;
		char *expected = spec_text(rows[i].canonical), *text = encode(s), *text_again;

		assert_string_equal(text, expected);
		assert_int_equal(spec_decode(text, strlen(text), &again, NULL), 0);
		text_again = encode(again);
		assert_string_equal(text_again, text);
		free(text_again);
		free(text);
		free(expected);
		spec_free(again);
		spec_free(s);
	}
}

static void equality(void **state)
{
	static const struct {
		const char *a, *b;
		bool equal;
	} rows[] = {
		{SPEC(""), " " SPEC(",'role':'gateway'"), true},
		{SPEC(""), SPEC(",'probes':[],'geo':{},'addons':{}"), true},
		{"{" SPEC_HEAD ",'cloudspace':{'privateNetworks':['192.168.150.0/24']}}", SPEC(""), true},
		{SPEC(",'defaultInternalLoadBalancers':false"), SPEC(""), true},
		{FRONTEND(",'internal':true,'address':'192.168.150.1','balance':'roundrobin'"), FRONTEND(""),
		 true},
		{HEALTH_CHECK("'interval':'1000ms'"), FRONTEND(""), true},
		{BACKENDS("{'address':'fd00:0:0::1','port':1}"),
		 BACKENDS("{'port':1,'address':'fd00::1','drain':false}"), true},
		{SPEC(""), SPEC(",'managementAccess':{}"), false},
		{SPEC(""), PRIVATE(""), false},
		{FRONTEND(""), FRONTEND(",'internal':false"), false},
		{FRONTEND(",'address':'192.168.150.2'"), FRONTEND(""), false},
		{HEALTH_CHECK("'interval':'1001ms'"), FRONTEND(""), false},
		{BACKENDS("{'address':'10.0.0.1','port':1},{'address':'10.0.0.2','port':1}"),
		 BACKENDS("{'address':'10.0.0.2','port':1},{'address':'10.0.0.1','port':1}"), false},
		{BACKENDS("{'address':'10.0.0.1','port':1,'weight':0}"),
		 BACKENDS("{'address':'10.0.0.1','port':1}"), false},
		{TUNNEL(",'mtu':1400"), TUNNEL(""), false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec *a = spec_of(rows[i].a), *b = spec_of(rows[i].b);

		if (spec_equal(a, b) != rows[i].equal || spec_equal(b, a) != rows[i].equal)
			fail_msg("%s and %s", rows[i].a, rows[i].b);
		assert_true(spec_equal(a, a));
		spec_free(a);
		spec_free(b);
	}
}

/* Close to the limit there is no room for the defaults, and what was accepted must stay so. */
static void large_stays_acceptable(void **state)
{
	struct buf b = {0};
	char *head =
		spec_text("{" SPEC_HEAD "," SPEC_NETWORK ",'controlPlaneExposure':'private','frontends':[");
	struct spec *s, *again;
	struct vgw_err err;
	char *text;

	(void)state;
	buf_puts(&b, head);
	for (unsigned i = 0; i < 10000; i++) {
		buf_printf(&b, "%s{\"name\":\"f%u\",\"port\":%u,%s\"backends\":[", i ? "," : "", i, i + 10000,
			   i % 2 ? "\"healthCheck\":{\"rise\":3}," : "");
		for (unsigned j = 0; j < 36; j++)
			buf_printf(&b, "%s{\"address\":\"192.168.%u.%u\",\"port\":30443}", j ? "," : "",
				   100 + j % 40, 100 + (i + j) % 100);
		buf_puts(&b, "]}");
	}
	buf_puts(&b, "]}");
	assert_in_range(b.len, SPEC_MAX_BYTES - (1 << 20), SPEC_MAX_BYTES);
	assert_int_equal(spec_decode(b.data, b.len, &s, &err), 0);
	text = encode(s);
	assert_in_range(strlen(text), 1, b.len + 1024); /* the few above the frontends */
	assert_int_equal(spec_decode(text, strlen(text), &again, &err), 0);
	assert_true(spec_equal(s, again));
	assert_int_equal(again->frontends[9999].check.rise, 3);
	assert_int_equal(again->frontends[9998].n_backends, 36);
	assert_int_equal(again->frontends[9998].placement, SPEC_INTERNAL);
	spec_free(again);
	spec_free(s);
	free(text);
	free(head);
	buf_free(&b);
}

/* It is appended, as everything that writes to a buffer does. */
static void appends(void **state)
{
	struct spec *s = spec_of(SPEC(""));
	struct buf b = {0};
	char *text = encode(s);

	(void)state;
	buf_puts(&b, "x");
	spec_encode(s, &b);
	assert_int_equal(b.data[0], 'x');
	assert_string_equal(b.data + 1, text);
	buf_free(&b);
	free(text);
	spec_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(canonical_text),
		cmocka_unit_test(equality),
		cmocka_unit_test(large_stays_acceptable),
		cmocka_unit_test(appends),
	};

	return cmocka_run_group_tests_name("spec encoding", tests, NULL, NULL);
}
