/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the difference of two tables as one transaction. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <libnftnl/chain.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink_cttimeout.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/kernel/nft_internal.h"

/* An attribute's length has 16 bits: a list of elements is split well below that. */
enum { ELEMENTS_BYTES = 60000 };

static int put_table(struct nft_batch *b, uint16_t type, uint32_t flags)
{
	struct nftnl_table *t = nftnl_table_alloc();
	struct nlmsghdr *nlh;

	if (!t)
		return -ENOMEM;
	nftnl_table_set_str(t, NFTNL_TABLE_NAME, NFT_TABLE_NAME);
	if (type == NFT_MSG_NEWTABLE)
		nftnl_table_set_u32(t, NFTNL_TABLE_FLAGS, flags);
	nlh = nft_batch_message(b, type, type == NFT_MSG_NEWTABLE ? NLM_F_CREATE : 0,
				"table inet " NFT_TABLE_NAME);
	nftnl_table_nlmsg_build_payload(nlh, t);
	nft_batch_push(b, nlh);
	nftnl_table_free(t);
	return 0;
}

static int put_chain(struct nft_batch *b, uint16_t type, const struct nft_chain *c)
{
	struct nftnl_chain *n = nftnl_chain_alloc();
	struct nlmsghdr *nlh;
	char place[NFT_PLACE];

	if (!n)
		return -ENOMEM;
	snprintf(place, sizeof(place), "chain %s", c->name);
	nftnl_chain_set_str(n, NFTNL_CHAIN_TABLE, NFT_TABLE_NAME);
	nftnl_chain_set_str(n, NFTNL_CHAIN_NAME, c->name);
	if (type == NFT_MSG_NEWCHAIN && c->type[0]) {
		nftnl_chain_set_str(n, NFTNL_CHAIN_TYPE, c->type);
		nftnl_chain_set_u32(n, NFTNL_CHAIN_HOOKNUM, c->hook);
		nftnl_chain_set_s32(n, NFTNL_CHAIN_PRIO, c->priority);
		nftnl_chain_set_u32(n, NFTNL_CHAIN_POLICY, NF_ACCEPT);
	}
	nlh = nft_batch_message(b, type, type == NFT_MSG_NEWCHAIN ? NLM_F_CREATE : 0, place);
	nftnl_chain_nlmsg_build_payload(nlh, n);
	nft_batch_push(b, nlh);
	nftnl_chain_free(n);
	return 0;
}

static int put_set(struct nft_batch *b, const struct nft_set *s, uint32_t id)
{
	struct nftnl_set *n = nftnl_set_alloc();
	struct nlmsghdr *nlh;
	char place[NFT_PLACE];

	/* nft(8)'s notes on a set, type, length, value: without the byte order it cannot list interface
	 * names. */
	static const uint8_t host_order[] = {NFTNL_UDATA_SET_KEYBYTEORDER, 4, 1, 0, 0, 0};

	if (!n)
		return -ENOMEM;
	snprintf(place, sizeof(place), "set %s", s->name);
	if (s->key_type == NFT_TYPE_IFNAME)
		nftnl_set_set_data(n, NFTNL_SET_USERDATA, host_order, sizeof(host_order));
	nftnl_set_set_str(n, NFTNL_SET_TABLE, NFT_TABLE_NAME);
	nftnl_set_set_str(n, NFTNL_SET_NAME, s->name);
	nftnl_set_set_u32(n, NFTNL_SET_ID, id);
	nftnl_set_set_u32(n, NFTNL_SET_FLAGS, s->flags);
	nftnl_set_set_u32(n, NFTNL_SET_KEY_TYPE, s->key_type);
	nftnl_set_set_u32(n, NFTNL_SET_KEY_LEN, s->key_len);
	if (s->data_len) {
		nftnl_set_set_u32(n, NFTNL_SET_DATA_TYPE, s->data_type);
		nftnl_set_set_u32(n, NFTNL_SET_DATA_LEN, s->data_len);
	}
	if (s->size)
		nftnl_set_set_u32(n, NFTNL_SET_DESC_SIZE, s->size);
	if (s->timeout_ms)
		nftnl_set_set_u64(n, NFTNL_SET_TIMEOUT, s->timeout_ms);
	nlh = nft_batch_message(b, NFT_MSG_NEWSET, NLM_F_CREATE, place);
	nftnl_set_nlmsg_build_payload(nlh, n);
	nft_batch_push(b, nlh);
	nftnl_set_free(n);
	return 0;
}

/* linux/netfilter/nfnetlink_cttimeout.h: what is not given is copied from the sysctls as they are now. */
void nft_put_retry_object(struct nft_batch *b, const char *table, const uint32_t timeouts[NFT_TCP_TIMEOUTS])
{
	struct nlmsghdr *nlh =
		nft_batch_message(b, NFT_MSG_NEWOBJ, NLM_F_CREATE, "ct timeout " NFT_RETRY_OBJECT);
	struct nlattr *data, *policy;

	mnl_attr_put_strz(nlh, NFTA_OBJ_TABLE, table);
	mnl_attr_put_strz(nlh, NFTA_OBJ_NAME, NFT_RETRY_OBJECT);
	mnl_attr_put_u32(nlh, NFTA_OBJ_TYPE, htonl(NFT_OBJECT_CT_TIMEOUT));
	data = mnl_attr_nest_start(nlh, NFTA_OBJ_DATA);
	mnl_attr_put_u16(nlh, NFTA_CT_TIMEOUT_L3PROTO, htons(NFPROTO_INET));
	mnl_attr_put_u8(nlh, NFTA_CT_TIMEOUT_L4PROTO, IPPROTO_TCP);
	policy = mnl_attr_nest_start(nlh, NFTA_CT_TIMEOUT_DATA);
	for (int i = 0; i < NFT_TCP_TIMEOUTS; i++)
		if (timeouts[i])
			mnl_attr_put_u32(nlh, (uint16_t)(i + 1), htonl(timeouts[i]));
	mnl_attr_nest_end(nlh, policy);
	mnl_attr_nest_end(nlh, data);
	nft_batch_push(b, nlh);
}

struct element_writer {
	struct nft_batch *b;
	const struct nft_set *set;
	bool deleting; /* which of the two passes this is */
	struct nlmsghdr *nlh;
	struct nlattr *list;
};

static void elements_flush(struct element_writer *w)
{
	if (!w->nlh)
		return;
	mnl_attr_nest_end(w->nlh, w->list);
	nft_batch_push(w->b, w->nlh);
	w->nlh = NULL;
}

static void put_data(struct nlmsghdr *nlh, uint16_t type, const void *data, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, type);

	mnl_attr_put(nlh, NFTA_DATA_VALUE, len, data);
	mnl_attr_nest_end(nlh, nest);
}

static void put_element(void *ctx, bool del, const uint8_t *record)
{
	struct element_writer *w = ctx;
	struct nlattr *elem;
	char place[NFT_PLACE];

	if (del != w->deleting)
		return;
	if (w->nlh && (char *)mnl_nlmsg_get_payload_tail(w->nlh) - (char *)w->list > ELEMENTS_BYTES)
		elements_flush(w);
	if (!w->nlh) {
		snprintf(place, sizeof(place), "set %s", w->set->name);
		w->nlh = nft_batch_message(w->b, del ? NFT_MSG_DELSETELEM : NFT_MSG_NEWSETELEM,
					   del ? 0 : NLM_F_CREATE, place);
		mnl_attr_put_strz(w->nlh, NFTA_SET_ELEM_LIST_TABLE, NFT_TABLE_NAME);
		mnl_attr_put_strz(w->nlh, NFTA_SET_ELEM_LIST_SET, w->set->name);
		w->list = mnl_attr_nest_start(w->nlh, NFTA_SET_ELEM_LIST_ELEMENTS);
	}
	elem = mnl_attr_nest_start(w->nlh, NFTA_LIST_ELEM);
	put_data(w->nlh, NFTA_SET_ELEM_KEY, record, w->set->key_len);
	if (w->set->data_len && !del)
		put_data(w->nlh, NFTA_SET_ELEM_DATA, record + w->set->key_len, w->set->data_len);
	mnl_attr_nest_end(w->nlh, elem);
}

static void put_elements(struct nft_batch *b, const struct nft_set *old, const struct nft_set *new)
{
	for (int deleting = 1; deleting >= 0; deleting--) {
		struct element_writer w = {.b = b, .set = new, .deleting = deleting};

		nft_set_diff(old, new, put_element, &w);
		elements_flush(&w);
	}
}

/* BEFORE 0: at the end of the chain. */
static int put_rule(struct nft_batch *b, const struct nft_chain *c, const struct nft_rule *rule,
		    uint64_t before)
{
	struct nftnl_rule *r = nftnl_rule_alloc();
	struct nlmsghdr *nlh;
	char place[NFT_PLACE];
	int rc;

	if (!r)
		return -ENOMEM;
	snprintf(place, sizeof(place), "a rule of chain %s", c->name);
	nftnl_rule_set_str(r, NFTNL_RULE_TABLE, NFT_TABLE_NAME);
	nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, c->name);
	if (before)
		nftnl_rule_set_u64(r, NFTNL_RULE_POSITION, before);
	rc = nft_rule_encode(rule, r);
	if (!rc) {
		nlh = nft_batch_message(b, NFT_MSG_NEWRULE, NLM_F_CREATE | (before ? 0 : NLM_F_APPEND),
					place);
		nftnl_rule_nlmsg_build_payload(nlh, r);
		nft_batch_push(b, nlh);
	}
	nftnl_rule_free(r);
	return rc;
}

/* HANDLE 0: all rules of the chain. */
static int del_rule(struct nft_batch *b, const struct nft_chain *c, uint64_t handle)
{
	struct nftnl_rule *r = nftnl_rule_alloc();
	struct nlmsghdr *nlh;
	char place[NFT_PLACE];

	if (!r)
		return -ENOMEM;
	snprintf(place, sizeof(place), "a rule of chain %s", c->name);
	nftnl_rule_set_str(r, NFTNL_RULE_TABLE, NFT_TABLE_NAME);
	nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, c->name);
	if (handle)
		nftnl_rule_set_u64(r, NFTNL_RULE_HANDLE, handle);
	nlh = nft_batch_message(b, NFT_MSG_DELRULE, 0, place);
	nftnl_rule_nlmsg_build_payload(nlh, r);
	nft_batch_push(b, nlh);
	nftnl_rule_free(r);
	return 0;
}

/* NEW NULL: all of them. */
static int delete_rules(struct nft_batch *b, const struct nft_chain *old, const struct nft_chain *new,
			const size_t *match)
{
	size_t j = 0;
	int rc = 0;

	if (!new)
		return old->n_rules ? del_rule(b, old, 0) : 0;
	for (size_t i = 0; i < old->n_rules && !rc; i++) {
		while (j < new->n_rules && match[j] == NFT_NO_MATCH)
			j++;
		if (j < new->n_rules && match[j] == i)
			j++;
		else
			rc = del_rule(b, old, old->rules[i].handle);
	}
	return rc;
}

/* Each new rule goes before the next that stays. OLD NULL: all are new. */
static int add_rules(struct nft_batch *b, const struct nft_chain *old, const struct nft_chain *new,
		     const size_t *match)
{
	int rc = 0;

	for (size_t j = 0; j < new->n_rules && !rc; j++) {
		uint64_t before = 0;

		if (old && match[j] != NFT_NO_MATCH)
			continue;
		for (size_t k = j + 1; old && k < new->n_rules && !before; k++)
			if (match[k] != NFT_NO_MATCH)
				before = old->rules[match[k]].handle;
		rc = put_rule(b, new, &new->rules[j], before);
	}
	return rc;
}

/* FN for one chain, with what stays of it. */
static int with_match(struct nft_batch *b, const struct nft_chain *old, const struct nft_chain *new,
		      int (*fn)(struct nft_batch *, const struct nft_chain *, const struct nft_chain *,
				const size_t *))
{
	size_t *match = NULL;
	int rc = 0;

	if (old && new) {
		match = calloc(new->n_rules + 1, sizeof(*match));
		rc = match ? nft_chain_match(old, new, match) : -ENOMEM;
	}
	if (!rc)
		rc = fn(b, old, new, match);
	free(match);
	return rc;
}

/* Hook, type, priority and policy cannot be changed, nor a set's shape, nor flags be given to a table
 * without. */
static bool must_replace(const struct nft_table *old, const struct nft_table *new)
{
	if (old->owned != new->owned && !(new->owned && old->persist))
		return true;
	if (!new->owned && old->persist)
		return true;
	/* An object in use cannot be changed either. */
	if (old->retry_object && !nft_table_retry_equal(new, old))
		return true;
	for (size_t i = 0; i < old->n_sets; i++)
		if (old->sets[i].foreign)
			return true;
	for (size_t i = 0; i < old->n_chains; i++) {
		const struct nft_chain *o = &old->chains[i], *n = nft_table_chain(new, o->name);

		if (o->foreign ||
		    (n && (strcmp(o->type, n->type) || o->hook != n->hook || o->priority != n->priority)))
			return true;
	}
	return false;
}

/* Rules first, so that nothing refers to the chains and elements that go. */
static int write_deletions(struct nft_batch *b, const struct nft_table *old, const struct nft_table *new)
{
	int rc = 0;

	for (size_t i = 0; i < old->n_chains && !rc; i++)
		rc = with_match(b, &old->chains[i], nft_table_chain(new, old->chains[i].name), delete_rules);
	for (size_t i = 0; i < old->n_chains && !rc; i++)
		if (!nft_table_chain(new, old->chains[i].name))
			rc = put_chain(b, NFT_MSG_DELCHAIN, &old->chains[i]);
	return rc;
}

static int write_additions(struct nft_batch *b, const struct nft_table *old, const struct nft_table *new)
{
	int rc = 0;

	if (new->retry_object && !old->retry_object)
		nft_put_retry_object(b, NFT_TABLE_NAME, new->retry_timeouts);

	for (size_t i = 0; i < new->n_sets && !rc; i++) {
		const struct nft_set *o = nft_table_set(old, new->sets[i].name);

		if (!o)
			rc = put_set(b, &new->sets[i], (uint32_t)i + 1);
		if (!rc && !nft_set_is_dynamic(&new->sets[i]))
			put_elements(b, o, &new->sets[i]);
	}
	for (size_t i = 0; i < new->n_chains && !rc; i++)
		if (!nft_table_chain(old, new->chains[i].name))
			rc = put_chain(b, NFT_MSG_NEWCHAIN, &new->chains[i]);
	for (size_t i = 0; i < new->n_chains && !rc; i++)
		rc = with_match(b, nft_table_chain(old, new->chains[i].name), &new->chains[i], add_rules);
	return rc;
}

static int commit(struct nft *n, const struct nft_table *old, const struct nft_table *new, bool replace,
		  struct vgw_err *err)
{
	static const struct nft_table nothing;
	uint32_t flags = new->owned ? VGW_NFT_TABLE_F_OWNER | VGW_NFT_TABLE_F_PERSIST : 0;
	struct nft_batch b;
	int rc = nft_batch_begin(&b, n);

	if (!rc && old->present && (replace || !new->present))
		rc = put_table(&b, NFT_MSG_DELTABLE, 0);
	if (!rc && new->present)
		rc = put_table(&b, NFT_MSG_NEWTABLE, flags);
	if (!rc && new->present && !replace)
		rc = write_deletions(&b, old, new);
	if (!rc && new->present)
		rc = write_additions(&b, replace ? &nothing : old, new);
	if (rc)
		vgw_err_set(err, rc, "OutOfMemory", "table inet " NFT_TABLE_NAME, "no memory");
	else
		rc = nft_batch_send(&b, true, err);
	nft_batch_free(&b);
	return rc;
}

int nft_commit(struct nft *n, const struct nft_table *observed, const struct nft_table *wanted,
	       struct vgw_err *err)
{
	bool replace = observed->present && wanted->present && must_replace(observed, wanted);
	int rc;

	if (!observed->present && !wanted->present)
		return 0;
	rc = commit(n, observed, wanted, replace, err);
	/* Someone's chain may be used by something we do not know: then all of the table goes and comes at
	 * once. */
	if ((rc == -EBUSY || rc == -ENOENT || rc == -EEXIST) && !replace && observed->present &&
	    wanted->present)
		rc = commit(n, observed, wanted, true, err);
	return rc;
}
