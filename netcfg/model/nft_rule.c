/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/model/nft_rule.h"

#include <arpa/inet.h>
#include <assert.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

static struct nx *add(struct rule_text *r, enum nx_kind kind)
{
	struct nx *x = &r->x[r->n++];

	assert(r->n <= RULE_MAX);
	memset(x, 0, sizeof(*x));
	x->kind = (uint8_t)kind;
	return x;
}

static void to_register(struct nx *x, uint8_t dreg)
{
	x->has_dreg = 1;
	x->dreg = dreg;
}

static void set_data(struct nx *x, const void *data, uint8_t len)
{
	x->data_len = len;
	memcpy(x->data, data, len);
}

void rule_meta(struct rule_text *r, uint32_t key, uint8_t dreg)
{
	struct nx *x = add(r, NX_META);

	x->a = key;
	to_register(x, dreg);
}

void rule_payload(struct rule_text *r, uint32_t base, uint32_t offset, uint32_t len, uint8_t dreg)
{
	struct nx *x = add(r, NX_PAYLOAD);

	x->a = base;
	x->b = offset;
	x->c = len;
	to_register(x, dreg);
}

/* Direction is stored plus one: most keys have none. */
static void rule_ct(struct rule_text *r, uint32_t key, uint32_t direction_plus_one, uint8_t dreg)
{
	struct nx *x = add(r, NX_CT);

	x->a = key;
	x->b = direction_plus_one;
	to_register(x, dreg);
}

void rule_cmp(struct rule_text *r, uint8_t sreg, uint32_t op, const void *data, uint8_t len)
{
	struct nx *x = add(r, NX_CMP);

	x->a = op;
	x->sreg = sreg;
	set_data(x, data, len);
}

void rule_mask(struct rule_text *r, uint8_t reg, const void *mask, uint8_t len)
{
	struct nx *x = add(r, NX_BITWISE);

	x->a = len;
	x->sreg = reg;
	to_register(x, reg);
	set_data(x, mask, len);
}

void rule_value(struct rule_text *r, uint8_t dreg, const void *data, uint8_t len)
{
	struct nx *x = add(r, NX_VALUE);

	to_register(x, dreg);
	set_data(x, data, len);
}

void rule_lookup(struct rule_text *r, const char *set, uint8_t sreg)
{
	struct nx *x = add(r, NX_LOOKUP);

	strcpy(x->name, set);
	x->sreg = sreg;
}

void rule_map(struct rule_text *r, const char *map, uint8_t sreg, uint8_t dreg)
{
	rule_lookup(r, map, sreg);
	to_register(&r->x[r->n - 1], dreg);
}

void rule_numgen(struct rule_text *r, uint32_t type, uint32_t modulus, uint8_t dreg)
{
	struct nx *x = add(r, NX_NUMGEN);

	x->a = type;
	x->b = modulus;
	to_register(x, dreg);
}

void rule_hash(struct rule_text *r, uint8_t sreg, uint32_t len, uint32_t modulus, uint8_t dreg)
{
	struct nx *x = add(r, NX_HASH);

	x->sreg = sreg;
	x->a = len;
	x->b = modulus;
	x->c = 0x76677761; /* a fixed seed: the same client keeps its backend over restarts and on every
			      gateway */
	to_register(x, dreg);
}

void rule_verdict(struct rule_text *r, int32_t verdict, const char *chain)
{
	struct nx *x = add(r, NX_VERDICT);

	x->a = (uint32_t)verdict;
	if (chain)
		strcpy(x->name, chain);
}

void rule_counter(struct rule_text *r)
{
	add(r, NX_COUNTER);
}

void rule_reject(struct rule_text *r, uint32_t type, uint32_t code)
{
	struct nx *x = add(r, NX_REJECT);

	x->a = type;
	x->b = code;
}

void rule_masquerade(struct rule_text *r, uint32_t flags)
{
	add(r, NX_MASQ)->a = flags;
}

void rule_dnat(struct rule_text *r, const struct nft_family *f, uint8_t reg)
{
	struct nx *x = add(r, NX_NAT);

	x->a = NFT_NAT_DNAT;
	x->b = f->nfproto;
	x->sreg = reg;
	x->sreg2 = (uint8_t)(reg + f->words);
	x->c = NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED;
}

void rule_set_mss(struct rule_text *r, uint8_t reg)
{
	struct nx *x = add(r, NX_EXTHDR);

	x->a = 2; /* the option's kind, RFC 9293 3.1: maximum segment size */
	x->b = 2; /* its value's offset and length */
	x->c = 2;
	x->d = NFT_EXTHDR_OP_TCPOPT;
	x->sreg = reg;
}

void rule_meta_set(struct rule_text *r, uint32_t key, uint8_t sreg)
{
	struct nx *x = add(r, NX_META_SET);

	x->a = key;
	x->sreg = sreg;
}

static void rule_tried(struct rule_text *r, uint32_t op, const char *map, uint8_t data)
{
	struct nx *x = add(r, NX_DYNSET);

	x->a = op;
	x->b = 1;
	x->sreg2 = data;
	strcpy(x->name, map);
}

void rule_tried_forget(struct rule_text *r, const char *map, uint8_t data)
{
	rule_tried(r, NFT_DYNSET_OP_DELETE, map, data);
}

void rule_tried_note(struct rule_text *r, const char *map, uint8_t data)
{
	rule_tried(r, NFT_DYNSET_OP_UPDATE, map, data);
}

void rule_object(struct rule_text *r, uint32_t type, const char *name)
{
	struct nx *x = add(r, NX_OBJECT);

	x->a = type;
	strcpy(x->name, name);
}

void rule_limit(struct rule_text *r, uint32_t per_second, uint32_t burst)
{
	struct nx *x = add(r, NX_LIMIT);

	x->a = per_second;
	x->b = burst;
}

void rule_log(struct rule_text *r, uint32_t group, uint32_t bytes)
{
	struct nx *x = add(r, NX_LOG);

	x->a = group;
	x->b = bytes;
}

void rule_notrack(struct rule_text *r)
{
	add(r, NX_NOTRACK);
}

void rule_family(struct rule_text *r, const struct nft_family *f)
{
	rule_meta(r, NFT_META_NFPROTO, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, &f->nfproto, 1);
}

void rule_protocol(struct rule_text *r, uint8_t protocol)
{
	rule_meta(r, NFT_META_L4PROTO, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, &protocol, 1);
}

void rule_interface(struct rule_text *r, uint32_t key, const char *name)
{
	rule_meta(r, key, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, name, NS_IFNAME);
}

void rule_not_interface(struct rule_text *r, uint32_t key, const char *name)
{
	rule_meta(r, key, 0);
	rule_cmp(r, 0, NFT_CMP_NEQ, name, NS_IFNAME);
}

void rule_prefix(struct rule_text *r, const struct nft_family *f, uint8_t offset, const struct ip_prefix *p)
{
	uint8_t mask[16] = {0};

	if (!p->len)
		return;
	rule_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offset, f->size, 0);
	for (unsigned i = 0; i < p->len; i++)
		mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
	if (p->len < f->size * 8)
		rule_mask(r, 0, mask, f->size);
	rule_cmp(r, 0, NFT_CMP_EQ, p->addr.bytes, f->size);
}

void rule_secpath(struct rule_text *r, bool decrypted)
{
	uint8_t value = decrypted;

	rule_meta(r, NFT_META_SECPATH, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, &value, 1);
}

void rule_unencrypted(struct rule_text *r)
{
	struct nx *x = add(r, NX_RT);
	uint8_t none = 0;

	x->a = NFT_RT_XFRM;
	to_register(x, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, &none, 1);
}

static void rule_ct_bit(struct rule_text *r, uint32_t key, uint32_t bit, bool set)
{
	uint32_t zero = 0;

	rule_ct(r, key, 0, 0);
	rule_mask(r, 0, &bit, 4);
	rule_cmp(r, 0, set ? NFT_CMP_NEQ : NFT_CMP_EQ, &zero, 4);
}

void rule_flag(struct rule_text *r, uint8_t reg, uint32_t bit)
{
	uint32_t zero = 0;

	rule_mask(r, reg, &bit, 4);
	rule_cmp(r, reg, NFT_CMP_NEQ, &zero, 4);
}

void rule_tcp_flags(struct rule_text *r, uint8_t mask, uint8_t value, bool equal)
{
	rule_protocol(r, IPPROTO_TCP);
	rule_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1, 0);
	rule_mask(r, 0, &mask, 1);
	rule_cmp(r, 0, equal ? NFT_CMP_EQ : NFT_CMP_NEQ, &value, 1);
}

void rule_tcp_sequence_zero(struct rule_text *r)
{
	uint32_t zero = 0;

	rule_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 4, 4, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, &zero, 4);
}

void rule_ct_direction(struct rule_text *r, uint8_t direction)
{
	rule_ct(r, NFT_CT_DIRECTION, 0, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, &direction, 1);
}

void rule_ct_related(struct rule_text *r)
{
	rule_ct_bit(r, NFT_CT_STATE, 1u << (IP_CT_RELATED + 1), true);
}

void rule_client_key(struct rule_text *r, const struct nft_family *f)
{
	uint8_t second = (uint8_t)(f->words + 1);

	rule_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->saddr, f->size, 0);
	rule_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2, f->words);
	rule_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->daddr, f->size, second);
	rule_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, (uint8_t)(second + f->words));
}

void rule_ct_new(struct rule_text *r)
{
	rule_ct_bit(r, NFT_CT_STATE, 1u << (IP_CT_NEW + 1), true);
}

void rule_ct_not_new(struct rule_text *r)
{
	rule_ct_bit(r, NFT_CT_STATE, 1u << (IP_CT_NEW + 1), false);
}

void rule_ct_known(struct rule_text *r)
{
	rule_ct_bit(r, NFT_CT_STATE, 1u << (IP_CT_ESTABLISHED + 1) | 1u << (IP_CT_RELATED + 1), true);
}

void rule_ct_stray(struct rule_text *r)
{
	rule_ct_bit(r, NFT_CT_STATE, NF_CT_STATE_INVALID_BIT | NF_CT_STATE_UNTRACKED_BIT, true);
}

void rule_ct_status(struct rule_text *r, uint32_t bit, bool set)
{
	rule_ct_bit(r, NFT_CT_STATUS, bit, set);
}

void rule_syn(struct rule_text *r)
{
	rule_tcp_flags(r, NFT_TCP_SYN | NFT_TCP_RST, NFT_TCP_SYN, true);
}

void rule_port_key(struct rule_text *r, const struct nft_family *f)
{
	rule_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->daddr, f->size, 0);
	rule_meta(r, NFT_META_L4PROTO, f->words);
	rule_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, (uint8_t)(f->words + 1));
}

void rule_original_port_key(struct rule_text *r, const struct nft_family *f)
{
	rule_ct(r, f->number == IP_V4 ? NFT_CT_DST_IP : NFT_CT_DST_IP6, IP_CT_DIR_ORIGINAL + 1, 0);
	/* The flow's protocol: the packet's own may be that of an ICMP error about it. */
	rule_ct(r, NFT_CT_PROTOCOL, 0, f->words);
	rule_ct(r, NFT_CT_PROTO_DST, IP_CT_DIR_ORIGINAL + 1, (uint8_t)(f->words + 1));
}

void rule_original_client_key(struct rule_text *r, const struct nft_family *f)
{
	bool v4 = f->number == IP_V4;
	uint8_t second = (uint8_t)(f->words + 1);

	rule_ct(r, v4 ? NFT_CT_SRC_IP : NFT_CT_SRC_IP6, IP_CT_DIR_ORIGINAL + 1, 0);
	rule_ct(r, NFT_CT_PROTO_SRC, IP_CT_DIR_ORIGINAL + 1, f->words);
	rule_ct(r, v4 ? NFT_CT_DST_IP : NFT_CT_DST_IP6, IP_CT_DIR_ORIGINAL + 1, second);
	rule_ct(r, NFT_CT_PROTO_DST, IP_CT_DIR_ORIGINAL + 1, (uint8_t)(second + f->words));
}

void rule_port_match(struct rule_text *r, const struct nft_family *f, const struct ns_port *p)
{
	uint16_t port = htons(p->at.port);

	rule_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->daddr, f->size, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, p->at.addr.bytes, f->size);
	rule_meta(r, NFT_META_L4PROTO, f->words);
	rule_cmp(r, f->words, NFT_CMP_EQ, &p->protocol, 1);
	rule_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, (uint8_t)(f->words + 1));
	rule_cmp(r, (uint8_t)(f->words + 1), NFT_CMP_EQ, &port, 2);
}

uint16_t nft_mss(uint32_t mtu, unsigned family)
{
	uint32_t headers = family ? 60 : 40;
	uint32_t mss = mtu > headers ? mtu - headers : 1;

	return (uint16_t)(mss > 65535 ? 65535 : mss);
}
