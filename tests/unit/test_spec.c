/* SPDX-License-Identifier: Apache-2.0 */
/* What an accepted spec means: values, defaults, places, the canonical text. Refusals are
 * test_spec_refused's. */
#include "tests/unit/spec_text.h"

#include <errno.h>
#include <stdio.h>

#define CA "-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----\\n"

static const char full[] =
	"{'apiVersion':'vgw-agent/"
	"v1','generation':9007199254740993,'cluster':'private-demo','role':'gateway',"
	"'controlPlaneExposure':'private',"
	"'cloudspace':{'id':'cs-1a2b','privateNetworks':['fd00:150::/64','192.168.150.0/24'],'private':true},"
	"'clusterNetwork':{'pods':['10.244.0.0/16','fd00:244::/56'],'services':['10.96.0.0/12']},"
	"'cni':{'name':'calico','encapsulation':'geneve','vethMTU':1350,"
	"'ipPools':[{'cidr':'10.244.0.0/16','blockSize':26},{'cidr':'fd00:244::/56'}]},"
	"'addons':{'ccm':'internal','serviceLB':'vco-internal'},'defaultInternalLoadBalancers':false,"
	"'frontends':[{'name':'kube-apiserver','address':'192.168.150.1','port':6443,'protocol':'TCP',"
	"'balance':'source','whenNoneHealthy':'reject','healthCheck':{'type':'tls','port':6444,'path':'/"
	"livez?a=b',"
	"'expect':[200,401],'interval':'1m30s','timeout':'1.5s','rise':3,'fall':4,'ca':'" CA "'},"
	"'backends':[{'address':'192.168.150.11','port':6443,'weight':0,'drain':true},"
	"{'address':'192.168.150.12','port':6443,'weight':100}]}],"
	"'tunnels':[{'name':'mgmt','interface':'wg0','mtu':1380,'maxMTU':9000,'peer':{'cloudspaceId':'cs-"
	"7f2a',"
	"'privateNetwork':'192.168.10.0/24','address':'192.168.10.1'}}],"
	"'managementAccess':{'connectedCloudspace':{'cloudspaceId':'cs-7f2a'}},"
	"'probes':[{'name':'remote','type':'tcp','target':'[fd00:151::1]:6443','rise':1}],"
	"'geo':{'privateNetworks':['192.168.160.0/24','192.168.161.0/24']}}";

static void values_of_cluster(void **state)
{
	struct spec *s = spec_of(full);

	(void)state;
	assert_int_equal(s->generation, 9007199254740993); /* no double holds it */
	assert_string_equal(s->cluster, "private-demo");
	assert_int_equal(s->role, SPEC_ROLE_GATEWAY);
	assert_int_equal(s->exposure, SPEC_PRIVATE);
	assert_string_equal(s->cloudspace_id, "cs-1a2b");
	assert_int_equal(s->private_networks.n, 2);
	assert_network(&s->private_networks.v[0], "fd00:150::/64");
	assert_network(&s->private_networks.v[1], "192.168.150.0/24");
	assert_address(&s->gateways[0], "fd00:150::1");
	assert_address(&s->gateways[1], "192.168.150.1");
	assert_ptr_equal(spec_gateway(s, IP_V4), &s->gateways[1]);
	assert_ptr_equal(spec_gateway(s, IP_V6), &s->gateways[0]);
	assert_true(s->cloudspace_private);
	assert_int_equal(s->pods.n, 2);
	assert_network(&s->pods.v[1], "fd00:244::/56");
	assert_int_equal(s->services.n, 1);
	assert_network(&s->services.v[0], "10.96.0.0/12");
	assert_string_equal(s->cni_name, "calico");
	assert_int_equal(s->encapsulation, SPEC_GENEVE);
	assert_int_equal(s->veth_mtu, 1350);
	assert_int_equal(s->n_ip_pools, 2);
	assert_network(&s->ip_pools[0].cidr, "10.244.0.0/16");
	assert_int_equal(s->ip_pools[0].block_size, 26);
	assert_int_equal(s->ip_pools[1].block_size, 0);
	assert_string_equal(s->addon_ccm, "internal");
	assert_string_equal(s->addon_service_lb, "vco-internal");
	assert_false(s->default_internal);
	assert_true(s->has_management_access);
	assert_string_equal(s->connected_cloudspace, "cs-7f2a");
	assert_int_equal(s->geo_networks.n, 2);
	assert_network(&s->geo_networks.v[1], "192.168.161.0/24");
	spec_free(s);
}

static void values_of_members(void **state)
{
	struct spec *s = spec_of(full);
	const struct spec_frontend *f = &s->frontends[0];

	(void)state;
	assert_int_equal(s->n_frontends, 1);
	assert_string_equal(f->name, "kube-apiserver");
	assert_address(&f->address, "192.168.150.1");
	assert_address(&f->gateway, "192.168.150.1");
	assert_int_equal(f->family, IP_V4);
	assert_int_equal(f->port, 6443);
	assert_int_equal(f->protocol, SPEC_TCP);
	assert_int_equal(f->balance, SPEC_SOURCE);
	assert_int_equal(f->when_none_healthy, SPEC_REJECT);
	assert_int_equal(f->check.type, SPEC_CHECK_TLS);
	assert_int_equal(f->check.port, 6444);
	assert_string_equal(f->check.path, "/livez?a=b");
	assert_int_equal(f->check.n_expect, 2);
	assert_int_equal(f->check.expect[1], 401);
	assert_int_equal(f->check.interval_ms, 90000);
	assert_int_equal(f->check.timeout_ms, 1500);
	assert_int_equal(f->check.rise, 3);
	assert_int_equal(f->check.fall, 4);
	assert_string_equal(f->check.ca, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
	assert_int_equal(f->n_backends, 2);
	assert_address(&f->backends[0].address, "192.168.150.11");
	assert_int_equal(f->backends[0].weight, 0);
	assert_true(f->backends[0].drain);
	assert_int_equal(f->backends[1].port, 6443);
	assert_int_equal(f->backends[1].weight, 100);
	assert_false(f->backends[1].drain);
	assert_true(f->control_plane);

	assert_int_equal(s->n_tunnels, 1);
	assert_string_equal(s->tunnels[0].name, "mgmt");
	assert_string_equal(s->tunnels[0].interface, "wg0");
	assert_int_equal(s->tunnels[0].mtu, 1380);
	assert_int_equal(s->tunnels[0].max_mtu, 9000);
	assert_string_equal(s->tunnels[0].peer_cloudspace, "cs-7f2a");
	assert_network(&s->tunnels[0].peer_network, "192.168.10.0/24");
	assert_address(&s->tunnels[0].peer_address, "192.168.10.1");

	assert_int_equal(s->n_probes, 1);
	assert_string_equal(s->probes[0].name, "remote");
	assert_address(&s->probes[0].target.addr, "fd00:151::1");
	assert_int_equal(s->probes[0].target.port, 6443);
	assert_int_equal(s->probes[0].check.type, SPEC_CHECK_TCP);
	assert_int_equal(s->probes[0].check.rise, 1);
	spec_free(s);
}

static void defaults_of_spec(void **state)
{
	struct spec *s = spec_of(SPEC(""));

	(void)state;
	assert_int_equal(s->role, SPEC_ROLE_GATEWAY);
	assert_int_equal(s->exposure, SPEC_PUBLIC);
	assert_string_equal(s->cloudspace_id, "");
	assert_false(s->cloudspace_private);
	assert_false(s->private_networks_plural);
	assert_address(&s->gateways[0], "192.168.150.1");
	assert_null(spec_gateway(s, IP_V6));
	assert_null(spec_gateway(s, IP_NONE));
	assert_int_equal(s->pods.n + s->services.n + s->geo_networks.n + s->n_ip_pools, 0);
	assert_string_equal(s->cni_name, "");
	assert_int_equal(s->encapsulation, SPEC_VXLAN);
	assert_int_equal(s->veth_mtu, 0);
	assert_string_equal(s->addon_ccm, "");
	assert_string_equal(s->addon_service_lb, "");
	assert_false(s->default_internal);
	assert_false(s->has_management_access);
	assert_string_equal(s->connected_cloudspace, "");
	assert_int_equal(s->n_frontends + s->n_tunnels + s->n_probes, 0);
	assert_null(spec_control_plane(s));
	spec_free(s);
	s = spec_of(PRIVATE(""));
	assert_true(s->default_internal);
	spec_free(s);
}

static void defaults_of_members(void **state)
{
	struct spec *s =
		spec_of(PRIVATE(",'frontends':[{'name':'a','port':80,'backends':[{'address':'192.168.150.11',"
				"'port':8080}]}],'tunnels':[{'name':'t','interface':'wg0'}]"));
	const struct spec_frontend *f = &s->frontends[0];

	(void)state;
	assert_int_equal(f->address.family, IP_NONE);
	assert_int_equal(f->protocol, SPEC_TCP);
	assert_int_equal(f->balance, SPEC_ROUNDROBIN);
	assert_int_equal(f->when_none_healthy, SPEC_FAILOPEN);
	assert_string_equal(f->load_balancer_class, "");
	assert_int_equal(f->internal, -1);
	assert_int_equal(f->check.port, 0);
	assert_int_equal(f->check.n_expect, 1);
	assert_int_equal(f->check.expect[0], 200);
	assert_int_equal(f->check.interval_ms, 1000);
	assert_int_equal(f->check.timeout_ms, 800);
	assert_int_equal(f->check.rise, 2);
	assert_int_equal(f->check.fall, 2);
	assert_string_equal(f->check.ca, "");
	assert_int_equal(f->backends[0].weight, 1);
	assert_false(f->backends[0].drain);
	assert_string_equal(s->tunnels[0].peer_cloudspace, "");
	assert_int_equal(s->tunnels[0].mtu, 0);
	assert_int_equal(s->tunnels[0].max_mtu, 1400);
	assert_int_equal(s->tunnels[0].peer_network.addr.family, IP_NONE);
	assert_int_equal(s->tunnels[0].peer_address.family, IP_NONE);
	spec_free(s);
}

static void check_defaults(void **state)
{
	static const struct {
		const char *text;
		enum spec_check_type type;
		const char *path;
	} frontends[] = {
		{"{'name':'a','port':6443}", SPEC_CHECK_HTTPS, "/readyz"},
		{"{'name':'a','port':6443,'healthCheck':{}}", SPEC_CHECK_HTTPS, "/readyz"},
		{"{'name':'a','port':443}", SPEC_CHECK_TCP, "/"},
		{"{'name':'a','port':443,'healthCheck':{'type':'https'}}", SPEC_CHECK_HTTPS, "/"},
		{"{'name':'a','port':53,'protocol':'UDP'}", SPEC_CHECK_NONE, "/"},
		{"{'name':'a','port':53,'protocol':'UDP','healthCheck':{'type':'tcp'}}", SPEC_CHECK_TCP, "/"},
		{"{'name':'a','port':6443,'protocol':'UDP'}", SPEC_CHECK_NONE, "/readyz"},
		{"{'name':'a','port':6443,'healthCheck':{'type':'none'}}", SPEC_CHECK_NONE, "/readyz"},
		{"{'name':'a','port':6443,'healthCheck':{'path':'/x'}}", SPEC_CHECK_HTTPS, "/x"},
	};
	struct spec *s;
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(frontends) / sizeof(frontends[0]); i++) {
		snprintf(text, sizeof(text), FRONTENDS("%s"), frontends[i].text);
		s = spec_of(text);
		assert_int_equal(s->frontends[0].check.type, frontends[i].type);
		assert_string_equal(s->frontends[0].check.path, frontends[i].path);
		spec_free(s);
	}
	s = spec_of(PROBES("{'name':'a','target':'192.0.2.1:6443'},{'name':'b','target':'192.0.2.1:443'}"));
	assert_int_equal(s->probes[0].check.type, SPEC_CHECK_HTTPS);
	assert_string_equal(s->probes[0].check.path, "/readyz");
	assert_int_equal(s->probes[1].check.type, SPEC_CHECK_TCP);
	assert_string_equal(s->probes[1].check.path, "/");
	spec_free(s);
}

/* Rows of: exposure and default, a frontend, what it becomes. */
static void placement(void **state)
{
#define PLACED(top, frontend) SPEC(top ",'frontends':[{'port':80,'name':" frontend "}]")
#define PUBLIC_TOP	      ",'controlPlaneExposure':'public'"
#define PRIVATE_TOP	      ",'controlPlaneExposure':'private'"
#define DEFAULT(word)	      ",'defaultInternalLoadBalancers':" word
#define CLASS(word)	      ",'loadBalancerClass':'" word "'"
	static const struct {
		const char *text;
		enum spec_placement placement;
	} rows[] = {
		{PLACED("", "'a'"), SPEC_EXTERNAL},
		{PLACED(PRIVATE_TOP, "'a'"), SPEC_INTERNAL},
		{PLACED(DEFAULT("true"), "'a'"), SPEC_INTERNAL},
		{PLACED(PRIVATE_TOP DEFAULT("false"), "'a'"), SPEC_EXTERNAL},
		{PLACED("", "'a','internal':true"), SPEC_INTERNAL},
		{PLACED(PRIVATE_TOP, "'a','internal':false"), SPEC_EXTERNAL},
		{PLACED("", "'a'" CLASS("vco.whitesky.cloud/internal")), SPEC_INTERNAL},
		{PLACED(PRIVATE_TOP, "'a'" CLASS("vco.whitesky.cloud/public")), SPEC_EXTERNAL},
		{PLACED("", "'a','internal':false" CLASS("vco.whitesky.cloud/internal")), SPEC_INTERNAL},
		{PLACED("", "'a','internal':true" CLASS("vco.whitesky.cloud/public")), SPEC_EXTERNAL},
		{PLACED("", "'a','internal':true" CLASS("metallb.io/metallb")), SPEC_IGNORED},
		{PLACED("", "'a'" CLASS("vco.whitesky.cloud/other")), SPEC_IGNORED},
		{PLACED("", "'a','internal':true" CLASS("")), SPEC_INTERNAL},
		{PLACED(PRIVATE_TOP ",'addons':{'serviceLB':'vco'}", "'a'"), SPEC_INTERNAL},
		/* The control plane: nothing but controlPlaneExposure counts. */
		{PLACED(DEFAULT("true"), "'kube-apiserver','internal':true"), SPEC_EXTERNAL},
		{PLACED(PRIVATE_TOP DEFAULT("false"), "'kube-apiserver','internal':false"), SPEC_INTERNAL},
		{PLACED(PRIVATE_TOP, "'kube-apiserver'" CLASS("vco.whitesky.cloud/public")), SPEC_INTERNAL},
		{PLACED(PUBLIC_TOP, "'kube-apiserver'" CLASS("vco.whitesky.cloud/internal")), SPEC_EXTERNAL},
		{PLACED(PRIVATE_TOP, "'kube-apiserver'" CLASS("metallb.io/metallb")), SPEC_INTERNAL},
	};
	struct spec *s;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		s = spec_of(rows[i].text);
		if (s->frontends[0].placement != rows[i].placement)
			fail_msg("%s is placed %d, not %d", rows[i].text, s->frontends[0].placement,
				 rows[i].placement);
		spec_free(s);
	}
}

static void which_is_control_plane(void **state)
{
	static const struct {
		const char *text;
		int index; /* -1: none */
	} rows[] = {
		{FRONTENDS("{'name':'a','port':80}"), -1},
		{FRONTENDS("{'name':'a','port':6443,'protocol':'UDP'}"), -1},
		{FRONTENDS("{'name':'a','port':80},{'name':'b','port':6443}"), 1},
		{FRONTENDS("{'name':'b','port':6443},{'name':'kube-apiserver','port':443}"), 1},
		{FRONTENDS("{'name':'a','port':6443},{'name':'b','port':6443}"), 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec *s = spec_of(rows[i].text);

		assert_ptr_equal(spec_control_plane(s),
				 rows[i].index < 0 ? NULL : &s->frontends[rows[i].index]);
		spec_free(s);
	}
}

static void families(void **state)
{
#define DUAL(frontend)                                                                                       \
	"{" SPEC_HEAD "," SPEC_NETWORKS                                                                      \
	",'defaultInternalLoadBalancers':true,'frontends':[{'name':'a','port':80" frontend "}]}"
	static const struct {
		const char *text, *gateway;
		uint8_t family;
	} rows[] = {
		{DUAL(",'backends':[{'address':'192.168.150.11','port':1}]"), "192.168.150.1", IP_V4},
		{DUAL(",'backends':[{'address':'fd00:150::11','port':1}]"), "fd00:150::1", IP_V6},
		{DUAL(""), "192.168.150.1", IP_V4},
		{DUAL(",'backends':[],'address':'fd00:150::1'"), "fd00:150::1", IP_V6},
		{BACKENDS("{'address':'fd00:150::11','port':1}"), "", IP_V6},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec *s = spec_of(rows[i].text);

		assert_int_equal(s->frontends[0].family, rows[i].family);
		assert_address(&s->frontends[0].gateway, rows[i].gateway);
		spec_free(s);
	}
}

/* Accepted at the very edge of what is allowed. */
static void edges(void **state)
{
	static const char *const rows[] = {
		"{'apiVersion':'vgw-agent/v1','generation':0,'cluster':'c'," SPEC_NETWORK "}",
		"{'apiVersion':'vgw-agent/"
		"v1','generation':9223372036854775807,'cluster':'\xc3\xa9\xc2\xa0'," SPEC_NETWORK "}",
		"{" SPEC_HEAD ",'cloudspace':{'privateNetwork':'192.168.150.252/30'}}",
		"{" SPEC_HEAD ",'cloudspace':{'privateNetwork':'fd00::4/126'}}",
		"{" SPEC_HEAD ",'cloudspace':{'privateNetworks':['10.0.0.0/8']}}",
		" \t\r\n" SPEC("") "\n",
		SPEC(",'cni':{'vethMTU':0}"),
		SPEC(",'cni':{'vethMTU':576}"),
		SPEC(",'cni':{'ipPools':[{'cidr':'10.0.0.1/32','blockSize':32},{'cidr':'fd00::/"
		     "8','blockSize':1}]}"),
		SPEC(",'clusterNetwork':{},'cni':{},'addons':{},'managementAccess':{},'geo':{}"),
		SPEC(",'managementAccess':{'connectedCloudspace':{'cloudspaceId':''}}"),
		SPEC(",'frontends':[],'tunnels':[],'probes':[]"),
		FRONTENDS("{'name':'a','port':1},{'name':'b','port':65535}"),
		HEALTH_CHECK("'interval':'50ms','timeout':'10ms','rise':1,'fall':1000,'port':1"),
		HEALTH_CHECK("'interval':'1h','timeout':'60m','expect':[100,599]"),
		HEALTH_CHECK("'interval':'100ms','timeout':'2s'"),
		BACKENDS("{'address':'192.168.150.11','port':1},{'address':'192.168.150.11','port':2}"),
		BACKENDS("{'address':'fd80::1','port':1}"),
		BACKENDS("{'address':'fe00::1','port':1}"),
		BACKENDS("{'address':'::2','port':1}"),
		BACKENDS("{'address':'240.0.0.1','port':1},{'address':'10.255.255.255','port':1}"),
		BACKENDS("{'address':'10.0.0.1','port':1}"), /* it need not be in the private network */
		TUNNEL(",'mtu':'auto'"),
		TUNNEL(",'mtu':576,'maxMTU':65535"),
		TUNNELS("{'name':'t','interface':'abcdefghijklmno'}"),
		TUNNELS("{'name':'t','peer':{'privateNetwork':'192.168.10.0/24'}}"),
		TUNNEL(",'peer':{'address':'169.254.7.1','privateNetwork':'169.254.7.0/30'}"),
		TUNNELS("{'name':'a','interface':'wg0'},{'name':'b','interface':'wg0'}"),
		PROBE(",'path':'/'"),
	};
	char name[600];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		spec_free(spec_of(rows[i]));
	/* 253 bytes */
	snprintf(name, sizeof(name), FRONTENDS("{'port':1,'name':'%0253d'}"), 7);
	spec_free(spec_of(name));
}

static void free_of_nothing(void **state)
{
	(void)state;
	spec_free(NULL);
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint32_t ms;
	} rows[] = {
		{"250ms", 0, 250},
		{"2s", 0, 2000},
		{"1m", 0, 60000},
		{"1m30s", 0, 90000},
		{"1h1m1s1ms", 0, 3661001},
		{"1.5s", 0, 1500},
		{".5s", 0, 500},
		{"2.s", 0, 2000},
		{"0", 0, 0},
		{"0s", 0, 0},
		{"1ns", 0, 1},
		{"1000001ns", 0, 2},
		{"1us", 0, 1},
		{"1000us", 0, 1},
		{"1001us", 0, 2},
		{"1500\xc2\xb5s", 0, 2},
		{"2000\xce\xbcs", 0, 2},
		{"0.0005s", 0, 1},
		{"1.0000000000000000001s", 0, 1001},
		{"0.1h", 0, 360000},
		{"0.33333333333333333333h", 0, 1200000},
		{"24h", 0, 86400000},
		{"23h60m", 0, 86400000},
		{"86400000ms", 0, 86400000},
		{"24h1ns", -ERANGE, 0},
		{"86400001ms", -ERANGE, 0},
		{"99999999999999999999999h", -ERANGE, 0},
		{"18446744073709551616ns", -ERANGE, 0},
		{"20h20h", -ERANGE, 0},
		{"20h20h1s", -ERANGE, 0},
		{"25h1x", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"1", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{".s", -EINVAL, 0},
		{"-1s", -EINVAL, 0},
		{"+1s", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{" 1s", -EINVAL, 0},
		{"1s ", -EINVAL, 0},
		{"1d", -EINVAL, 0},
		{"1S", -EINVAL, 0},
		{"1e3s", -EINVAL, 0},
		{"0x1s", -EINVAL, 0},
		{"1s2", -EINVAL, 0},
		{"1.2.3s", -EINVAL, 0},
		{"00", -EINVAL, 0},
	};
	static const struct {
		uint32_t ms;
		const char *text;
	} printed[] = {
		{0, "0s"},
		{1, "1ms"},
		{999, "999ms"},
		{1000, "1s"},
		{1500, "1500ms"},
		{60000, "1m"},
		{90000, "90s"},
		{3600000, "1h"},
		{5400000, "90m"},
		{86400000, "24h"},
		{4294967295u, "4294967295ms"},
	};
	char text[16];
	uint32_t ms;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ms = 77;
		if (spec_duration_parse(rows[i].text, &ms) != rows[i].rc || ms != rows[i].ms)
			fail_msg("\"%s\": %u ms", rows[i].text, ms);
	}
	for (size_t i = 0; i < sizeof(printed) / sizeof(printed[0]); i++)
		assert_string_equal(spec_duration_print(printed[i].ms, text), printed[i].text);
}

static void words(void **state)
{
	(void)state;
	assert_string_equal(spec_protocol_name(SPEC_TCP), "TCP");
	assert_string_equal(spec_protocol_name(SPEC_UDP), "UDP");
	assert_string_equal(spec_balance_name(SPEC_ROUNDROBIN), "roundrobin");
	assert_string_equal(spec_balance_name(SPEC_RANDOM), "random");
	assert_string_equal(spec_balance_name(SPEC_SOURCE), "source");
	assert_string_equal(spec_role_name(SPEC_ROLE_MANAGEMENT), "management");
	assert_string_equal(spec_exposure_name(SPEC_PRIVATE), "private");
	assert_string_equal(spec_none_healthy_name(SPEC_FAILOPEN), "failopen");
	assert_string_equal(spec_check_type_name(SPEC_CHECK_HTTPS), "https");
	assert_string_equal(spec_encapsulation_name(SPEC_ENCAP_NONE), "none");
	assert_int_equal(spec_encapsulation_overhead(SPEC_VXLAN, IP_V4), 50);
	assert_int_equal(spec_encapsulation_overhead(SPEC_VXLAN, IP_V6), 70);
	assert_int_equal(spec_encapsulation_overhead(SPEC_GENEVE, IP_V4), 58);
	assert_int_equal(spec_encapsulation_overhead(SPEC_GENEVE, IP_V6), 78);
	assert_int_equal(spec_encapsulation_overhead(SPEC_IPIP, IP_V4), 20);
	assert_int_equal(spec_encapsulation_overhead(SPEC_WIREGUARD, IP_V4), 60);
	assert_int_equal(spec_encapsulation_overhead(SPEC_WIREGUARD, IP_V6), 80);
	assert_int_equal(spec_encapsulation_overhead(SPEC_ENCAP_NONE, IP_V4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_cluster),
		cmocka_unit_test(values_of_members),
		cmocka_unit_test(defaults_of_spec),
		cmocka_unit_test(defaults_of_members),
		cmocka_unit_test(check_defaults),
		cmocka_unit_test(placement),
		cmocka_unit_test(families),
		cmocka_unit_test(which_is_control_plane),
		cmocka_unit_test(edges),
		cmocka_unit_test(free_of_nothing),
		cmocka_unit_test(durations),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
