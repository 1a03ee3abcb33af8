/* SPDX-License-Identifier: Apache-2.0 */
/* Packets through the guard and the forward chain, whose rules are carried out here: promises 4 and 9. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "netcfg/model/nft_table.h"
#include "wanted_fixture.h"

/* One packet; "u" in FLAGS: UDP, "n" the first of a flow, "t" redirected by NAT, "s" decrypted by IPsec. */
struct packet {
	const char *in, *out, *from, *to; /* from an address, to an endpoint */
	const char *flags;
};

struct machine {
	uint8_t registers[64];
	uint8_t header[40], transport[20];
	const struct packet *packet;
	const struct nft_table *table;
	uint8_t family;
};

static bool has(const struct machine *m, char flag)
{
	return strchr(m->packet->flags, flag) != NULL;
}

static void machine_start(struct machine *m, const struct nft_table *t, const struct packet *p)
{
	struct ip_endpoint to = endpoint_of(p->to);
	struct ip_addr from = address_of(p->from);
	size_t size = ip_addr_size(&from);
	uint16_t port = htons(to.port);

	memset(m, 0, sizeof(*m));
	m->packet = p;
	m->table = t;
	m->family = from.family;
	assert_int_equal(from.family, to.addr.family);
	memcpy(m->header + (size == 4 ? 12 : 8), from.bytes, size);
	memcpy(m->header + (size == 4 ? 16 : 24), to.addr.bytes, size);
	memcpy(m->transport + 2, &port, 2);
}

/* A value into a register, its last 32 bits filled up with zeroes as the kernel does. */
static void load(struct machine *m, uint8_t reg, const void *data, size_t len)
{
	assert_true(reg * 4u + len <= sizeof(m->registers));
	memset(m->registers + reg * 4, 0, (len + 3) / 4 * 4);
	memcpy(m->registers + reg * 4, data, len);
}

static void load_meta(struct machine *m, const struct nx *x)
{
	char name[NS_IFNAME] = "";
	uint8_t byte;

	switch (x->a) {
	case NFT_META_IIFNAME:
	case NFT_META_OIFNAME:
		strncpy(name, x->a == NFT_META_IIFNAME ? m->packet->in : m->packet->out, NS_IFNAME - 1);
		load(m, x->dreg, name, NS_IFNAME);
		return;
	case NFT_META_NFPROTO:
		byte = m->family == IP_V4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
		break;
	case NFT_META_L4PROTO:
		byte = has(m, 'u') ? 17 : 6;
		break;
	case NFT_META_SECPATH:
		byte = has(m, 's');
		break;
	default:
		fail_msg("meta %u", x->a);
		return;
	}
	load(m, x->dreg, &byte, 1);
}

static void load_ct(struct machine *m, const struct nx *x)
{
	uint32_t value = 0;

	if (x->a == NFT_CT_STATE)
		/* invalid, new, established: linux/netfilter/nf_conntrack_common.h */
		value = has(m, 'i') ? 1 : has(m, 'n') ? 8 : 2;
	else if (x->a == NFT_CT_STATUS)
		value = has(m, 't') ? 1 << 5 : 0; /* IPS_DST_NAT */
	else
		fail_msg("ct %u", x->a);
	load(m, x->dreg, &value, 4);
}

static bool in_set(const struct machine *m, const struct nx *x)
{
	const struct nft_set *s = nft_table_set(m->table, x->name);

	assert_non_null(s);
	assert_false(x->has_dreg);
	for (size_t i = 0; i < s->n; i++)
		if (!memcmp(s->elems + i * nft_set_record(s), m->registers + x->sreg * 4, s->key_len))
			return true;
	return false;
}

/* False ends the rule. */
static bool step(struct machine *m, const struct nx *x, const char **verdict)
{
	uint8_t *reg = m->registers + x->sreg * 4;

	switch ((int)x->kind) {
	case NX_META:
		load_meta(m, x);
		return true;
	case NX_CT:
		load_ct(m, x);
		return true;
	case NX_PAYLOAD:
		assert_true(x->b + x->c <= (x->a == NFT_PAYLOAD_NETWORK_HEADER ? 40 : 20));
		load(m, x->dreg, (x->a == NFT_PAYLOAD_NETWORK_HEADER ? m->header : m->transport) + x->b,
		     x->c);
		return true;
	case NX_BITWISE:
		for (unsigned i = 0; i < x->a; i++)
			reg[i] &= x->data[i];
		return true;
	case NX_CMP:
		return !memcmp(reg, x->data, x->data_len) == (x->a == NFT_CMP_EQ);
	case NX_LOOKUP:
		return in_set(m, x);
	case NX_COUNTER:
		return true;
	case NX_RT: /* 'e': an IPsec policy takes it on its way out */
		load(m, x->dreg, (uint8_t[]){has(m, 'e')}, 1);
		return true;
	case NX_VERDICT:
		*verdict = (int32_t)x->a == NF_DROP ? "drop" : (int32_t)x->a == NF_ACCEPT ? "accept" : "?";
		return false;
	}
	fail_msg("an expression of kind %d", x->kind);
	return false;
}

/* "drop", "accept", or "pass" for a packet that no rule has a word for. */
static const char *walk(const struct nft_table *t, const char *chain, const struct packet *p)
{
	const struct nft_chain *c = nft_table_chain(t, chain);
	const char *verdict = NULL;
	struct machine m;

	machine_start(&m, t, p);
	for (size_t i = 0; c && i < c->n_rules; i++) {
		memset(m.registers, 0xa5, sizeof(m.registers)); /* nothing is left from the rule before */
		for (size_t k = 0; k < c->rules[i].n && step(&m, &c->rules[i].x[k], &verdict); k++)
			;
		if (verdict)
			return verdict;
	}
	return "pass";
}

struct passage {
	struct packet packet;
	const char *verdict;
};

static void assert_passages(const struct nft_table *t, const char *chain, const struct passage *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *verdict = walk(t, chain, &v[i].packet);

		/* Accepted by the guard, or not its business: both go on. */
		if (!strcmp(verdict, "drop") != !strcmp(v[i].verdict, "drop"))
			fail_msg("%s: %s%s %s -> %s (%s): %s", chain, v[i].packet.in, v[i].packet.out,
				 v[i].packet.from, v[i].packet.to, v[i].packet.flags, verdict);
	}
}
#define assert_chain(t, chain, list) assert_passages(t, chain, list, sizeof(list) / sizeof((list)[0]))

static const char public_cloudspace[] = "'privateNetworks':['192.168.150.0/24','fd00:150::/64']";
static const char private_cloudspace[] =
	"'privateNetworks':['192.168.150.0/24','fd00:150::/64'],'private':true";

/* Tunnels: wg0; 192.168.20.0/22 by IPsec over eth0; fd00:30::/48 by IPsec or over gre1. */
static void build(struct wanted_fixture *x, struct nft_table *t, const char *cloudspace, bool secpath)
{
	struct nft_features features = {.secpath = secpath};
	struct ns_route *origins;
	char text[2048];

	snprintf(
		text, sizeof(text),
		"{" SPEC_HEAD ",'controlPlaneExposure':'private','cloudspace':{%s},'frontends':[" APISERVER
		",{'name':'dns6','port':53,'protocol':'UDP','backends':[{'address':'fd00:150::21','port':53}]"
		"}],'tunnels':[{'name':'wg','interface':'wg0'},"
		"{'name':'ipsec'," PEER_NETWORK("192.168.20.0/22") "},"
								   "{'name':'gre'," PEER_NETWORK(
									   "fd00:30::/48") "}]}",
		cloudspace);
	wanted_start(x, text);
	origins = arena_calloc(x->arena, 3, sizeof(*origins));
	origins[1].network = x->spec->tunnels[1].peer_network;
	strcpy(origins[1].interface, "eth0");
	origins[2].network = x->spec->tunnels[2].peer_network;
	strcpy(origins[2].interface, "gre1");
	x->host.origins = origins;
	wanted_finish(x);
	assert_int_equal(nft_table_build(&x->state, &features, false, x->arena, t), 0);
}

static const struct passage at_guard[] = {
	/* The private interface, the tunnels' and this host reach everything. */
	{{"eth1", "", "192.168.150.11", "192.168.150.1:6443", "n"}, "accept"},
	{{"wg0", "", "192.168.10.5", "192.168.150.1:6443", "n"}, "accept"},
	{{"wg0", "", "8.8.8.8", "192.168.150.1:9443", "n"}, "accept"},
	{{"lo", "", "192.168.150.1", "192.168.150.1:9443", "n"}, "accept"},
	{{"eth1", "", "fd00:150::9", "[fd00:150::1]:53", "nu"}, "accept"},
	/* Nobody else, whatever address they claim, new or not. */
	{{"eth0", "", "198.51.100.7", "192.168.150.1:6443", "n"}, "drop"},
	{{"eth0", "", "192.168.150.11", "192.168.150.1:6443", "n"}, "drop"},
	{{"eth0", "", "198.51.100.7", "192.168.150.1:6443", ""}, "drop"},
	{{"eth0", "", "198.51.100.7", "192.168.150.1:9443", "n"}, "drop"},
	{{"eth0", "", "198.51.100.7", "192.168.150.1:9444", "nu"}, "drop"},
	{{"eth2", "", "10.0.0.1", "192.168.150.1:6443", "n"}, "drop"},
	{{"wg01", "", "10.0.0.1", "192.168.150.1:6443", "n"}, "drop"},
	{{"eth0", "", "2001:db8::7", "[fd00:150::1]:53", "nu"}, "drop"},
	/* Other ports and addresses are not its business. */
	{{"eth0", "", "198.51.100.7", "192.168.150.1:22", "n"}, "pass"},
	{{"eth0", "", "198.51.100.7", "192.168.150.1:6443", "nu"}, "pass"},
	{{"eth0", "", "198.51.100.7", "203.0.113.5:6443", "n"}, "pass"},
	{{"eth0", "", "2001:db8::7", "[fd00:150::1]:53", "n"}, "pass"},
	/* A tunnel without interface: decrypted, and from its network. */
	{{"eth0", "", "192.168.20.1", "192.168.150.1:6443", "ns"}, "accept"},
	{{"eth0", "", "192.168.23.255", "192.168.150.1:6443", "ns"}, "accept"},
	{{"eth0", "", "192.168.24.0", "192.168.150.1:6443", "ns"}, "drop"},
	{{"eth0", "", "192.168.19.255", "192.168.150.1:6443", "ns"}, "drop"},
	{{"eth0", "", "192.168.20.1", "192.168.150.1:6443", "n"}, "drop"},
	/* Or over the interface of its route, the external one excepted. */
	{{"gre1", "", "fd00:30::1", "[fd00:150::1]:53", "nu"}, "accept"},
	{{"gre1", "", "fd00:31::1", "[fd00:150::1]:53", "nu"}, "drop"},
	{{"gre1", "", "192.168.20.1", "192.168.150.1:6443", "n"}, "drop"},
	{{"eth0", "", "fd00:30::1", "[fd00:150::1]:53", "nu"}, "drop"},
};

static void guard(void **state)
{
	static const struct passage undecided[] = {
		{{"eth0", "", "192.168.20.1", "192.168.150.1:6443", "ns"}, "drop"},
		{{"gre1", "", "fd00:30::1", "[fd00:150::1]:53", "nu"}, "accept"},
	};
	struct wanted_fixture x;
	struct nft_table t;

	(void)state;
	build(&x, &t, public_cloudspace, true);
	assert_chain(&t, "guard", at_guard);
	wanted_free(&x);
	/* A kernel that cannot tell what was decrypted lets nothing in for it. */
	build(&x, &t, public_cloudspace, false);
	assert_chain(&t, "guard", undecided);
	wanted_free(&x);
}

/* New connections from outside into a private network, neither redirected nor decrypted, go no further. */
static void shield(void **state)
{
	static const struct passage list[] = {
		{{"eth0", "eth1", "198.51.100.7", "192.168.150.11:22", "n"}, "drop"},
		{{"eth0", "eth2", "198.51.100.7", "192.168.150.11:22", "nu"}, "drop"},
		{{"eth0", "eth1", "2001:db8::7", "[fd00:150::21]:22", "n"}, "drop"},
		{{"eth0", "eth1", "198.51.100.7", "192.168.150.11:22", ""}, "pass"},
		{{"eth0", "eth1", "198.51.100.7", "192.168.150.11:30443", "nt"}, "pass"},
		{{"eth0", "eth1", "192.168.20.1", "192.168.150.11:22", "ns"}, "pass"},
		{{"eth0", "eth1", "198.51.100.7", "192.168.151.11:22", "n"}, "pass"},
		{{"eth0", "eth1", "2001:db8::7", "[fd00:150:0:1::21]:22", "n"}, "pass"},
		{{"wg0", "eth1", "192.168.10.5", "192.168.150.11:22", "n"}, "pass"},
		/* Egress is untouched. */
		{{"eth1", "eth0", "192.168.150.11", "198.51.100.7:443", "n"}, "pass"},
		{{"eth0", "eth1", "198.51.100.7", "192.168.150.11:40000", ""}, "pass"},
		/* What belongs to no flow comes for a look around. */
		{{"eth0", "eth1", "198.51.100.7", "192.168.150.11:80", "i"}, "drop"},
		{{"eth1", "eth0", "192.168.150.11", "198.51.100.7:80", "i"}, "pass"},
	};
	struct wanted_fixture x;
	struct nft_table t;

	(void)state;
	build(&x, &t, public_cloudspace, true);
	assert_chain(&t, "forward", list);
	wanted_free(&x);
}

/* Nothing is forwarded between the private network and the external interface. */
static void cut(void **state)
{
	static const struct passage list[] = {
		{{"eth1", "eth0", "192.168.150.11", "198.51.100.7:443", "n"}, "drop"},
		{{"eth1", "eth0", "192.168.150.11", "198.51.100.7:443", ""}, "drop"},
		{{"eth1", "eth0", "10.244.0.9", "198.51.100.7:443", "nu"}, "drop"},
		{{"eth2", "eth0", "192.168.150.11", "198.51.100.7:443", "n"}, "drop"},
		{{"eth1", "eth0", "fd00:150::11", "[2001:db8::7]:443", "n"}, "drop"},
		{{"eth0", "eth1", "198.51.100.7", "192.168.150.11:40000", ""}, "drop"},
		{{"eth0", "eth2", "198.51.100.7", "192.168.150.11:40000", ""}, "drop"},
		{{"eth0", "eth1", "198.51.100.7", "10.244.0.9:80", "nt"}, "drop"},
		{{"eth0", "eth1", "2001:db8::7", "[fd00:150::11]:40000", ""}, "drop"},
		/* What IPsec carries does not cross it in the clear. */
		{{"eth1", "eth0", "192.168.150.11", "192.168.10.5:443", "ne"}, "pass"},
		{{"eth0", "eth1", "192.168.10.5", "192.168.150.11:40000", "s"}, "pass"},
		/* Tunnels and the inside are not the external interface. */
		{{"eth1", "wg0", "192.168.150.11", "192.168.10.5:443", "n"}, "pass"},
		{{"wg0", "eth1", "192.168.10.5", "192.168.150.11:6443", "nt"}, "pass"},
		{{"eth1", "eth1", "192.168.150.11", "192.168.150.12:6443", "nt"}, "pass"},
		{{"wg0", "eth0", "192.168.10.5", "198.51.100.7:443", "n"}, "pass"},
	};
	struct wanted_fixture x;
	struct nft_table t;

	(void)state;
	build(&x, &t, private_cloudspace, true);
	assert_chain(&t, "forward", list);
	assert_chain(&t, "guard", at_guard);
	wanted_free(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guard),
		cmocka_unit_test(shield),
		cmocka_unit_test(cut),
	};

	return cmocka_run_group_tests_name("nft packets", tests, NULL, NULL);
}
