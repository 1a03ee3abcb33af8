/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the nft_*.c files alone. */
#ifndef NETCFG_KERNEL_NFT_INTERNAL_H
#define NETCFG_KERNEL_NFT_INTERNAL_H

#include <libmnl/libmnl.h>
#include <libnftnl/rule.h>

#include "netcfg/kernel/nft.h"

/* linux/netfilter/nf_tables.h since 6.9; older headers lack it. */
#define VGW_NFT_TABLE_F_OWNER	0x2u
#define VGW_NFT_TABLE_F_PERSIST 0x4u

struct nft {
	struct mnl_socket *socket;
	uint32_t seq;
	bool lenient; /* take dumps that others' transactions interrupted */
};

/* A transaction being written: messages one behind the other, and what each is for. */
struct nft_batch {
	struct nft *nft;
	struct buf bytes;
	struct buf places; /* NFT_PLACE bytes a message, from first_seq on */
	uint32_t first_seq;
	char *scratch;	  /* one message */
	uint64_t refused; /* bit I: message I of the first 64, the batch's own begin being 0 */
};
enum { NFT_PLACE = 48, NFT_SCRATCH = 1 << 17 };

int nft_batch_begin(struct nft_batch *b, struct nft *n);
/* A message's header in the scratch buffer; PLACE names it in errors. */
struct nlmsghdr *nft_batch_message(struct nft_batch *b, uint16_t type, uint16_t flags, const char *place);
void nft_batch_push(struct nft_batch *b, struct nlmsghdr *nlh);
/* Sends it. COMMIT false leaves the end off, so that the kernel only tries. 0 or -errno with ERR. */
int nft_batch_send(struct nft_batch *b, bool commit, struct vgw_err *err);
void nft_batch_free(struct nft_batch *b);

/* Writes the time-out object into TABLE; TIMEOUTS by state, those of 0 left to the kernel. */
void nft_put_retry_object(struct nft_batch *b, const char *table, const uint32_t timeouts[NFT_TCP_TIMEOUTS]);

/* A dump or get request; CB sees each message. -EINTR when it was interrupted by a change. */
int nft_request(struct nft *n, struct nlmsghdr *nlh, mnl_cb_t cb, void *ctx);

/* Expressions, both ways. Encode: 0 or -ENOMEM. */
int nft_rule_encode(const struct nft_rule *r, struct nftnl_rule *out);
int nft_rule_decode(struct nftnl_rule *r, struct arena *arena, struct nft_rule *out);

#endif
