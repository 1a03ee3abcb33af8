/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "netcfg/model/nft_table.h"

static void print_bytes(struct buf *out, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf_printf(out, "%02x", data[i]);
}

static void print_verdict(struct buf *out, const struct nx *x)
{
	switch ((int32_t)x->a) {
	case NF_ACCEPT:
		buf_puts(out, "accept");
		break;
	case NF_DROP:
		buf_puts(out, "drop");
		break;
	case NFT_JUMP:
		buf_printf(out, "jump %s", x->name);
		break;
	case NFT_GOTO:
		buf_printf(out, "goto %s", x->name);
		break;
	default:
		buf_printf(out, "verdict %d %s", (int32_t)x->a, x->name);
	}
}

static void print_nx(struct buf *out, const struct nx *x)
{
	switch ((enum nx_kind)x->kind) {
	case NX_FOREIGN:
		buf_puts(out, "foreign");
		break;
	case NX_META:
		buf_printf(out, "meta %u>r%u", x->a, x->dreg);
		break;
	case NX_META_SET:
		buf_printf(out, "r%u>meta %u", x->sreg, x->a);
		break;
	case NX_PAYLOAD:
		buf_printf(out, "payload %u+%u/%u>r%u", x->a, x->b, x->c, x->dreg);
		break;
	case NX_CT:
		buf_printf(out, "ct %u dir %d>r%u", x->a, (int)x->b - 1, x->dreg);
		break;
	case NX_CMP:
		buf_printf(out, "r%u %s ", x->sreg, x->a == NFT_CMP_EQ ? "==" : "!=");
		print_bytes(out, x->data, x->data_len);
		break;
	case NX_BITWISE:
		buf_printf(out, "r%u&", x->sreg);
		print_bytes(out, x->data, x->data_len);
		break;
	case NX_LOOKUP:
		buf_printf(out, "r%u@%s", x->sreg, x->name);
		if (x->has_dreg)
			buf_printf(out, ">r%u", x->dreg);
		break;
	case NX_NUMGEN:
		buf_printf(out, "%s mod %u>r%u", x->a == NFT_NG_RANDOM ? "random" : "inc", x->b, x->dreg);
		break;
	case NX_HASH:
		buf_printf(out, "hash r%u/%u mod %u>r%u", x->sreg, x->a, x->b, x->dreg);
		break;
	case NX_VALUE:
		print_bytes(out, x->data, x->data_len);
		buf_printf(out, ">r%u", x->dreg);
		break;
	case NX_VERDICT:
		print_verdict(out, x);
		break;
	case NX_COUNTER:
		buf_puts(out, "counter");
		break;
	case NX_NAT:
		buf_printf(out, "dnat r%u:r%u", x->sreg, x->sreg2);
		break;
	case NX_MASQ:
		buf_printf(out, "masquerade %u", x->a);
		break;
	case NX_REJECT:
		buf_puts(out, x->a == NFT_REJECT_TCP_RST ? "reject reset" : "reject unreachable");
		break;
	case NX_DYNSET:
		buf_printf(out, "%s r%u@%s", x->a == NFT_DYNSET_OP_DELETE ? "forget" : "note", x->sreg,
			   x->name);
		if (x->b)
			buf_printf(out, ":r%u", x->sreg2);
		break;
	case NX_OBJECT:
		buf_printf(out, "object %u %s", x->a, x->name);
		break;
	case NX_LIMIT:
		buf_printf(out, "limit %u/s burst %u", x->a, x->b);
		break;
	case NX_LOG:
		buf_printf(out, "log group %u bytes %u", x->a, x->b);
		break;
	case NX_RT:
		buf_printf(out, "rt %u>r%u", x->a, x->dreg);
		break;
	case NX_NOTRACK:
		buf_puts(out, "notrack");
		break;
	case NX_EXTHDR:
		buf_printf(out, "tcp option %u+%u/%u=r%u", x->a, x->b, x->c, x->sreg);
		break;
	}
}

static void print_set(struct buf *out, const struct nft_set *s)
{
	size_t size = nft_set_record(s);

	buf_printf(out, "%s %s\n", s->data_len ? "map" : "set", s->name);
	for (size_t i = 0; i < s->n; i++) {
		buf_puts(out, "  ");
		print_bytes(out, s->elems + i * size, s->key_len);
		if (s->data_len) {
			buf_puts(out, " : ");
			print_bytes(out, s->elems + i * size + s->key_len, s->data_len);
		}
		buf_puts(out, "\n");
	}
}

void nft_table_print(const struct nft_table *t, struct buf *out)
{
	if (!t->present)
		return;
	buf_printf(out, "table inet %s%s\n", NFT_TABLE_NAME, t->owned ? " owner persist" : "");
	if (t->retry_object)
		buf_puts(out, "ct timeout " NFT_RETRY_OBJECT "\n");
	for (size_t i = 0; i < t->n_sets; i++)
		print_set(out, &t->sets[i]);
	for (size_t i = 0; i < t->n_chains; i++) {
		const struct nft_chain *c = &t->chains[i];

		buf_printf(out, "chain %s", c->name);
		if (c->type[0])
			buf_printf(out, " %s hook %u priority %d", c->type, c->hook, c->priority);
		buf_puts(out, "\n");
		for (size_t j = 0; j < c->n_rules; j++) {
			buf_puts(out, " ");
			for (size_t k = 0; k < c->rules[j].n; k++) {
				buf_puts(out, " [");
				print_nx(out, &c->rules[j].x[k]);
				buf_puts(out, "]");
			}
			buf_puts(out, "\n");
		}
	}
}
