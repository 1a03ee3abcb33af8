/* SPDX-License-Identifier: Apache-2.0 */
/* The words that the rules of nft_build.c are made of: each appends a few expressions. Pure. */
#ifndef NETCFG_MODEL_NFT_RULE_H
#define NETCFG_MODEL_NFT_RULE_H

#include "netcfg/model/nft_table.h"

enum { RULE_MAX = 40 };
/* RFC 9293 3.1. */
enum { NFT_TCP_SYN = 2, NFT_TCP_RST = 4, NFT_TCP_ACK = 16 };

struct rule_text {
	struct nx x[RULE_MAX];
	size_t n;
};

struct nft_family {
	uint8_t number, nfproto;
	uint8_t size, saddr, daddr; /* bytes; offsets in the network header */
	uint8_t words;		    /* 32-bit registers an address takes */
};

/* Registers are indices of 32-bit ones. DATA is in the byte order of what it is compared with. */
void rule_meta(struct rule_text *r, uint32_t key, uint8_t dreg);
void rule_payload(struct rule_text *r, uint32_t base, uint32_t offset, uint32_t len, uint8_t dreg);
void rule_cmp(struct rule_text *r, uint8_t sreg, uint32_t op, const void *data, uint8_t len);
void rule_mask(struct rule_text *r, uint8_t reg, const void *mask, uint8_t len);
void rule_value(struct rule_text *r, uint8_t dreg, const void *data, uint8_t len);
void rule_lookup(struct rule_text *r, const char *set, uint8_t sreg);
void rule_map(struct rule_text *r, const char *map, uint8_t sreg, uint8_t dreg);
void rule_numgen(struct rule_text *r, uint32_t type, uint32_t modulus, uint8_t dreg);
void rule_hash(struct rule_text *r, uint8_t sreg, uint32_t len, uint32_t modulus, uint8_t dreg);
void rule_verdict(struct rule_text *r, int32_t verdict, const char *chain);
void rule_counter(struct rule_text *r);
void rule_reject(struct rule_text *r, uint32_t type, uint32_t code);
void rule_masquerade(struct rule_text *r, uint32_t flags);
void rule_meta_set(struct rule_text *r, uint32_t key, uint8_t sreg);
/* The client key from register 0 in the map of slots tried: forgotten; or noted, with the slot in DATA,
 * unless it is there already. A full map ends the rule. (For a map the kernel wants DATA in either case.) */
void rule_tried_forget(struct rule_text *r, const char *map, uint8_t data);
void rule_tried_note(struct rule_text *r, const char *map, uint8_t data);
void rule_object(struct rule_text *r, uint32_t type, const char *name);
void rule_limit(struct rule_text *r, uint32_t per_second, uint32_t burst);
void rule_log(struct rule_text *r, uint32_t group, uint32_t bytes);
void rule_notrack(struct rule_text *r);
/* The address in REG, the port behind it. */
void rule_dnat(struct rule_text *r, const struct nft_family *f, uint8_t reg);
/* The MSS in REG, 16 bits in network order; the kernel only ever lowers it. */
void rule_set_mss(struct rule_text *r, uint8_t reg);

/* Matches: what does not match ends the rule. They use register 0 and those behind it. */
void rule_family(struct rule_text *r, const struct nft_family *f);
void rule_protocol(struct rule_text *r, uint8_t protocol);
void rule_interface(struct rule_text *r, uint32_t key, const char *name); /* NFT_META_IIFNAME or OIFNAME */
void rule_not_interface(struct rule_text *r, uint32_t key, const char *name);
void rule_prefix(struct rule_text *r, const struct nft_family *f, uint8_t offset, const struct ip_prefix *p);
void rule_secpath(struct rule_text *r, bool decrypted);
void rule_unencrypted(struct rule_text *r); /* no IPsec policy takes it on its way out */
void rule_ct_new(struct rule_text *r);
void rule_ct_not_new(struct rule_text *r); /* of a flow, or of none that is tracked */
void rule_ct_known(struct rule_text *r);   /* of a flow that was there before, or an error about one */
void rule_ct_stray(struct rule_text *r);   /* of no flow: invalid or untracked */
void rule_ct_status(struct rule_text *r, uint32_t bit, bool set);
void rule_syn(struct rule_text *r); /* TCP with SYN and without RST */

void rule_flag(struct rule_text *r, uint8_t reg, uint32_t bit); /* the bit is set in REG, which is spent */
void rule_tcp_flags(struct rule_text *r, uint8_t mask, uint8_t value, bool equal);
void rule_tcp_sequence_zero(struct rule_text *r);
void rule_ct_direction(struct rule_text *r, uint8_t direction); /* enum ip_conntrack_dir */
void rule_ct_related(struct rule_text *r);

/* The client's address . port . destination address . port, from register 0 on. */
void rule_client_key(struct rule_text *r, const struct nft_family *f);
void rule_original_client_key(struct rule_text *r, const struct nft_family *f);
/* Destination address . protocol . port from register 0 on, as the packet has it, or as its flow began. */
void rule_port_key(struct rule_text *r, const struct nft_family *f);
void rule_original_port_key(struct rule_text *r, const struct nft_family *f);
/* The same key, compared with P part by part. */
void rule_port_match(struct rule_text *r, const struct nft_family *f, const struct ns_port *p);

/* The largest segment that fits MTU bytes; FAMILY 0 is IPv4, 1 is IPv6. */
uint16_t nft_mss(uint32_t mtu, unsigned family);

#endif
