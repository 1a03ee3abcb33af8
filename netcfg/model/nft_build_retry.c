/* SPDX-License-Identifier: Apache-2.0 */
/* A SYN that meets a silent or refusing backend goes to another one, without us (nft_table.h says how). */
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink_cttimeout.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "netcfg/model/nft_build_internal.h"

/* Logged packets only wake the checks: a few a second are enough. */
enum { LOG_PER_SECOND = 20, LOG_BURST = 10, LOG_BYTES = 80 };

static const char *const again_names[2] = {"again4", "again6"};

void build_retry_start(struct build *b, struct nft_chain *c, unsigned f)
{
	struct rule_text r = {0};

	rule_syn(&r);
	rule_family(&r, &build_families[f]);
	rule_port_key(&r, &build_families[f]);
	rule_map(&r, build_svc[f], 0, 8);
	rule_flag(&r, 8, NFT_GROUP_RETRY);
	rule_object(&r, NFT_OBJECT_CT_TIMEOUT, NFT_RETRY_OBJECT);
	rule_verdict(&r, NF_ACCEPT, NULL);
	build_rule(b, c, &r);
	b->out->retry_object = true;
	memcpy(b->out->retry_timeouts, b->features->tcp_timeouts, sizeof(b->out->retry_timeouts));
	b->out->retry_timeouts[CTA_TIMEOUT_TCP_SYN_SENT - 1] = NFT_RETRY_SYN_S;
}

void rule_marked_to_backend(struct rule_text *r, unsigned f)
{
	const struct nft_family *fam = &build_families[f];
	uint32_t zero = 0;

	rule_port_key(r, fam);
	rule_meta(r, NFT_META_MARK, (uint8_t)(fam->words + 2));
	rule_map(r, build_be[f], 0, 8);
	rule_value(r, 0, &zero, 4);
	rule_meta_set(r, NFT_META_MARK, 0);
	rule_dnat(r, fam, 8);
}

/*
 * The slot tried last, from there the slot of the next backend, noted and gone to. Where the slots have
 * changed since, one of the steps ends without a result, and the flow is balanced as a new one.
 */
void build_retry_again(struct build *b, unsigned f)
{
	const struct nft_family *fam = &build_families[f];
	struct nft_chain *c = build_chain(b, again_names[f], "", 0, 0, 5);
	struct rule_text r = {0};
	uint32_t zero = 0;

	if (b->features->log) {
		rule_limit(&r, LOG_PER_SECOND, LOG_BURST);
		rule_log(&r, NFT_LOG_GROUP, LOG_BYTES);
		build_rule(b, c, &r);
		r.n = 0;
	}
	rule_client_key(&r, fam);
	rule_map(&r, build_tried[f], 0, 15);
	rule_meta_set(&r, NFT_META_MARK, 15);
	build_rule(b, c, &r);
	r.n = 0;
	rule_port_key(&r, fam);
	rule_meta(&r, NFT_META_MARK, (uint8_t)(fam->words + 2));
	rule_map(&r, build_next[f], 0, 15);
	rule_meta_set(&r, NFT_META_MARK, 15);
	rule_client_key(&r, fam);
	rule_meta(&r, NFT_META_MARK, 15);
	rule_tried_forget(&r, build_tried[f], 15);
	rule_tried_note(&r, build_tried[f], 15);
	rule_marked_to_backend(&r, f);
	build_rule(b, c, &r);
	r.n = 0;
	rule_value(&r, 0, &zero, 4);
	rule_meta_set(&r, NFT_META_MARK, 0);
	build_rule(b, c, &r);
}

void build_retry_jump(struct build *b, struct nft_chain *c, unsigned f)
{
	struct rule_text r = {0};

	rule_protocol(&r, IPPROTO_TCP);
	rule_client_key(&r, &build_families[f]);
	rule_map(&r, build_tried[f], 0, 15);
	rule_verdict(&r, NFT_JUMP, again_names[f]);
	build_rule(b, c, &r);
}

static void rule_retried(struct rule_text *r, unsigned f)
{
	rule_original_port_key(r, &build_families[f]);
	rule_map(r, build_svc[f], 0, 8);
	rule_flag(r, 8, NFT_GROUP_RETRY);
}

/* A reset with sequence 0 answers a SYN (RFC 9293 3.10.7.1). */
static void rule_refusal(struct rule_text *r, unsigned f)
{
	rule_tcp_flags(r, NFT_TCP_RST, NFT_TCP_RST, true);
	rule_tcp_sequence_zero(r);
	rule_ct_direction(r, IP_CT_DIR_REPLY);
	rule_family(r, &build_families[f]);
	rule_retried(r, f);
}

/* Destination unreachable before any reply; never fragmentation needed, which is a type of its own in IPv6.
 */
static void rule_unreachable(struct rule_text *r, unsigned f)
{
	uint8_t protocol = f ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	uint8_t type = f ? ICMP6_DST_UNREACH : ICMP_DEST_UNREACH, needed = ICMP_FRAG_NEEDED;

	rule_family(r, &build_families[f]);
	rule_protocol(r, protocol);
	rule_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1, 0);
	rule_cmp(r, 0, NFT_CMP_EQ, &type, 1);
	if (!f) {
		rule_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 1, 1, 0);
		rule_cmp(r, 0, NFT_CMP_NEQ, &needed, 1);
	}
	rule_ct_related(r);
	rule_ct_status(r, IPS_SEEN_REPLY, false);
	rule_retried(r, f);
}

/* An answered SYN needs no retry: the client's port may be used again at once, for a flow of its own. */
static void build_answered(struct build *b, struct nft_chain *c, unsigned f)
{
	struct rule_text r = {0};

	rule_tcp_flags(&r, NFT_TCP_SYN | NFT_TCP_ACK, NFT_TCP_SYN | NFT_TCP_ACK, true);
	rule_ct_direction(&r, IP_CT_DIR_REPLY);
	rule_family(&r, &build_families[f]);
	rule_retried(&r, f);
	rule_original_client_key(&r, &build_families[f]);
	rule_meta(&r, NFT_META_MARK, 15);
	rule_tried_forget(&r, build_tried[f], 15);
	build_rule(b, c, &r);
}

static void mask(struct build *b, struct nft_chain *c, void (*match)(struct rule_text *, unsigned),
		 unsigned f)
{
	struct rule_text r = {0};

	if (b->features->log) {
		match(&r, f);
		rule_limit(&r, LOG_PER_SECOND, LOG_BURST);
		rule_log(&r, NFT_LOG_GROUP, LOG_BYTES);
		build_rule(b, c, &r);
		r.n = 0;
	}
	match(&r, f);
	rule_counter(&r);
	rule_verdict(&r, NF_DROP, NULL);
	build_rule(b, c, &r);
}

/* A SYN to a service that no rule sent to a backend: our own kernel would refuse it, the client tries again.
 */
static void build_stray_syns(struct build *b, struct nft_chain *c)
{
	for (unsigned f = 0; f < 2; f++) {
		uint32_t refuse = NFT_GROUP_REFUSE;
		struct rule_text r = {0};

		rule_tcp_flags(&r, NFT_TCP_SYN | NFT_TCP_ACK | NFT_TCP_RST, NFT_TCP_SYN, true);
		rule_family(&r, &build_families[f]);
		rule_port_key(&r, &build_families[f]);
		rule_map(&r, build_svc[f], 0, 8);
		rule_cmp(&r, 8, NFT_CMP_NEQ, &refuse, 4);
		rule_counter(&r);
		rule_verdict(&r, NF_DROP, NULL);
		build_rule(b, c, &r);
	}
}

/* The masks are about what comes back while a flow begins: nearly every packet leaves here. */
static void build_beyond(struct build *b, struct nft_chain *c)
{
	struct rule_text r = {0};

	rule_ct_direction(&r, IP_CT_DIR_ORIGINAL);
	rule_verdict(&r, NF_ACCEPT, NULL);
	build_rule(b, c, &r);
	r.n = 0;
	/* A client's port that comes again while the kernel remembers how a backend reset it is still refused
	 * in the name of that flow. */
	rule_tcp_flags(&r, NFT_TCP_RST, 0, true);
	rule_ct_status(&r, IPS_ASSURED, true);
	rule_verdict(&r, NF_ACCEPT, NULL);
	build_rule(b, c, &r);
}

void build_masks(struct build *b)
{
	static const struct {
		const char *name;
		uint32_t hook;
		bool resets;
	} hooks[] = {
		{"mask", NF_INET_FORWARD, true},
		{"mask_local", NF_INET_LOCAL_IN, true}, /* clients on this host */
		{"mask_out", NF_INET_LOCAL_OUT,
		 false}, /* our own word about a neighbour that does not answer */
	};

	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++) {
		struct nft_chain *c =
			build_chain(b, hooks[i].name, "filter", hooks[i].hook, NF_IP_PRI_FILTER, 14);

		if (hooks[i].hook == NF_INET_LOCAL_IN)
			build_stray_syns(b, c);
		build_beyond(b, c);
		for (unsigned f = 0; f < 2; f++) {
			if (hooks[i].resets)
				build_answered(b, c, f);
			if (hooks[i].resets)
				mask(b, c, rule_refusal, f);
			mask(b, c, rule_unreachable, f);
		}
	}
}

void build_untracked(struct build *b)
{
	struct nft_chain *c = build_chain(b, "untracked", "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_RAW, 1);
	uint32_t forged = NFT_FORGED_MARK;
	struct rule_text r = {0};

	rule_meta(&r, NFT_META_MARK, 0);
	rule_cmp(&r, 0, NFT_CMP_EQ, &forged, 4);
	rule_notrack(&r);
	build_rule(b, c, &r);
}
