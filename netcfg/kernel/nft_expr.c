/* SPDX-License-Identifier: Apache-2.0 */
/* Our expressions to libnftnl's and back, by one table for both ways. */
#include <errno.h>
#include <stdio.h>
#include <libnftnl/expr.h>
#include <linux/netfilter/nf_tables.h>
#include <stddef.h>
#include <string.h>

#include "netcfg/kernel/nft_internal.h"

enum field_kind {
	FIELD_U32,
	FIELD_U16,	 /* the same with 16 bits */
	FIELD_U64,	 /* and 64 */
	FIELD_U8,	 /* 8 bits in the kernel's attribute, 32 in ours */
	FIELD_REGISTER,	 /* our 8-bit index */
	FIELD_DREG,	 /* the same, and has_dreg */
	FIELD_DIRECTION, /* plus one, 0 means absent */
	FIELD_DATA,
	FIELD_ZERO, /* as many zero bytes as `data` has; not read back */
	FIELD_NAME,
	FIELD_SECOND,	     /* the unit of a rate: always one second */
	FIELD_DATA_REGISTER, /* only when there is data (member b) */
};

struct field {
	uint16_t attr;
	uint8_t kind;
	uint8_t offset;
};

#define F(attr_, kind_, member_)                                                                             \
	{                                                                                                    \
		attr_, kind_, offsetof(struct nx, member_)                                                   \
	}

static const struct shape {
	const char *name;
	struct field fields[7];
} shapes[] = {
	[NX_FOREIGN] = {NULL, {{0}}},
	[NX_META] = {"meta",
		     {F(NFTNL_EXPR_META_KEY, FIELD_U32, a), F(NFTNL_EXPR_META_DREG, FIELD_DREG, dreg)}},
	/* A meta with a source register: told apart in nx_decode(). */
	[NX_META_SET] = {"meta",
			 {F(NFTNL_EXPR_META_KEY, FIELD_U32, a),
			  F(NFTNL_EXPR_META_SREG, FIELD_REGISTER, sreg)}},
	[NX_PAYLOAD] = {"payload",
			{F(NFTNL_EXPR_PAYLOAD_BASE, FIELD_U32, a), F(NFTNL_EXPR_PAYLOAD_OFFSET, FIELD_U32, b),
			 F(NFTNL_EXPR_PAYLOAD_LEN, FIELD_U32, c),
			 F(NFTNL_EXPR_PAYLOAD_DREG, FIELD_DREG, dreg)}},
	[NX_CT] = {"ct",
		   {F(NFTNL_EXPR_CT_KEY, FIELD_U32, a), F(NFTNL_EXPR_CT_DIR, FIELD_DIRECTION, b),
		    F(NFTNL_EXPR_CT_DREG, FIELD_DREG, dreg)}},
	[NX_CMP] = {"cmp",
		    {F(NFTNL_EXPR_CMP_OP, FIELD_U32, a), F(NFTNL_EXPR_CMP_SREG, FIELD_REGISTER, sreg),
		     F(NFTNL_EXPR_CMP_DATA, FIELD_DATA, data)}},
	[NX_BITWISE] = {"bitwise",
			{F(NFTNL_EXPR_BITWISE_LEN, FIELD_U32, a),
			 F(NFTNL_EXPR_BITWISE_SREG, FIELD_REGISTER, sreg),
			 F(NFTNL_EXPR_BITWISE_DREG, FIELD_DREG, dreg),
			 F(NFTNL_EXPR_BITWISE_MASK, FIELD_DATA, data),
			 F(NFTNL_EXPR_BITWISE_XOR, FIELD_ZERO, data2)}},
	[NX_LOOKUP] = {"lookup",
		       {F(NFTNL_EXPR_LOOKUP_SET, FIELD_NAME, name),
			F(NFTNL_EXPR_LOOKUP_SREG, FIELD_REGISTER, sreg),
			F(NFTNL_EXPR_LOOKUP_DREG, FIELD_DREG, dreg),
			F(NFTNL_EXPR_LOOKUP_FLAGS, FIELD_U32, a)}},
	[NX_NUMGEN] = {"numgen",
		       {F(NFTNL_EXPR_NG_TYPE, FIELD_U32, a), F(NFTNL_EXPR_NG_MODULUS, FIELD_U32, b),
			F(NFTNL_EXPR_NG_OFFSET, FIELD_U32, c), F(NFTNL_EXPR_NG_DREG, FIELD_DREG, dreg)}},
	[NX_HASH] = {"hash",
		     {F(NFTNL_EXPR_HASH_SREG, FIELD_REGISTER, sreg), F(NFTNL_EXPR_HASH_LEN, FIELD_U32, a),
		      F(NFTNL_EXPR_HASH_MODULUS, FIELD_U32, b), F(NFTNL_EXPR_HASH_SEED, FIELD_U32, c),
		      F(NFTNL_EXPR_HASH_OFFSET, FIELD_U32, d), F(NFTNL_EXPR_HASH_DREG, FIELD_DREG, dreg)}},
	[NX_VALUE] = {"immediate",
		      {F(NFTNL_EXPR_IMM_DREG, FIELD_DREG, dreg), F(NFTNL_EXPR_IMM_DATA, FIELD_DATA, data)}},
	/* Verdicts are immediates too: told apart in nx_decode(). */
	[NX_VERDICT] = {NULL, {{0}}},
	[NX_COUNTER] = {"counter", {{0}}},
	[NX_NAT] = {"nat",
		    {F(NFTNL_EXPR_NAT_TYPE, FIELD_U32, a), F(NFTNL_EXPR_NAT_FAMILY, FIELD_U32, b),
		     F(NFTNL_EXPR_NAT_REG_ADDR_MIN, FIELD_REGISTER, sreg),
		     F(NFTNL_EXPR_NAT_REG_PROTO_MIN, FIELD_REGISTER, sreg2),
		     F(NFTNL_EXPR_NAT_FLAGS, FIELD_U32, c)}},
	[NX_MASQ] = {"masq", {F(NFTNL_EXPR_MASQ_FLAGS, FIELD_U32, a)}},
	[NX_REJECT] = {"reject",
		       {F(NFTNL_EXPR_REJECT_TYPE, FIELD_U32, a), F(NFTNL_EXPR_REJECT_CODE, FIELD_U8, b)}},
	[NX_DYNSET] = {"dynset",
		       {F(NFTNL_EXPR_DYNSET_OP, FIELD_U32, a),
			F(NFTNL_EXPR_DYNSET_SET_NAME, FIELD_NAME, name),
			F(NFTNL_EXPR_DYNSET_SREG_KEY, FIELD_REGISTER, sreg),
			F(NFTNL_EXPR_DYNSET_SREG_DATA, FIELD_DATA_REGISTER, sreg2)}},
	[NX_OBJECT] = {"objref",
		       {F(NFTNL_EXPR_OBJREF_IMM_TYPE, FIELD_U32, a),
			F(NFTNL_EXPR_OBJREF_IMM_NAME, FIELD_NAME, name)}},
	[NX_LIMIT] = {"limit",
		      {F(NFTNL_EXPR_LIMIT_RATE, FIELD_U64, a), F(NFTNL_EXPR_LIMIT_BURST, FIELD_U32, b),
		       F(NFTNL_EXPR_LIMIT_UNIT, FIELD_SECOND, data2)}},
	[NX_LOG] = {"log", {F(NFTNL_EXPR_LOG_GROUP, FIELD_U16, a), F(NFTNL_EXPR_LOG_SNAPLEN, FIELD_U32, b)}},
	[NX_RT] = {"rt", {F(NFTNL_EXPR_RT_KEY, FIELD_U32, a), F(NFTNL_EXPR_RT_DREG, FIELD_DREG, dreg)}},
	[NX_NOTRACK] = {"notrack", {{0}}},
	[NX_EXTHDR] = {"exthdr",
		       {F(NFTNL_EXPR_EXTHDR_TYPE, FIELD_U8, a), F(NFTNL_EXPR_EXTHDR_OFFSET, FIELD_U32, b),
			F(NFTNL_EXPR_EXTHDR_LEN, FIELD_U32, c), F(NFTNL_EXPR_EXTHDR_OP, FIELD_U32, d),
			F(NFTNL_EXPR_EXTHDR_SREG, FIELD_REGISTER, sreg)}},
};

/* The kernel names an aligned 32-bit register by the 128-bit one it begins (nft_dump_register). */
static uint32_t register_number(uint8_t index)
{
	return index % 4 ? (uint32_t)NFT_REG32_00 + index : (uint32_t)NFT_REG_1 + index / 4u;
}

static uint8_t register_index(uint32_t number)
{
	if (number >= NFT_REG_1 && number <= NFT_REG_4)
		return (uint8_t)((number - NFT_REG_1) * 4);
	return (uint8_t)(number - NFT_REG32_00);
}

static void field_encode(const struct nx *x, const struct field *f, struct nftnl_expr *e)
{
	static const uint8_t zeroes[NFT_DATA];
	const uint8_t *at = (const uint8_t *)x + f->offset;
	uint32_t v = 0;

	switch ((enum field_kind)f->kind) {
	case FIELD_U32:
		memcpy(&v, at, 4);
		nftnl_expr_set_u32(e, f->attr, v);
		break;
	case FIELD_U8:
		memcpy(&v, at, 4);
		nftnl_expr_set_u8(e, f->attr, (uint8_t)v);
		break;
	case FIELD_U16:
		memcpy(&v, at, 4);
		nftnl_expr_set_u16(e, f->attr, (uint16_t)v);
		break;
	case FIELD_U64:
		memcpy(&v, at, 4);
		nftnl_expr_set_u64(e, f->attr, v);
		break;
	case FIELD_DATA_REGISTER:
		if (x->b)
			nftnl_expr_set_u32(e, f->attr, register_number(*at));
		break;
	case FIELD_REGISTER:
		nftnl_expr_set_u32(e, f->attr, register_number(*at));
		break;
	case FIELD_DREG:
		if (x->has_dreg)
			nftnl_expr_set_u32(e, f->attr, register_number(*at));
		break;
	case FIELD_DIRECTION:
		memcpy(&v, at, 4);
		if (v)
			nftnl_expr_set_u8(e, f->attr, (uint8_t)(v - 1));
		break;
	case FIELD_DATA:
		nftnl_expr_set(e, f->attr, at, x->data_len);
		break;
	case FIELD_ZERO:
		nftnl_expr_set(e, f->attr, zeroes, x->data_len);
		break;
	case FIELD_SECOND:
		nftnl_expr_set_u64(e, f->attr, 1);
		break;
	case FIELD_NAME:
		nftnl_expr_set_str(e, f->attr, (const char *)at);
		break;
	}
}

/* False when the value has no place in ours. */
static bool field_decode(struct nftnl_expr *e, const struct field *f, struct nx *x)
{
	uint8_t *at = (uint8_t *)x + f->offset;
	const void *data;
	uint32_t v, len;

	if (!nftnl_expr_is_set(e, f->attr))
		return true;
	switch ((enum field_kind)f->kind) {
	case FIELD_U32:
		v = nftnl_expr_get_u32(e, f->attr);
		memcpy(at, &v, 4);
		return true;
	case FIELD_U8:
		v = nftnl_expr_get_u8(e, f->attr);
		memcpy(at, &v, 4);
		return true;
	case FIELD_U16:
		v = nftnl_expr_get_u16(e, f->attr);
		memcpy(at, &v, 4);
		return true;
	case FIELD_U64:
		v = (uint32_t)nftnl_expr_get_u64(e, f->attr);
		memcpy(at, &v, 4);
		return true;
	case FIELD_DATA_REGISTER:
		x->b = 1;
		*at = register_index(nftnl_expr_get_u32(e, f->attr));
		return true;
	case FIELD_DREG:
		x->has_dreg = 1;
		*at = register_index(nftnl_expr_get_u32(e, f->attr));
		return true;
	case FIELD_REGISTER:
		*at = register_index(nftnl_expr_get_u32(e, f->attr));
		return true;
	case FIELD_DIRECTION:
		v = nftnl_expr_get_u8(e, f->attr) + 1u;
		memcpy(at, &v, 4);
		return true;
	case FIELD_DATA:
		data = nftnl_expr_get(e, f->attr, &len);
		if (!data || len > NFT_DATA)
			return false;
		memcpy(at, data, len);
		x->data_len = (uint8_t)len;
		return true;
	case FIELD_ZERO:
		data = nftnl_expr_get(e, f->attr, &len);
		for (v = 0; data && v < len; v++)
			if (((const uint8_t *)data)[v])
				return false;
		return true;
	case FIELD_SECOND:
		return nftnl_expr_get_u64(e, f->attr) == 1;
	case FIELD_NAME:
		data = nftnl_expr_get_str(e, f->attr);
		if (!data || strlen(data) >= NFT_NAME)
			return false;
		strcpy((char *)at, data);
		return true;
	}
	return false;
}

static struct nftnl_expr *verdict_encode(const struct nx *x)
{
	struct nftnl_expr *e = nftnl_expr_alloc("immediate");

	if (!e)
		return NULL;
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_VERDICT, x->a);
	if (x->name[0])
		nftnl_expr_set_str(e, NFTNL_EXPR_IMM_CHAIN, x->name);
	return e;
}

static struct nftnl_expr *nx_encode(const struct nx *x)
{
	const struct shape *s = &shapes[x->kind];
	struct nftnl_expr *e;

	if (x->kind == NX_VERDICT)
		return verdict_encode(x);
	e = nftnl_expr_alloc(s->name);
	for (const struct field *f = s->fields; e && f->attr; f++)
		field_encode(x, f, e);
	return e;
}

static bool verdict_decode(struct nftnl_expr *e, struct nx *x)
{
	const char *chain;

	x->kind = NX_VERDICT;
	x->a = nftnl_expr_get_u32(e, NFTNL_EXPR_IMM_VERDICT);
	if (!nftnl_expr_is_set(e, NFTNL_EXPR_IMM_CHAIN))
		return true;
	chain = nftnl_expr_get_str(e, NFTNL_EXPR_IMM_CHAIN);
	if (!chain || strlen(chain) >= NFT_NAME)
		return false;
	strcpy(x->name, chain);
	return true;
}

static void nx_decode(struct nftnl_expr *e, struct nx *x)
{
	const char *name = nftnl_expr_get_str(e, NFTNL_EXPR_NAME);
	bool good = false;

	memset(x, 0, sizeof(*x));
	if (!strcmp(name, "immediate") && nftnl_expr_is_set(e, NFTNL_EXPR_IMM_VERDICT)) {
		good = verdict_decode(e, x);
	} else {
		for (unsigned k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
			if (!shapes[k].name || strcmp(shapes[k].name, name) ||
			    (k == NX_META && nftnl_expr_is_set(e, NFTNL_EXPR_META_SREG)))
				continue;
			x->kind = (uint8_t)k;
			good = true;
			for (const struct field *f = shapes[k].fields; good && f->attr; f++)
				good = field_decode(e, f, x);
			break;
		}
	}
	if (!good) {
		memset(x, 0, sizeof(*x));
		x->kind = NX_FOREIGN;
	}
}

int nft_rule_encode(const struct nft_rule *r, struct nftnl_rule *out)
{
	for (size_t i = 0; i < r->n; i++) {
		struct nftnl_expr *e = nx_encode(&r->x[i]);

		if (!e)
			return -ENOMEM;
		nftnl_rule_add_expr(out, e);
	}
	return 0;
}

int nft_rule_decode(struct nftnl_rule *r, struct arena *arena, struct nft_rule *out)
{
	struct nftnl_expr_iter *it = nftnl_expr_iter_create(r);
	struct nftnl_expr *e;
	struct nx *x;
	size_t n = 0;

	if (!it)
		return -ENOMEM;
	while (nftnl_expr_iter_next(it))
		n++;
	nftnl_expr_iter_destroy(it);
	memset(out, 0, sizeof(*out));
	x = arena_calloc(arena, n, sizeof(*x));
	it = x ? nftnl_expr_iter_create(r) : NULL;
	if (!it)
		return -ENOMEM;
	for (size_t i = 0; i < n && (e = nftnl_expr_iter_next(it)); i++) {
		nx_decode(e, &x[i]);
		if (x[i].kind == NX_COUNTER) {
			out->packets += nftnl_expr_get_u64(e, NFTNL_EXPR_CTR_PACKETS);
			out->bytes += nftnl_expr_get_u64(e, NFTNL_EXPR_CTR_BYTES);
		}
	}
	nftnl_expr_iter_destroy(it);
	out->x = x;
	out->n = n;
	out->handle = nftnl_rule_get_u64(r, NFTNL_RULE_HANDLE);
	return 0;
}
