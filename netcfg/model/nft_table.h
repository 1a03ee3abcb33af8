/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our nftables table as plain values: sets with their elements, chains with their rules. The rules hold no
 * addresses but the few that cannot be data; everything that changes is an element. Pure.
 *
 *   guard (prerouting, raw)      who may reach the guarded ports
 *   refuse, refuse_local         new flows to a service without slots; what belongs to no flow; and SYNs that
 *                                are to be forgotten soon (prerouting, output; mangle)
 *   mss_in, mss_out              MSS clamp (prerouting, postrouting; mangle)
 *   services, services_local     to the backends (prerouting, output; dstnat), by way of balance
 *   masq                         clients from the private interface (postrouting; srcnat)
 *   forward                      shield and egress cut (forward; filter)
 *   mask, mask_local, mask_out   refusals that a retry makes good; answers (forward, input, output; filter);
 *                                in input also SYNs to a service that no rule sent to a backend
 *   untracked                    the forged ACKs that draw out idle clients (output; raw)
 *
 * svc4/svc6 map a port to a number (enum nft_group and the number of slots); be4/be6 map port and slot to a
 * backend, next4/next6 to the slot of the next one. One rule of `balance` serves all services of one group,
 * so services cost elements, not rules, and the groups that a verdict may lead to (prospects) have theirs
 * beforehand: the kernel walks all elements of a map for each rule that is added to look into it. Only the
 * first NFT_EXACT round-robin services have a rule, and so a counter, of their own.
 */
#ifndef NETCFG_MODEL_NFT_TABLE_H
#define NETCFG_MODEL_NFT_TABLE_H

#include "netcfg/model/netstate.h"

#define NFT_TABLE_NAME "vgw_agent"

/* nft(8)'s number of the type of interface names. */
enum { NFT_TYPE_IFNAME = 41 };
enum { NFT_EXACT = 64, NFT_NAME = 32, NFT_DATA = 16 };

enum nft_group {
	NFT_GROUP_REFUSE = 0,
	NFT_GROUP_ROUNDROBIN = 1 << 24,
	NFT_GROUP_RANDOM = 2 << 24,
	NFT_GROUP_SOURCE = 3 << 24,
	NFT_GROUP_EXACT = 4 << 24, /* round-robin with a counter of its own */
	NFT_GROUP_KIND = 15 << 24,
	NFT_GROUP_RETRY = 1 << 28, /* TCP with two backends or more: a SYN without answer goes to the next */
	NFT_GROUP_SLOTS = 0xffffff,
};

/*
 * How a SYN is retried without us. Its flow is forgotten after a second without answer (the object
 * syn_retry), so that the client's next SYN is a new flow; tried4/tried6 remember until the answer which slot
 * a client's port was sent to, and that one goes to the slot of the next backend. Refusals are masked
 * meanwhile.
 */
#define NFT_RETRY_OBJECT "syn_retry"
enum {
	NFT_RETRY_SYN_S = 1,
	NFT_RETRY_REMEMBER_MS = 8000,
	NFT_RETRY_PORTS = 262144, /* at most; beyond that a SYN is not retried */
	NFT_LOG_GROUP = 86,	  /* nfnetlink_log: refused and retried SYNs, a few a second */
	/* Seconds, by state: index CTA_TIMEOUT_TCP_* of linux/netfilter/nfnetlink_cttimeout.h, less 1. */
	NFT_TCP_TIMEOUTS = 11,
	NFT_FORGED_MARK = 0x56, /* packet mark of forged ACKs */
};

/* One expression of a rule. The fields' meaning by kind; unused ones are zero. Registers: index of a 32-bit
 * one, 0–15. */
enum nx_kind {
	NX_FOREIGN,  /* not one of ours: equal to nothing */
	NX_META,     /* a key → dreg */
	NX_META_SET, /* sreg → a key */
	NX_PAYLOAD,  /* a base, b offset, c length → dreg */
	NX_CT,	     /* a key, b direction → dreg */
	NX_CMP,	     /* a op, sreg, data */
	NX_BITWISE,  /* a length, sreg, data mask, data2 xor → dreg */
	NX_LOOKUP,   /* name set, sreg, a flags, → dreg when has_dreg */
	NX_NUMGEN,   /* a type, b modulus, c offset → dreg */
	NX_HASH,     /* Jenkins; sreg, a length, b modulus, c seed, d offset → dreg */
	NX_VALUE,    /* data → dreg */
	NX_VERDICT,  /* a verdict (as int32_t), name chain */
	NX_COUNTER,
	NX_NAT,	   /* a type, b family, sreg address, sreg2 port, c flags */
	NX_MASQ,   /* a flags */
	NX_REJECT, /* a type, b code */
	NX_EXTHDR, /* write: a option, b offset, c length, d op, sreg */
	NX_DYNSET, /* a op, name map, sreg key, sreg2 data when b */
	NX_OBJECT, /* a type, name */
	NX_LIMIT,  /* a packets a second, b burst */
	NX_LOG,	   /* a group, b bytes of each packet */
	NX_NOTRACK,
	NX_RT, /* a key → dreg */
};

struct nx {
	uint8_t kind, has_dreg, dreg, sreg, sreg2, data_len;
	uint32_t a, b, c, d;
	char name[NFT_NAME];
	uint8_t data[NFT_DATA], data2[NFT_DATA];
};

struct nft_rule {
	const struct nx *x;
	size_t n;
	uint64_t handle;	 /* the kernel's; 0 for a wanted one, not compared */
	uint64_t packets, bytes; /* of its counter; observed only, not compared */
};

struct nft_chain {
	char name[NFT_NAME];
	char type[8];	  /* "filter", "nat"; "" for a chain without hook */
	uint32_t hook;	  /* enum nf_inet_hooks */
	int32_t priority; /* enum nf_ip_hook_priorities */
	bool foreign;	  /* not one of ours, or with another hook, type, priority or policy */
	struct nft_rule *rules;
	size_t n_rules;
};

struct nft_set {
	char name[NFT_NAME];
	uint32_t flags;		      /* NFT_SET_* */
	uint32_t key_type, key_len;   /* nft(8)'s type numbers, so that it lists them; bytes */
	uint32_t data_type, data_len; /* 0 for a plain set */
	uint32_t size;		      /* most elements; 0: no limit */
	uint32_t timeout_ms;	      /* of elements; 0: they stay */
	bool foreign;
	uint8_t *elems; /* n records of key_len + data_len bytes, sorted by memcmp */
	size_t n, cap;	/* cap 0: no more than n */
};

struct nft_table {
	bool present;
	bool owned;   /* carries owner and persist; an orphan's owner flag is gone */
	bool persist; /* observed only: an orphan that can be adopted */
	bool dormant; /* observed only: someone has switched the whole of it off */
	struct nft_chain *chains;
	size_t n_chains; /* in dependency order: a chain stands behind those it jumps to */
	struct nft_set *sets;
	size_t n_sets;
	bool retry_object;			   /* NFT_RETRY_OBJECT is there */
	uint32_t retry_timeouts[NFT_TCP_TIMEOUTS]; /* its time-outs; wanted ones of 0 are the kernel's own */
};

/* What the kernel can do, found out by trying (nft.h). */
struct nft_features {
	bool owner_persist;
	bool secpath;
	bool retry; /* connection-tracking time-outs as objects, and deleting from a set by rule */
	bool log;
	/* What the sysctls say now: an object for connection tracking copies them when it is made. 0: not
	 * known. */
	uint32_t tcp_timeouts[NFT_TCP_TIMEOUTS];
};

/* The table that S asks for; everything lives in ARENA. 0 or -ENOMEM. S is sorted. */
int nft_table_build(const struct netstate *s, const struct nft_features *features, bool protect,
		    struct arena *arena, struct nft_table *out);

/* The services that a table's elements spell, sorted, in ARENA. Unusable elements are left out (they show as
 * differences). */
int nft_table_services(const struct nft_table *t, struct arena *arena, struct ns_service **out, size_t *n);

const struct nft_set *nft_table_set(const struct nft_table *t, const char *name);
const struct nft_chain *nft_table_chain(const struct nft_table *t, const char *name);
/* The shape (without elements) of our set of that name; NULL for a name that is not ours. */
const struct nft_set *nft_set_shape(const char *name);
/* The packets write its elements: they are neither wanted nor observed. */
bool nft_set_is_dynamic(const struct nft_set *s);
/* Name, flags, types and lengths are the same. */
bool nft_set_same_shape(const struct nft_set *a, const struct nft_set *b);
/* Bytes of one record. */
size_t nft_set_record(const struct nft_set *s);
void nft_set_sort(struct nft_set *s);
/* The first record that begins with the LEN bytes at KEY, or where it would be. */
size_t nft_set_find(const struct nft_set *s, const uint8_t *key, size_t len);
bool nft_set_equal(const struct nft_set *a, const struct nft_set *b);
bool nft_rule_equal(const struct nft_rule *a, const struct nft_rule *b);
bool nft_chain_equal(const struct nft_chain *a, const struct nft_chain *b);

/*
 * MATCH[j] (new->n_rules entries) is the old rule that new rule j is, or NFT_NO_MATCH: in order, and as many
 * as can be, so that their counters go on. 0 or -ENOMEM.
 */
#define NFT_NO_MATCH ((size_t)-1)
int nft_chain_match(const struct nft_chain *old, const struct nft_chain *new, size_t *match);

/*
 * Walk the difference of two sets of one shape: FN is called with DEL for a record only in OLD, without for
 * one only in NEW. A changed value is a deletion and an addition of its key. OLD may be NULL.
 */
void nft_set_diff(const struct nft_set *old, const struct nft_set *new,
		  void (*fn)(void *ctx, bool del, const uint8_t *record), void *ctx);

/* The object is there with the time-outs that WANTED has, or not wanted. */
bool nft_table_retry_equal(const struct nft_table *wanted, const struct nft_table *observed);
/* A deep copy into ARENA. 0 or -ENOMEM. */
int nft_table_copy(const struct nft_table *t, struct arena *arena, struct nft_table *out);

/* Stable text, a line a set, element count, chain and rule: for golden tests and for debugging. */
void nft_table_print(const struct nft_table *t, struct buf *out);

#endif
