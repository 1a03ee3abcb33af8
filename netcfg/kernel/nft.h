/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our nftables table in the kernel (linux/netfilter/nf_tables.h), over one long-lived netlink socket: with
 * the table's owner flag that socket is the owner, so a process has one and keeps it.
 */
#ifndef NETCFG_KERNEL_NFT_H
#define NETCFG_KERNEL_NFT_H

#include "netcfg/base/err.h"
#include "netcfg/model/nft_delta.h"
#include "netcfg/model/nft_table.h"

struct nft;

/* 0 or -errno with ERR. */
int nft_open(struct nft **out, struct vgw_err *err);
/* NULL is fine. Without persist an owned table dies with this. */
void nft_close(struct nft *n);
/* Our netlink port, as notifications name it. */
uint32_t nft_port(const struct nft *n);

/* Tries each feature in a transaction that is never committed. 0 or -errno (no nftables, no privilege). */
int nft_probe(struct nft *n, struct nft_features *out, struct vgw_err *err);

/* The table as it is, in ARENA; one that is absent has `present` false. Retried while others change the
 * ruleset. */
int nft_observe(struct nft *n, struct arena *arena, struct nft_table *out, struct vgw_err *err);

/*
 * One transaction from OBSERVED to WANTED, the smallest that will do; the whole table anew where shapes
 * differ. All or nothing. 0 or -errno with ERR (the kernel's extended-ack text).
 */
int nft_commit(struct nft *n, const struct nft_table *observed, const struct nft_table *wanted,
	       struct vgw_err *err);

/*
 * Read back what a committed delta is about, and nothing else: the elements of its new table by their keys,
 * compared; the rules of its chain, where it has one, into *CHAIN, with their handles. 0; -EUCLEAN when
 * something is not as committed; -errno.
 */
int nft_verify(struct nft *n, const struct nft_delta *delta, struct arena *arena, struct nft_chain *chain,
	       struct vgw_err *err);

/*
 * The rules of one chain with their handles and counters, in ARENA; none where the chain or the table is not
 * there. 0; -EINTR when the ruleset changed meanwhile; -errno.
 */
int nft_read_chain(struct nft *n, const char *name, struct arena *arena, struct nft_chain *out);

#endif
