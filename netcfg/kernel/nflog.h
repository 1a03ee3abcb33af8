/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that our rules log (linux/netfilter/nfnetlink_log.h): refused and retried SYNs, as hints for the
 * checks. */
#ifndef NETCFG_KERNEL_NFLOG_H
#define NETCFG_KERNEL_NFLOG_H

#include "netcfg/base/err.h"
#include "netcfg/model/ip.h"

struct nflog;

/* 0 or -errno with ERR (-EBUSY: another program has the group). */
int nflog_open(uint16_t group, struct nflog **out, struct vgw_err *err);
/* NULL is fine. */
void nflog_close(struct nflog *n);
int nflog_fd(const struct nflog *n);
/*
 * Reads what is there without blocking. FN gets the ends of each logged TCP packet, or of the one that a
 * logged ICMP error is about. Hints may be lost: an overflow is no error.
 */
void nflog_read(struct nflog *n,
		void (*fn)(void *ctx, const struct ip_endpoint *src, const struct ip_endpoint *dst),
		void *ctx);

#endif
