/* SPDX-License-Identifier: Apache-2.0 */
/* Every way a document alone is refused: reason and pointer. */
#include "tests/unit/spec_text.h"

#include <errno.h>
#include <stdio.h>

struct refusal {
	const char *text, *where;
};

static void refuse(const struct refusal *rows, size_t n, const char *reason, int expected)
{
	struct vgw_err err;
	struct spec *s;

	for (size_t i = 0; i < n; i++) {
		int rc = spec_try(rows[i].text, &s, &err);

		if (rc != expected || strcmp(err.reason, reason) != 0 ||
		    strcmp(err.where, rows[i].where) != 0)
			fail_msg("%s\nrc %d, %s at \"%s\" (%s), not at \"%s\"", rows[i].text, rc, err.reason,
				 err.where, err.text, rows[i].where);
		assert_null(s);
		assert_string_not_equal(err.text, "");
	}
}

#define INVALID(rows) refuse(rows, sizeof(rows) / sizeof((rows)[0]), "InvalidSpec", -EINVAL)

static void not_json(void **state)
{
	static const struct refusal rows[] = {
		{"", ""},
		{"  ", ""},
		{"{", ""},
		{"{'apiVersion':'vgw-agent/v1'", ""},
		{SPEC("") "x", ""},
		{SPEC("") "{}", ""},
		{SPEC(","), ""},
		{SPEC(",'frontends':[,]"), ""},
		{SPEC(",'frontends':[1,]"), ""},
		{"[]", ""},
		{"null", ""},
		{"'text'", ""},
		{"7", ""},
	};

	(void)state;
	INVALID(rows);
}

static void top_members(void **state)
{
	static const struct refusal rows[] = {
		{"{'generation':1,'cluster':'c'," SPEC_NETWORK "}", "/apiVersion"},
		{"{'apiVersion':'vgw-agent/v2','generation':1,'cluster':'c','news':1," SPEC_NETWORK "}",
		 "/apiVersion"},
		{"{'apiVersion':1,'generation':1,'cluster':'c'," SPEC_NETWORK "}", "/apiVersion"},
		{"{'apiVersion':'vgw-agent/v1','cluster':'c'," SPEC_NETWORK "}", "/generation"},
		{"{'apiVersion':'vgw-agent/v1','generation':1," SPEC_NETWORK "}", "/cluster"},
		{"{" SPEC_HEAD "}", "/cloudspace"},
		{"{" SPEC_HEAD ",'cloudspace':{}}", "/cloudspace/privateNetwork"},
		{"{" SPEC_HEAD
		 ",'cloudspace':{'privateNetwork':'10.0.0.0/8','privateNetworks':['10.0.0.0/8']}}",
		 "/cloudspace/privateNetworks"},
		{"{" SPEC_HEAD ",'cloudspace':{'privateNetworks':[]}}", "/cloudspace/privateNetworks"},
		{"{'apiVersion':'vgw-agent/v1','generation':-1,'cluster':'c'," SPEC_NETWORK "}",
		 "/generation"},
		{"{'apiVersion':'vgw-agent/v1','generation':1.5,'cluster':'c'," SPEC_NETWORK "}",
		 "/generation"},
		{"{'apiVersion':'vgw-agent/v1','generation':1e3,'cluster':'c'," SPEC_NETWORK "}",
		 "/generation"},
		{"{'apiVersion':'vgw-agent/v1','generation':9223372036854775808,'cluster':'c'," SPEC_NETWORK
		 "}",
		 "/generation"},
		{"{'apiVersion':'vgw-agent/v1','generation':'1','cluster':'c'," SPEC_NETWORK "}",
		 "/generation"},
		{"{'apiVersion':'vgw-agent/v1','generation':1,'cluster':''," SPEC_NETWORK "}", "/cluster"},
		{"{'apiVersion':'vgw-agent/v1','generation':1,'cluster':'a\\nb'," SPEC_NETWORK "}",
		 "/cluster"},
		{"{'apiVersion':'vgw-agent/v1','generation':1,'cluster':'a\\u0085b'," SPEC_NETWORK "}",
		 "/cluster"},
		{"{'apiVersion':'vgw-agent/v1','generation':1,'cluster':null," SPEC_NETWORK "}", "/cluster"},
		{SPEC(",'role':'worker'"), "/role"},
		{SPEC(",'role':'Gateway'"), "/role"},
		{SPEC(",'controlPlaneExposure':'hidden'"), "/controlPlaneExposure"},
		{SPEC(",'controlPlaneExposure':true"), "/controlPlaneExposure"},
		{SPEC(",'defaultInternalLoadBalancers':'true'"), "/defaultInternalLoadBalancers"},
		{SPEC(",'defaultInternalLoadBalancers':1"), "/defaultInternalLoadBalancers"},
		{SPEC(",'frontends':{}"), "/frontends"},
		{SPEC(",'frontends':null"), "/frontends"},
		{SPEC(",'frontends':[1]"), "/frontends/0"},
		{SPEC(",'tunnels':'t'"), "/tunnels"},
		{SPEC(",'probes':1"), "/probes"},
		{SPEC(",'addons':{'ccm':'external'}"), "/addons/ccm"},
		{SPEC(",'addons':{'ccm':true}"), "/addons/ccm"},
		{SPEC(",'addons':{'serviceLB':'metallb'}"), "/addons/serviceLB"},
		{SPEC(",'managementAccess':[]"), "/managementAccess"},
		{SPEC(",'managementAccess':{'connectedCloudspace':'cs'}"),
		 "/managementAccess/connectedCloudspace"},
		{SPEC(",'managementAccess':{'connectedCloudspace':{'cloudspaceId':7}}"),
		 "/managementAccess/connectedCloudspace/cloudspaceId"},
	};

	(void)state;
	INVALID(rows);
}

static void unknown_and_duplicate(void **state)
{
	static const struct refusal rows[] = {
		{SPEC(",'kind':'x'"), "/kind"},
		{SPEC(",'Role':'gateway'"), "/Role"},
		{SPEC(",'role':'gateway','role':'gateway'"), "/role"},
		{SPEC(",'a~b/c':1"), "/a~0b~1c"},
		{SPEC(",'':1"), "/"},
		{SPEC(",'addons':{'x':1}"), "/addons/x"},
		{SPEC(",'addons':{'ccm':'internal','ccm':'internal'}"), "/addons/ccm"},
		{"{" SPEC_HEAD ",'cloudspace':{'privateNetwork':'10.0.0.0/8','name':'x'}}",
		 "/cloudspace/name"},
		{SPEC(",'clusterNetwork':{'nodes':[]}"), "/clusterNetwork/nodes"},
		{SPEC(",'cni':{'mtu':1}"), "/cni/mtu"},
		{SPEC(",'cni':{'ipPools':[{'cidr':'10.0.0.0/8','CIDR':1}]}"), "/cni/ipPools/0/CIDR"},
		{SPEC(",'geo':{'x':1}"), "/geo/x"},
		{SPEC(",'managementAccess':{'connectedCloudspace':{'id':''}}"),
		 "/managementAccess/connectedCloudspace/id"},
		{FRONTEND(",'weight':1"), "/frontends/0/weight"},
		{FRONTEND(",'port':80"), "/frontends/0/port"},
		{HEALTH_CHECK("'http':1"), "/frontends/0/healthCheck/http"},
		{BACKENDS("{'address':'10.0.0.1','port':1},{'address':'10.0.0.2','port':1,'name':'x'}"),
		 "/frontends/0/backends/1/name"},
		{TUNNEL(",'type':'ipsec'"), "/tunnels/0/type"},
		{TUNNEL(",'peer':{'cidr':1}"), "/tunnels/0/peer/cidr"},
		{PROBE(",'port':1"), "/probes/0/port"},
	};

	(void)state;
	INVALID(rows);
}

static void networks(void **state)
{
#define NETWORK(text)	"{" SPEC_HEAD ",'cloudspace':{'privateNetwork':" text "}}"
#define NETWORKS_(text) "{" SPEC_HEAD ",'cloudspace':{'privateNetworks':[" text "]}}"
	static const struct refusal rows[] = {
		{NETWORK("'192.168.150.0'"), "/cloudspace/privateNetwork"},
		{NETWORK("'192.168.150.1/24'"), "/cloudspace/privateNetwork"},
		{NETWORK("'fd00::1/64'"), "/cloudspace/privateNetwork"},
		{NETWORK("'192.168.150.0/31'"), "/cloudspace/privateNetwork"},
		{NETWORK("'192.168.150.0/32'"), "/cloudspace/privateNetwork"},
		{NETWORK("'fd00::/127'"), "/cloudspace/privateNetwork"},
		{NETWORK("'fd00::/128'"), "/cloudspace/privateNetwork"},
		{NETWORK("'192.168.150.0/33'"), "/cloudspace/privateNetwork"},
		{NETWORK("'fd00::/129'"), "/cloudspace/privateNetwork"},
		{NETWORK("''"), "/cloudspace/privateNetwork"},
		{NETWORK("24"), "/cloudspace/privateNetwork"},
		{NETWORK("['192.168.150.0/24']"), "/cloudspace/privateNetwork"},
		{NETWORK("'127.0.0.0/8'"), "/cloudspace/privateNetwork"},
		{NETWORK("'224.1.0.0/16'"), "/cloudspace/privateNetwork"},
		{NETWORK("'0.0.0.0/0'"), "/cloudspace/privateNetwork"},
		{NETWORK("'fe80::/64'"), "/cloudspace/privateNetwork"},
		{NETWORK("'ff02::/64'"), "/cloudspace/privateNetwork"},
		{NETWORK("'::/64'"), "/cloudspace/privateNetwork"},
		{NETWORKS_("'10.0.0.0/8','192.168.0.0/24'"), "/cloudspace/privateNetworks/1"},
		{NETWORKS_("'10.0.0.0/8','fd00::/64','fd01::/64'"), "/cloudspace/privateNetworks/2"},
		{NETWORKS_("'10.0.0.0/8','fd00::1/64'"), "/cloudspace/privateNetworks/1"},
		{NETWORKS_("'0.0.0.0/0'"), "/cloudspace/privateNetworks/0"},
		{NETWORKS_("7"), "/cloudspace/privateNetworks/0"},
		{SPEC(",'clusterNetwork':{'pods':['10.244.1.0/16']}"), "/clusterNetwork/pods/0"},
		{SPEC(",'clusterNetwork':{'pods':'10.244.0.0/16'}"), "/clusterNetwork/pods"},
		{SPEC(",'clusterNetwork':{'pods':['10.1.0.0/16','10.2.0.0/16']}"), "/clusterNetwork/pods/1"},
		{SPEC(",'clusterNetwork':{'services':['10.1.0.0/16','fd00::/64','10.2.0.0/31']}"),
		 "/clusterNetwork/services/2"},
		{SPEC(",'geo':{'privateNetworks':['192.168.160.0/24','192.168.161.1/24']}"),
		 "/geo/privateNetworks/1"},
		{SPEC(",'geo':{'privateNetworks':['192.168.160.0/31']}"), "/geo/privateNetworks/0"},
		{SPEC(",'cni':{'ipPools':[{'blockSize':26}]}"), "/cni/ipPools/0/cidr"},
		{SPEC(",'cni':{'ipPools':[{'cidr':'10.1.0.1/16'}]}"), "/cni/ipPools/0/cidr"},
		{SPEC(",'cni':{'ipPools':[{'cidr':'10.1.0.0/16','blockSize':33}]}"),
		 "/cni/ipPools/0/blockSize"},
		{SPEC(",'cni':{'ipPools':[{'cidr':'fd00::/56','blockSize':129}]}"),
		 "/cni/ipPools/0/blockSize"},
		{SPEC(",'cni':{'ipPools':[{'cidr':'10.1.0.0/16','blockSize':0}]}"),
		 "/cni/ipPools/0/blockSize"},
		{SPEC(",'cni':{'encapsulation':'vlan'}"), "/cni/encapsulation"},
		{SPEC(",'cni':{'vethMTU':575}"), "/cni/vethMTU"},
		{SPEC(",'cni':{'vethMTU':65536}"), "/cni/vethMTU"},
		{SPEC(",'cni':{'vethMTU':'1350'}"), "/cni/vethMTU"},
	};

	(void)state;
	INVALID(rows);
}

static void frontends(void **state)
{
	static const struct refusal rows[] = {
		{FRONTENDS("{'port':80}"), "/frontends/0/name"},
		{FRONTENDS("{'name':'','port':80}"), "/frontends/0/name"},
		{FRONTENDS("{'name':'a\\u007f','port':80}"), "/frontends/0/name"},
		{FRONTENDS("{'name':'a'}"), "/frontends/0/port"},
		{FRONTENDS("{'name':'a','port':0}"), "/frontends/0/port"},
		{FRONTENDS("{'name':'a','port':65536}"), "/frontends/0/port"},
		{FRONTENDS("{'name':'a','port':4294967376}"), "/frontends/0/port"}, /* 2^32 + 80 */
		{FRONTENDS("{'name':'a','port':80.0}"), "/frontends/0/port"},
		{FRONTENDS("{'name':'a','port':1e400}"), "/frontends/0/port"},
		{FRONTENDS("{'name':'a','port':'80'}"), "/frontends/0/port"},
		{FRONTENDS("{'name':'a','port':80},{'name':'b','port':81},{'name':'a','port':82}"),
		 "/frontends/2/name"},
		{FRONTENDS("{'name':'c','port':1},{'name':'b','port':2},{'name':'b','port':3},{'name':'a','"
			   "port':4},"
			   "{'name':'a','port':5}"),
		 "/frontends/2/name"},
		{FRONTEND(",'protocol':'SCTP'"), "/frontends/0/protocol"},
		{FRONTEND(",'protocol':'tcp'"), "/frontends/0/protocol"},
		{FRONTEND(",'balance':'leastconn'"), "/frontends/0/balance"},
		{FRONTEND(",'whenNoneHealthy':'fail'"), "/frontends/0/whenNoneHealthy"},
		{FRONTEND(",'internal':'yes'"), "/frontends/0/internal"},
		{FRONTEND(",'internal':null"), "/frontends/0/internal"},
		{FRONTEND(",'loadBalancerClass':1"), "/frontends/0/loadBalancerClass"},
		{FRONTEND(",'loadBalancerClass':'x','backends':[{}]"),
		 "/frontends/0/backends/0/address"}, /* ignored */
		{FRONTEND(",'address':'192.168.150'"), "/frontends/0/address"},
		{FRONTEND(",'address':'192.168.150.01'"), "/frontends/0/address"},
		{FRONTEND(",'address':''"), "/frontends/0/address"},
		{BACKENDS("{'port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'192.168.150.11'}"), "/frontends/0/backends/0/port"},
		{BACKENDS("{'address':'node1','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'192.168.150.11/24','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'0.0.0.0','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'127.0.0.1','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'169.254.0.1','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'224.0.0.1','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'239.255.255.255','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'febf::1','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'255.255.255.255','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'::','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'::1','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'fe80::1','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'::ffff:10.0.0.1','port':1}"), "/frontends/0/backends/0/address"},
		{BACKENDS("{'address':'10.0.0.1','port':0}"), "/frontends/0/backends/0/port"},
		{BACKENDS("{'address':'10.0.0.1','port':1,'weight':101}"), "/frontends/0/backends/0/weight"},
		{BACKENDS("{'address':'10.0.0.1','port':1,'weight':-1}"), "/frontends/0/backends/0/weight"},
		{BACKENDS("{'address':'10.0.0.1','port':1,'drain':0}"), "/frontends/0/backends/0/drain"},
		{BACKENDS("{'address':'10.0.0.1','port':1},{'address':'10.0.0.2','port':1},{'address':'10.0."
			  "0.1','port':1}"),
		 "/frontends/0/backends/2"},
		{BACKENDS("{'address':'10.0.0.1','port':1},{'address':'192.168.150.1','port':99}"),
		 "/frontends/0/backends/1/address"},
		{BACKENDS("{'address':'10.0.0.1','port':1},{'address':'fd00::1','port':1}"),
		 "/frontends/0/backends/1/address"},
		{"{" SPEC_HEAD "," SPEC_NETWORKS
		 ",'frontends':[{'name':'a','port':1,'address':'192.168.150.1',"
		 "'backends':[{'address':'fd00:150::11','port':1}]}]}",
		 "/frontends/0/address"},
		{"{" SPEC_HEAD "," SPEC_NETWORKS ",'frontends':[{'name':'a','port':1,"
		 "'backends':[{'address':'fd00:150::1','port':1}]}]}",
		 "/frontends/0/backends/0/address"},
	};

	(void)state;
	INVALID(rows);
}

static void checks(void **state)
{
	static const struct refusal rows[] = {
		{FRONTEND(",'healthCheck':'tcp'"), "/frontends/0/healthCheck"},
		{HEALTH_CHECK("'type':'http'"), "/frontends/0/healthCheck/type"},
		{HEALTH_CHECK("'port':0"), "/frontends/0/healthCheck/port"},
		{HEALTH_CHECK("'path':'readyz'"), "/frontends/0/healthCheck/path"},
		{HEALTH_CHECK("'path':''"), "/frontends/0/healthCheck/path"},
		{HEALTH_CHECK("'path':'/a b'"), "/frontends/0/healthCheck/path"},
		{HEALTH_CHECK("'path':'/a\\r\\nHost: x'"), "/frontends/0/healthCheck/path"},
		{HEALTH_CHECK("'path':'/\xc3\xa9'"), "/frontends/0/healthCheck/path"},
		{HEALTH_CHECK("'expect':[]"), "/frontends/0/healthCheck/expect"},
		{HEALTH_CHECK("'expect':200"), "/frontends/0/healthCheck/expect"},
		{HEALTH_CHECK("'expect':[200,99]"), "/frontends/0/healthCheck/expect/1"},
		{HEALTH_CHECK("'expect':[600]"), "/frontends/0/healthCheck/expect/0"},
		{HEALTH_CHECK("'expect':['200']"), "/frontends/0/healthCheck/expect/0"},
		{HEALTH_CHECK("'interval':1"), "/frontends/0/healthCheck/interval"},
		{HEALTH_CHECK("'interval':'1'"), "/frontends/0/healthCheck/interval"},
		{HEALTH_CHECK("'interval':'0s'"), "/frontends/0/healthCheck/interval"},
		{HEALTH_CHECK("'interval':'49ms'"), "/frontends/0/healthCheck/interval"},
		{HEALTH_CHECK("'interval':'1h1ms'"), "/frontends/0/healthCheck/interval"},
		{HEALTH_CHECK("'interval':'25h'"), "/frontends/0/healthCheck/interval"},
		{HEALTH_CHECK("'interval':'-1s'"), "/frontends/0/healthCheck/interval"},
		{HEALTH_CHECK("'timeout':'9ms'"), "/frontends/0/healthCheck/timeout"},
		{HEALTH_CHECK("'timeout':'soon'"), "/frontends/0/healthCheck/timeout"},
		{HEALTH_CHECK("'rise':0"), "/frontends/0/healthCheck/rise"},
		{HEALTH_CHECK("'fall':1001"), "/frontends/0/healthCheck/fall"},
		{HEALTH_CHECK("'fall':true"), "/frontends/0/healthCheck/fall"},
		{HEALTH_CHECK("'ca':''"), "/frontends/0/healthCheck/ca"},
		{HEALTH_CHECK("'ca':'/etc/ca.crt'"), "/frontends/0/healthCheck/ca"},
		{HEALTH_CHECK("'ca':'-----BEGIN CERTIFICATE-----'"), "/frontends/0/healthCheck/ca"},
		{PROBES("{'target':'192.0.2.1:443'}"), "/probes/0/name"},
		{PROBES("{'name':'p'}"), "/probes/0/target"},
		{PROBES("{'name':'p','target':'192.0.2.1'}"), "/probes/0/target"},
		{PROBES("{'name':'p','target':'example.org:443'}"), "/probes/0/target"},
		{PROBES("{'name':'p','target':'192.0.2.1:0'}"), "/probes/0/target"},
		{PROBES("{'name':'p','target':443}"), "/probes/0/target"},
		{PROBES("{'name':'p','target':'192.0.2.1:1'},{'name':'p','target':'192.0.2.1:2'}"),
		 "/probes/1/name"},
		{PROBE(",'type':'none'"), "/probes/0/type"},
		{PROBE(",'type':'icmp'"), "/probes/0/type"},
		{PROBE(",'interval':'1ms'"), "/probes/0/interval"},
	};

	(void)state;
	INVALID(rows);
}

static void tunnels(void **state)
{
	static const struct refusal rows[] = {
		{TUNNELS("{'interface':'wg0'}"), "/tunnels/0/name"},
		{TUNNELS("{'name':'a','interface':'wg0'},{'name':'a','interface':'wg1'}"), "/tunnels/1/name"},
		{TUNNELS("{'name':'a','interface':'abcdefghijklmnop'}"), "/tunnels/0/interface"},
		{TUNNELS("{'name':'a','interface':'a/b'}"), "/tunnels/0/interface"},
		{TUNNELS("{'name':'a','interface':'a b'}"), "/tunnels/0/interface"},
		{TUNNELS("{'name':'a','interface':'eth0:1'}"), "/tunnels/0/interface"},
		{TUNNELS("{'name':'a','interface':'..'}"), "/tunnels/0/interface"},
		{TUNNELS("{'name':'a','interface':'a\\u0001'}"), "/tunnels/0/interface"},
		{TUNNELS("{'name':'a'}"), "/tunnels/0/peer/privateNetwork"},
		{TUNNELS("{'name':'a','interface':'','peer':{'address':'192.168.10.1'}}"),
		 "/tunnels/0/peer/privateNetwork"},
		{TUNNEL(",'mtu':575"), "/tunnels/0/mtu"},
		{TUNNEL(",'mtu':65536"), "/tunnels/0/mtu"},
		{TUNNEL(",'mtu':'1400'"), "/tunnels/0/mtu"},
		{TUNNEL(",'mtu':null"), "/tunnels/0/mtu"},
		{TUNNEL(",'maxMTU':'auto'"), "/tunnels/0/maxMTU"},
		{TUNNEL(",'maxMTU':0"), "/tunnels/0/maxMTU"},
		{TUNNEL(",'peer':'192.168.10.1'"), "/tunnels/0/peer"},
		{TUNNEL(",'peer':{'privateNetwork':'192.168.10.1/24'}"), "/tunnels/0/peer/privateNetwork"},
		{TUNNEL(",'peer':{'privateNetwork':'192.168.10.0/31'}"), "/tunnels/0/peer/privateNetwork"},
		{TUNNEL(",'peer':{'address':'peer'}"), "/tunnels/0/peer/address"},
		{TUNNEL(",'peer':{'address':'127.0.0.1'}"), "/tunnels/0/peer/address"},
		{TUNNEL(",'peer':{'privateNetwork':'192.168.10.0/24','address':'fd00::1'}"),
		 "/tunnels/0/peer/address"},
		{TUNNEL(",'peer':{'cloudspaceId':1}"), "/tunnels/0/peer/cloudspaceId"},
	};

	(void)state;
	INVALID(rows);
}

/* Bytes that C strings or ' for " would hide. */
static void bytes(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} rows[] = {
#define ROW(text) {text, sizeof(text) - 1}
		ROW("{\"a\":\"x\0y\"}"),	 ROW("{}\0"),
		ROW("{\"a\":\"\xff\"}"),	 ROW("{\"a\":\"\xc0\x80\"}"),
		ROW("{\"a\":\"\xed\xa0\x80\"}"), ROW("\xef\xbb\xbf{}"),
		ROW("{\"a\":\"\\u0000\"}"),
	};
	struct vgw_err err;
	struct spec *s;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(spec_decode(rows[i].text, rows[i].len, &s, &err), -EINVAL);
		assert_string_equal(err.reason, "InvalidSpec");
		assert_string_equal(err.where, "");
		assert_non_null(strstr(err.text, "is not JSON"));
		assert_null(s);
	}
	assert_int_equal(spec_decode(NULL, 0, &s, NULL), -EINVAL);
}

/* HEAD, N elements printed from their index, TAIL. */
static char *repeat(const char *head, const char *element, size_t n, const char *tail)
{
	struct buf b = {0};
	char *quoted;

	buf_puts(&b, head);
	for (size_t i = 0; i < n; i++) {
		char number[24];
		const char *p = element;

		buf_puts(&b, i ? "," : "");
		snprintf(number, sizeof(number), "%zu", i);
		for (const char *hash; (hash = strchr(p, '#')); p = hash + 1) {
			buf_append(&b, p, (size_t)(hash - p));
			buf_puts(&b, number);
		}
		buf_puts(&b, p);
	}
	buf_puts(&b, tail);
	quoted = spec_text(buf_str(&b));
	buf_free(&b);
	return quoted;
}

static void limits(void **state)
{
	static const struct {
		const char *head, *element, *tail;
		size_t max;
		const char *where;
	} rows[] = {
		{"{" SPEC_HEAD "," SPEC_NETWORK ",'frontends':[", "{'name':'f#','port':1}", "]}", 10000,
		 "/frontends"},
		{"{" SPEC_HEAD "," SPEC_NETWORK
		 ",'frontends':[{'name':'a','port':1},{'name':'b','port':1,'backends':[",
		 "{'address':'10.0.0.1','port':1#}", "]}]}", 256, "/frontends/1/backends"},
		{"{" SPEC_HEAD "," SPEC_NETWORK ",'tunnels':[", "{'name':'t#','interface':'wg0'}", "]}", 256,
		 "/tunnels"},
		{"{" SPEC_HEAD "," SPEC_NETWORK ",'probes':[", "{'name':'p#','target':'192.0.2.1:1'}", "]}",
		 256, "/probes"},
	};
	struct vgw_err err;
	struct spec *s;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = repeat(rows[i].head, rows[i].element, rows[i].max, rows[i].tail);

		if (spec_decode(text, strlen(text), &s, &err) < 0)
			fail_msg("%s: %s", rows[i].where, err.text);
		spec_free(s);
		free(text);
		text = repeat(rows[i].head, rows[i].element, rows[i].max + 1, rows[i].tail);
		assert_int_equal(spec_decode(text, strlen(text), &s, &err), -E2BIG);
		assert_string_equal(err.reason, "TooLarge");
		assert_string_equal(err.where, rows[i].where);
		assert_null(s);
		free(text);
	}
}

static void size_and_depth(void **state)
{
	size_t len = SPEC_MAX_BYTES;
	char *text = malloc(len + 1), deep[100];
	char *head = spec_text(SPEC(""));
	struct vgw_err err;
	struct spec *s;

	(void)state;
	assert_non_null(text);
	memset(text, ' ', len + 1);
	memcpy(text, head, strlen(head));
	assert_int_equal(spec_decode(text, len, &s, &err), 0);
	spec_free(s);
	assert_int_equal(spec_decode(text, len + 1, &s, &err), -E2BIG);
	assert_string_equal(err.reason, "TooLarge");
	assert_string_equal(err.where, "");
	assert_null(s);
	/* 32 deep is only wrong, 33 is too deep, however it ends. */
	memset(deep, '[', 32);
	memset(deep + 32, ']', 32);
	assert_int_equal(spec_decode(deep, 64, &s, &err), -EINVAL);
	assert_string_equal(err.reason, "InvalidSpec");
	memset(deep, '[', 33);
	assert_int_equal(spec_decode(deep, 33, &s, &err), -E2BIG);
	assert_string_equal(err.reason, "TooLarge");
	assert_null(s);
	memset(text, '[', len);
	assert_int_equal(spec_decode(text, len, &s, &err), -E2BIG);
	free(head);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_json),
		cmocka_unit_test(top_members),
		cmocka_unit_test(unknown_and_duplicate),
		cmocka_unit_test(networks),
		cmocka_unit_test(frontends),
		cmocka_unit_test(checks),
		cmocka_unit_test(tunnels),
		cmocka_unit_test(bytes),
		cmocka_unit_test(limits),
		cmocka_unit_test(size_and_depth),
	};

	return cmocka_run_group_tests_name("spec refused", tests, NULL, NULL);
}
