/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's notifications, as dirty bits: that something changed, and who did it where the kernel tells.
 * What it is now is for an observation to say.
 */
#ifndef NETCFG_KERNEL_MONITOR_H
#define NETCFG_KERNEL_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "netcfg/base/err.h"

enum monitor_bits {
	MONITOR_LINK = 1,    /* links and addresses */
	MONITOR_ROUTE = 2,   /* routes and rules */
	MONITOR_TABLE = 4,   /* our nftables table */
	MONITOR_NETCONF = 8, /* forwarding and its kind */
	MONITOR_ALL = 15,    /* also when notifications were lost */
};

/* Links by index; when there are too many to name, or notifications were lost, all. */
enum { MONITOR_LINKS = 32 };
struct monitor_links {
	int v[MONITOR_LINKS];
	unsigned n;
	bool all;
};

/* What is in FROM is in TO as well afterwards. */
void monitor_links_merge(struct monitor_links *to, const struct monitor_links *from);
bool monitor_links_has(const struct monitor_links *l, int index);

/* What one reading brought, changes made by our own ports left out. */
struct monitor_report {
	unsigned bits;
	unsigned table_changes; /* transactions of others that touched our table */
	/* Those that were down or gone for a moment: by the time of an observation they may be back. */
	struct monitor_links down;
	char table_by[64]; /* "pid 812 nft"; "" when nobody else touched our table */
	char route_by[64]; /* "port 812" */
};

struct monitor;

enum { MONITOR_SOCKETS = 2 };

/* OWN: the netlink ports whose changes are ours. 0 or -errno with ERR. */
int monitor_open(const uint32_t *own, unsigned n_own, struct monitor **out, struct vgw_err *err);
/* NULL is fine. */
void monitor_close(struct monitor *m);
/* The descriptors to watch for reading; monitor_read() may be called for any of them. */
int monitor_fd(const struct monitor *m, unsigned i);
/* Reads what is there without blocking; an overflow reads as MONITOR_ALL. Never fails: an error is a reason
 * to look. */
void monitor_read(struct monitor *m, struct monitor_report *out);

/*
 * Deaf to the table for the length of a large transaction of our own: the kernel would write a notification
 * for each of its elements, which takes several times as long as the transaction. What others did meanwhile
 * must be looked for.
 */
void monitor_mute_table(struct monitor *m, bool mute);

#endif
