/* SPDX-License-Identifier: Apache-2.0 */
/* Reads our table back: the table, its sets and elements, its chains and rules. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/gen.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/kernel/nft_internal.h"

/*
 * Any transaction of anybody interrupts a dump. Where they never end, the last tries take what they get, so
 * long as no element shows twice: a wrong difference is put right by the next look, no look at all never.
 */
enum { OBSERVE_TRIES = 20, OBSERVE_STRICT = 12 };

struct observer {
	struct nft *nft;
	struct arena *arena;
	struct nft_table *table;
	size_t chains_cap, sets_cap;
	struct nft_chain *last; /* rules come chain by chain */
	size_t rules_cap;
	struct nft_set *set; /* whose elements are being read */
	struct buf records;
	int rc;
};

/* Doubles an arena array that is full: rare enough to leave the old one behind. */
static void *grow(struct arena *arena, void *v, size_t n, size_t *cap, size_t size)
{
	void *bigger;

	if (n < *cap)
		return v;
	*cap = *cap ? *cap * 2 : 16;
	bigger = arena_calloc(arena, *cap, size);
	if (bigger && n)
		memcpy(bigger, v, n * size);
	return bigger;
}

static struct nlmsghdr *request(char *buf, uint16_t type, uint16_t flags)
{
	return nftnl_nlmsg_build_hdr(buf, type, NFPROTO_INET, flags, 0);
}

static int generation_cb(const struct nlmsghdr *nlh, void *data)
{
	struct nftnl_gen *g = nftnl_gen_alloc();

	if (g && nftnl_gen_nlmsg_parse(nlh, g) == 0)
		*(uint32_t *)data = nftnl_gen_get_u32(g, NFTNL_GEN_ID);
	if (g)
		nftnl_gen_free(g);
	return MNL_CB_OK;
}

static int get_generation(struct nft *n, uint32_t *id)
{
	char buf[MNL_NLMSG_HDRLEN + 64];
	struct nlmsghdr *nlh = nftnl_nlmsg_build_hdr(buf, NFT_MSG_GETGEN, NFPROTO_UNSPEC, NLM_F_ACK, 0);

	return nft_request(n, nlh, generation_cb, id);
}

static int table_cb(const struct nlmsghdr *nlh, void *data)
{
	struct observer *o = data;
	struct nftnl_table *t = nftnl_table_alloc();

	if (t && nftnl_table_nlmsg_parse(nlh, t) == 0) {
		uint32_t flags = nftnl_table_get_u32(t, NFTNL_TABLE_FLAGS);
		uint32_t both = VGW_NFT_TABLE_F_OWNER | VGW_NFT_TABLE_F_PERSIST;

		o->table->present = true;
		o->table->owned = (flags & both) == both;
		o->table->persist = (flags & both) == VGW_NFT_TABLE_F_PERSIST;
		o->table->dormant = flags & NFT_TABLE_F_DORMANT;
	}
	if (t)
		nftnl_table_free(t);
	return MNL_CB_OK;
}

static int observe_table(struct observer *o)
{
	char buf[512];
	struct nlmsghdr *nlh = request(buf, NFT_MSG_GETTABLE, NLM_F_ACK);
	int rc;

	mnl_attr_put_strz(nlh, NFTA_TABLE_NAME, NFT_TABLE_NAME);
	rc = nft_request(o->nft, nlh, table_cb, o);
	return rc == -ENOENT ? 0 : rc;
}

static void take_chain(struct observer *o, struct nftnl_chain *c)
{
	const char *name = nftnl_chain_get_str(c, NFTNL_CHAIN_NAME);
	const char *type = nftnl_chain_get_str(c, NFTNL_CHAIN_TYPE);
	struct nft_table *t = o->table;
	struct nft_chain *out;

	t->chains = grow(o->arena, t->chains, t->n_chains, &o->chains_cap, sizeof(*t->chains));
	if (!t->chains) {
		o->rc = -ENOMEM;
		return;
	}
	out = &t->chains[t->n_chains++];
	memset(out, 0, sizeof(*out));
	out->foreign = strlen(name) >= sizeof(out->name);
	strncpy(out->name, name, sizeof(out->name) - 1);
	if (!nftnl_chain_is_set(c, NFTNL_CHAIN_HOOKNUM))
		return;
	if (type && strlen(type) < sizeof(out->type))
		strcpy(out->type, type);
	out->hook = nftnl_chain_get_u32(c, NFTNL_CHAIN_HOOKNUM);
	out->priority = nftnl_chain_get_s32(c, NFTNL_CHAIN_PRIO);
	out->foreign |= nftnl_chain_get_u32(c, NFTNL_CHAIN_POLICY) != NF_ACCEPT;
}

static int chain_cb(const struct nlmsghdr *nlh, void *data)
{
	struct observer *o = data;
	struct nftnl_chain *c = nftnl_chain_alloc();
	const char *table;

	if (c && nftnl_chain_nlmsg_parse(nlh, c) == 0) {
		table = nftnl_chain_get_str(c, NFTNL_CHAIN_TABLE);
		if (table && !strcmp(table, NFT_TABLE_NAME) && nftnl_chain_get_str(c, NFTNL_CHAIN_NAME))
			take_chain(o, c);
	}
	if (c)
		nftnl_chain_free(c);
	return o->rc ? MNL_CB_ERROR : MNL_CB_OK;
}

static void take_rule(struct observer *o, struct nftnl_rule *r)
{
	const char *name = nftnl_rule_get_str(r, NFTNL_RULE_CHAIN);
	struct nft_chain *c;

	if (!o->last || strncmp(o->last->name, name, sizeof(o->last->name) - 1)) {
		o->last = NULL;
		for (size_t i = 0; i < o->table->n_chains; i++)
			if (!strncmp(o->table->chains[i].name, name, NFT_NAME - 1))
				o->last = &o->table->chains[i];
		o->rules_cap = o->last ? o->last->n_rules : 0;
	}
	c = o->last;
	if (!c)
		return; /* a chain that came after the dump of chains: the generation will differ */
	c->rules = grow(o->arena, c->rules, c->n_rules, &o->rules_cap, sizeof(*c->rules));
	o->rc = c->rules ? nft_rule_decode(r, o->arena, &c->rules[c->n_rules]) : -ENOMEM;
	c->n_rules += !o->rc;
}

static int rule_cb(const struct nlmsghdr *nlh, void *data)
{
	struct observer *o = data;
	struct nftnl_rule *r = nftnl_rule_alloc();
	const char *table;

	if (r && nftnl_rule_nlmsg_parse(nlh, r) == 0) {
		table = nftnl_rule_get_str(r, NFTNL_RULE_TABLE);
		if (table && !strcmp(table, NFT_TABLE_NAME) && nftnl_rule_get_str(r, NFTNL_RULE_CHAIN))
			take_rule(o, r);
	}
	if (r)
		nftnl_rule_free(r);
	return o->rc ? MNL_CB_ERROR : MNL_CB_OK;
}

static void take_set(struct observer *o, struct nftnl_set *s)
{
	const char *name = nftnl_set_get_str(s, NFTNL_SET_NAME);
	struct nft_table *t = o->table;
	const struct nft_set *shape;
	struct nft_set *out;

	t->sets = grow(o->arena, t->sets, t->n_sets, &o->sets_cap, sizeof(*t->sets));
	if (!t->sets) {
		o->rc = -ENOMEM;
		return;
	}
	out = &t->sets[t->n_sets++];
	memset(out, 0, sizeof(*out));
	strncpy(out->name, name, sizeof(out->name) - 1);
	out->flags = nftnl_set_get_u32(s, NFTNL_SET_FLAGS);
	out->key_type = nftnl_set_get_u32(s, NFTNL_SET_KEY_TYPE);
	out->key_len = nftnl_set_get_u32(s, NFTNL_SET_KEY_LEN);
	out->data_type = nftnl_set_get_u32(s, NFTNL_SET_DATA_TYPE);
	out->data_len = nftnl_set_get_u32(s, NFTNL_SET_DATA_LEN);
	out->size = nftnl_set_get_u32(s, NFTNL_SET_DESC_SIZE);
	out->timeout_ms = (uint32_t)nftnl_set_get_u64(s, NFTNL_SET_TIMEOUT);
	shape = strlen(name) < sizeof(out->name) ? nft_set_shape(name) : NULL;
	out->foreign = !shape || !nft_set_same_shape(shape, out);
}

static int set_cb(const struct nlmsghdr *nlh, void *data)
{
	struct observer *o = data;
	struct nftnl_set *s = nftnl_set_alloc();
	const char *table;

	if (s && nftnl_set_nlmsg_parse(nlh, s) == 0) {
		table = nftnl_set_get_str(s, NFTNL_SET_TABLE);
		if (table && !strcmp(table, NFT_TABLE_NAME) && nftnl_set_get_str(s, NFTNL_SET_NAME))
			take_set(o, s);
	}
	if (s)
		nftnl_set_free(s);
	return o->rc ? MNL_CB_ERROR : MNL_CB_OK;
}

static const struct nlattr *nested_value(const struct nlattr *nest)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, nest) if (mnl_attr_get_type(a) == NFTA_DATA_VALUE) return a;
	return NULL;
}

/* One element: key, then data. libnftnl would allocate thrice for each of maybe 100,000. */
static void take_element(struct observer *o, const struct nlattr *elem)
{
	const struct nlattr *a, *key = NULL, *value = NULL;

	mnl_attr_for_each_nested(a, elem)
	{
		if (mnl_attr_get_type(a) == NFTA_SET_ELEM_KEY)
			key = nested_value(a);
		else if (mnl_attr_get_type(a) == NFTA_SET_ELEM_DATA)
			value = nested_value(a);
	}
	if (!key || mnl_attr_get_payload_len(key) != o->set->key_len ||
	    (value ? mnl_attr_get_payload_len(value) : 0) != o->set->data_len) {
		o->set->foreign = true;
		return;
	}
	buf_append(&o->records, mnl_attr_get_payload(key), o->set->key_len);
	if (value)
		buf_append(&o->records, mnl_attr_get_payload(value), o->set->data_len);
	o->set->n++;
}

static int element_cb(const struct nlmsghdr *nlh, void *data)
{
	struct observer *o = data;
	const struct nlattr *a, *elem;

	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(a) != NFTA_SET_ELEM_LIST_ELEMENTS)
			continue;
		mnl_attr_for_each_nested(elem, a) take_element(o, elem);
	}
	return MNL_CB_OK;
}

/*
 * The kernel walks its hash by counting. While a table that has just grown is still being rehashed, it skips
 * some elements and shows as many others twice, without calling the dump interrupted: twice is how we tell.
 */
static bool has_duplicates(const struct nft_set *s)
{
	size_t size = nft_set_record(s);

	for (size_t i = 1; i < s->n; i++)
		if (!memcmp(s->elems + (i - 1) * size, s->elems + i * size, s->key_len))
			return true;
	return false;
}

static int observe_elements(struct observer *o, struct nft_set *set)
{
	char buf[512];
	struct nlmsghdr *nlh = request(buf, NFT_MSG_GETSETELEM, NLM_F_DUMP);
	int rc;

	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, set->name);
	o->set = set;
	o->records.len = 0;
	rc = nft_request(o->nft, nlh, element_cb, o);
	if (rc)
		return rc;
	set->elems = arena_calloc(o->arena, set->n, nft_set_record(set));
	if (!set->elems || o->records.failed)
		return -ENOMEM;
	if (o->records.len)
		memcpy(set->elems, o->records.data, o->records.len);
	nft_set_sort(set);
	return has_duplicates(set) ? -EINTR : 0;
}

static int dump(struct observer *o, uint16_t type, uint16_t table_attr, mnl_cb_t cb)
{
	char buf[512];
	struct nlmsghdr *nlh = request(buf, type, NLM_F_DUMP);
	int rc;

	if (table_attr)
		mnl_attr_put_strz(nlh, table_attr, NFT_TABLE_NAME);
	rc = nft_request(o->nft, nlh, cb, o);
	return o->rc ? o->rc : rc;
}

static void take_timeouts(const struct nlattr *data, uint32_t *out)
{
	const struct nlattr *a, *state;

	mnl_attr_for_each_nested(a, data)
	{
		if (mnl_attr_get_type(a) != NFTA_CT_TIMEOUT_DATA)
			continue;
		mnl_attr_for_each_nested(state, a)
		{
			uint16_t type = mnl_attr_get_type(state);

			if (type >= 1 && type <= NFT_TCP_TIMEOUTS && mnl_attr_get_payload_len(state) == 4)
				out[type - 1] = ntohl(mnl_attr_get_u32(state));
		}
	}
}

static int object_cb(const struct nlmsghdr *nlh, void *data)
{
	struct observer *o = data;
	const struct nlattr *a, *content = NULL;
	const char *table = "", *name = "";

	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(a) == NFTA_OBJ_TABLE)
			table = mnl_attr_get_str(a);
		else if (mnl_attr_get_type(a) == NFTA_OBJ_NAME)
			name = mnl_attr_get_str(a);
		else if (mnl_attr_get_type(a) == NFTA_OBJ_DATA)
			content = a;
	}
	if (strcmp(table, NFT_TABLE_NAME) || strcmp(name, NFT_RETRY_OBJECT))
		return MNL_CB_OK;
	o->table->retry_object = true;
	if (content)
		take_timeouts(content, o->table->retry_timeouts);
	return MNL_CB_OK;
}

static int observe_once(struct nft *n, struct arena *arena, struct nft_table *out)
{
	struct observer o = {.nft = n, .arena = arena, .table = out};
	uint32_t before = 0, after = 0;
	int rc = get_generation(n, &before);

	memset(out, 0, sizeof(*out));
	if (!rc)
		rc = observe_table(&o);
	if (!rc && out->present) {
		rc = dump(&o, NFT_MSG_GETCHAIN, 0, chain_cb);
		if (!rc)
			rc = dump(&o, NFT_MSG_GETRULE, NFTA_RULE_TABLE, rule_cb);
		if (!rc)
			rc = dump(&o, NFT_MSG_GETSET, NFTA_SET_TABLE, set_cb);
		if (!rc)
			rc = dump(&o, NFT_MSG_GETOBJ, NFTA_OBJ_TABLE, object_cb);
		for (size_t i = 0; i < out->n_sets && !rc; i++)
			if (!out->sets[i].foreign && !nft_set_is_dynamic(&out->sets[i]))
				rc = observe_elements(&o, &out->sets[i]);
	}
	buf_free(&o.records);
	if (!rc)
		rc = get_generation(n, &after);
	return rc ? rc : before != after && !n->lenient ? -EINTR : 0;
}

int nft_observe(struct nft *n, struct arena *arena, struct nft_table *out, struct vgw_err *err)
{
	int rc = -EINTR;

	/* Interrupted, overflowed, or something vanished between two dumps: all mean "look again". */
	for (int i = 0; i < OBSERVE_TRIES && (rc == -EINTR || rc == -ENOBUFS || rc == -ENOENT); i++) {
		n->lenient = i >= OBSERVE_STRICT;
		rc = observe_once(n, arena, out);
	}
	n->lenient = false;
	if (rc)
		return vgw_err_set(err, rc, rc == -EPERM ? "NotPermitted" : "KernelError",
				   "table inet " NFT_TABLE_NAME, "cannot read the table: %s", strerror(-rc));
	return 0;
}

/* Asks for the elements of SET by their keys, a message's worth at a time. */
static int read_elements(struct observer *o, const struct nft_set *set)
{
	size_t size = nft_set_record(set), i = 0;
	char *buf = malloc(NFT_SCRATCH);
	int rc = buf ? 0 : -ENOMEM;

	while (!rc && i < set->n) {
		struct nlmsghdr *nlh = request(buf, NFT_MSG_GETSETELEM, NLM_F_ACK);
		struct nlattr *list;

		mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, NFT_TABLE_NAME);
		mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, set->name);
		list = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_LIST_ELEMENTS);
		for (; i < set->n && nlh->nlmsg_len < 60000; i++) {
			struct nlattr *elem = mnl_attr_nest_start(nlh, NFTA_LIST_ELEM);
			struct nlattr *key = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_KEY);

			mnl_attr_put(nlh, NFTA_DATA_VALUE, set->key_len, set->elems + i * size);
			mnl_attr_nest_end(nlh, key);
			mnl_attr_nest_end(nlh, elem);
		}
		mnl_attr_nest_end(nlh, list);
		rc = nft_request(o->nft, nlh, element_cb, o);
	}
	free(buf);
	return rc;
}

static int verify_set(struct observer *o, const struct nft_set *wanted)
{
	struct nft_set there = *wanted;
	int rc;

	there.n = 0;
	o->set = &there;
	o->records.len = 0;
	rc = read_elements(o, wanted);
	if (rc == -ENOENT)
		return -EUCLEAN;
	if (rc || o->records.failed)
		return rc ? rc : -ENOMEM;
	there.elems = (uint8_t *)o->records.data;
	nft_set_sort(&there);
	return nft_set_equal(&there, wanted) ? 0 : -EUCLEAN;
}

int nft_read_chain(struct nft *n, const char *name, struct arena *arena, struct nft_chain *out)
{
	struct nft_table table = {.chains = out, .n_chains = 1};
	struct observer o = {.nft = n, .arena = arena, .table = &table};
	char buf[512];
	struct nlmsghdr *nlh = request(buf, NFT_MSG_GETRULE, NLM_F_DUMP);
	int rc;

	memset(out, 0, sizeof(*out));
	strncpy(out->name, name, sizeof(out->name) - 1);
	mnl_attr_put_strz(nlh, NFTA_RULE_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(nlh, NFTA_RULE_CHAIN, name);
	rc = nft_request(n, nlh, rule_cb, &o);
	if (rc == -ENOENT)
		return 0;
	return rc ? rc : o.rc;
}

int nft_verify(struct nft *n, const struct nft_delta *delta, struct arena *arena, struct nft_chain *chain,
	       struct vgw_err *err)
{
	struct observer o = {.nft = n, .arena = arena};
	const struct nft_chain *wanted = delta->new.n_chains ? &delta->new.chains[0] : NULL;
	struct nft_chain there;
	int rc = 0;

	for (size_t i = 0; i < delta->new.n_sets && !rc; i++)
		rc = verify_set(&o, &delta->new.sets[i]);
	buf_free(&o.records);
	if (!rc && wanted) {
		rc = nft_read_chain(n, wanted->name, arena, &there);
		if (!rc) {
			*chain = *wanted;
			chain->rules = there.rules;
			chain->n_rules = there.n_rules;
		}
		if (!rc && !nft_chain_equal(chain, wanted))
			rc = -EUCLEAN;
	}
	return rc ? vgw_err_set(err, rc, "KernelError", "table inet " NFT_TABLE_NAME,
				"cannot read back a change: %s", strerror(-rc))
		  : 0;
}
