/* SPDX-License-Identifier: Apache-2.0 */
/* The socket, requests and transactions of nftables over nfnetlink. */
#include <errno.h>
#include <libnftnl/batch.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netcfg/kernel/nft_internal.h"

/* Errors of one failed transaction: the kernel reports each message. */
enum { RECEIVE_BUFFER = 1 << 20 };

int nft_open(struct nft **out, struct vgw_err *err)
{
	struct nft *n = calloc(1, sizeof(*n));
	int one = 1, size = RECEIVE_BUFFER, rc;

	*out = NULL;
	if (!n)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "nftables", "no memory");
	n->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	if (!n->socket || mnl_socket_bind(n->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		rc = -errno;
		nft_close(n);
		return vgw_err_set(err, rc, "KernelError", "nftables",
				   "cannot open a netfilter netlink socket: %s", strerror(-rc));
	}
	/* The kernel's own words for an error, without our message echoed. */
	mnl_socket_setsockopt(n->socket, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(n->socket, NETLINK_CAP_ACK, &one, sizeof(one));
	setsockopt(mnl_socket_get_fd(n->socket), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	n->seq = 1;
	*out = n;
	return 0;
}

void nft_close(struct nft *n)
{
	if (!n)
		return;
	if (n->socket)
		mnl_socket_close(n->socket);
	free(n);
}

uint32_t nft_port(const struct nft *n)
{
	return mnl_socket_get_portid(n->socket);
}

static void forget_interruptions(char *buf, int len)
{
	struct nlmsghdr *nlh = (struct nlmsghdr *)buf;

	for (; mnl_nlmsg_ok(nlh, len); nlh = mnl_nlmsg_next(nlh, &len))
		nlh->nlmsg_flags &= (uint16_t)~NLM_F_DUMP_INTR;
}

int nft_request(struct nft *n, struct nlmsghdr *nlh, mnl_cb_t cb, void *ctx)
{
	char buf[32768];
	uint32_t seq = ++n->seq, port = mnl_socket_get_portid(n->socket);
	int rc;

	nlh->nlmsg_seq = seq;
	if (mnl_socket_sendto(n->socket, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	do {
		ssize_t len = mnl_socket_recvfrom(n->socket, buf, sizeof(buf));

		if (len < 0 && errno == EINTR) {
			rc = 1;
			continue;
		}
		if (len < 0)
			return -errno;
		/* What is left of an earlier, failed request is not for us. */
		if (((struct nlmsghdr *)buf)->nlmsg_seq != seq) {
			rc = 1;
			continue;
		}
		if (n->lenient)
			forget_interruptions(buf, (int)len);
		rc = mnl_cb_run(buf, (size_t)len, seq, port, cb, ctx);
	} while (rc > 0);
	return rc < 0 ? -errno : 0;
}

int nft_batch_begin(struct nft_batch *b, struct nft *n)
{
	memset(b, 0, sizeof(*b));
	b->nft = n;
	b->first_seq = n->seq + 1;
	b->scratch = malloc(NFT_SCRATCH);
	if (!b->scratch)
		return -ENOMEM;
	nftnl_batch_begin(b->scratch, ++n->seq);
	nft_batch_push(b, (struct nlmsghdr *)b->scratch);
	buf_append(&b->places, (char[NFT_PLACE]){"transaction"}, NFT_PLACE);
	return 0;
}

struct nlmsghdr *nft_batch_message(struct nft_batch *b, uint16_t type, uint16_t flags, const char *place)
{
	char text[NFT_PLACE] = {0};

	strncpy(text, place, sizeof(text) - 1);
	buf_append(&b->places, text, sizeof(text));
	return nftnl_nlmsg_build_hdr(b->scratch, type, NFPROTO_INET, flags, ++b->nft->seq);
}

void nft_batch_push(struct nft_batch *b, struct nlmsghdr *nlh)
{
	buf_append(&b->bytes, nlh, NLMSG_ALIGN(nlh->nlmsg_len));
}

static const char *message_place(const struct nft_batch *b, uint32_t seq)
{
	size_t at = (size_t)(seq - b->first_seq) * NFT_PLACE;

	return at + NFT_PLACE <= b->places.len ? b->places.data + at : "transaction";
}

static int attr_cb(const struct nlattr *attr, void *data)
{
	const char **text = data;

	if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG)
		*text = mnl_attr_get_str(attr);
	return MNL_CB_OK;
}

/* The first error counts: those behind it are its consequences. */
static void take_error(struct nft_batch *b, const struct nlmsghdr *nlh, int *rc, struct vgw_err *err)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	const char *text = NULL;

	uint32_t index = nlh->nlmsg_seq - b->first_seq;

	if (e->error && index < 64)
		b->refused |= (uint64_t)1 << index;
	if (!e->error || *rc)
		return;
	*rc = e->error;
	if (nlh->nlmsg_flags & NLM_F_ACK_TLVS)
		mnl_attr_parse(nlh, sizeof(*e), attr_cb, &text);
	vgw_err_set(err, e->error, e->error == -EPERM ? "NotPermitted" : "KernelError",
		    message_place(b, nlh->nlmsg_seq), "%s%s%s", strerror(-e->error), text ? ": " : "",
		    text ? text : "");
}

/* The kernel works inside sendmsg(2): what it has to say is there when that returns. */
static int collect(struct nft_batch *b, struct vgw_err *err)
{
	char buf[16384];
	int rc = 0, lost = 0;

	for (;;) {
		ssize_t len = recv(mnl_socket_get_fd(b->nft->socket), buf, sizeof(buf), MSG_DONTWAIT);
		struct nlmsghdr *nlh = (struct nlmsghdr *)buf;
		int left = (int)len;

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0 && errno == ENOBUFS) {
			lost = 1;
			continue;
		}
		if (len < 0)
			break;
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
			if (nlh->nlmsg_type == NLMSG_ERROR &&
			    nlh->nlmsg_seq - b->first_seq <= b->nft->seq - b->first_seq)
				take_error(b, nlh, &rc, err);
	}
	if (!rc && lost)
		rc = vgw_err_set(err, -ENOBUFS, "KernelError", "transaction",
				 "the kernel's answers were lost");
	return rc;
}

int nft_batch_send(struct nft_batch *b, bool commit, struct vgw_err *err)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct iovec iov;
	struct msghdr msg = {
		.msg_name = &kernel, .msg_namelen = sizeof(kernel), .msg_iov = &iov, .msg_iovlen = 1};
	int size;

	if (commit) {
		nftnl_batch_end(b->scratch, ++b->nft->seq);
		nft_batch_push(b, (struct nlmsghdr *)b->scratch);
	}
	if (b->bytes.failed || b->places.failed)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "transaction", "no memory");
	size = (int)b->bytes.len + 4096;
	setsockopt(mnl_socket_get_fd(b->nft->socket), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	iov.iov_base = b->bytes.data;
	iov.iov_len = b->bytes.len;
	if (sendmsg(mnl_socket_get_fd(b->nft->socket), &msg, 0) < 0) {
		int rc = -errno;

		return vgw_err_set(err, rc, rc == -EPERM ? "NotPermitted" : "KernelError", "transaction",
				   "cannot send %zu bytes to nftables: %s", b->bytes.len, strerror(-rc));
	}
	return collect(b, err);
}

void nft_batch_free(struct nft_batch *b)
{
	buf_free(&b->bytes);
	buf_free(&b->places);
	free(b->scratch);
	b->scratch = NULL;
}

#define PROBE_TABLE "vgw_agent_probe"

static int probe_table(struct nft_batch *b, const char *name, uint32_t flags)
{
	struct nftnl_table *t = nftnl_table_alloc();
	struct nlmsghdr *nlh;

	if (!t)
		return -ENOMEM;
	nftnl_table_set_str(t, NFTNL_TABLE_NAME, name);
	nftnl_table_set_u32(t, NFTNL_TABLE_FLAGS, flags);
	nlh = nft_batch_message(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, "feature");
	nftnl_table_nlmsg_build_payload(nlh, t);
	nft_batch_push(b, nlh);
	nftnl_table_free(t);
	return 0;
}

static int probe_chain(struct nft_batch *b)
{
	struct nftnl_chain *c = nftnl_chain_alloc();
	struct nlmsghdr *nlh;

	if (!c)
		return -ENOMEM;
	nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, PROBE_TABLE);
	nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, "c");
	nlh = nft_batch_message(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE, "feature");
	nftnl_chain_nlmsg_build_payload(nlh, c);
	nft_batch_push(b, nlh);
	nftnl_chain_free(c);
	return 0;
}

/* A rule of one expression. */
static int probe_rule(struct nft_batch *b, const struct nx *x)
{
	struct nftnl_rule *r = nftnl_rule_alloc();
	struct nft_rule rule = {.x = x, .n = 1};
	int rc = r ? nft_rule_encode(&rule, r) : -ENOMEM;
	struct nlmsghdr *nlh;

	if (!rc) {
		nftnl_rule_set_str(r, NFTNL_RULE_TABLE, PROBE_TABLE);
		nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, "c");
		nlh = nft_batch_message(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, "feature");
		nftnl_rule_nlmsg_build_payload(nlh, r);
		nft_batch_push(b, nlh);
	}
	if (r)
		nftnl_rule_free(r);
	return rc;
}

/* The messages of the trial, in their order: each is refused or not by itself. */
enum {
	PROBE_BEGIN,
	PROBE_PLAIN,
	PROBE_CHAIN,
	PROBE_SECPATH,
	PROBE_LOG,
	PROBE_OBJECT,
	PROBE_OBJREF,
	PROBE_OWNER
};

static int probe_write(struct nft_batch *b)
{
	static const struct nx secpath = {.kind = NX_META, .has_dreg = 1, .a = NFT_META_SECPATH};
	static const struct nx log = {.kind = NX_LOG, .a = NFT_LOG_GROUP, .b = 80};
	static const struct nx object = {
		.kind = NX_OBJECT, .a = NFT_OBJECT_CT_TIMEOUT, .name = NFT_RETRY_OBJECT};
	static const uint32_t syn_sent[NFT_TCP_TIMEOUTS] = {NFT_RETRY_SYN_S};
	int rc = probe_table(b, PROBE_TABLE, 0);

	if (!rc)
		rc = probe_chain(b);
	if (!rc)
		rc = probe_rule(b, &secpath);
	if (!rc)
		rc = probe_rule(b, &log);
	if (!rc)
		nft_put_retry_object(b, PROBE_TABLE, syn_sent);
	if (!rc)
		rc = probe_rule(b, &object);
	if (!rc)
		rc = probe_table(b, PROBE_TABLE "_owner", VGW_NFT_TABLE_F_OWNER | VGW_NFT_TABLE_F_PERSIST);
	return rc;
}

static bool taken(const struct nft_batch *b, unsigned message)
{
	return !(b->refused >> message & 1);
}

/* One trial for all: the kernel waits for an RCU grace period, 10 to 20 ms, whenever it takes one back. */
int nft_probe(struct nft *n, struct nft_features *out, struct vgw_err *err)
{
	struct nft_batch b;
	int rc = nft_batch_begin(&b, n);

	memset(out, 0, sizeof(*out));
	if (!rc)
		rc = probe_write(&b);
	if (!rc)
		rc = nft_batch_send(&b, false, err);
	if (b.refused && taken(&b, PROBE_PLAIN) && taken(&b, PROBE_CHAIN))
		rc = 0;
	if (!rc) {
		out->secpath = taken(&b, PROBE_SECPATH);
		out->log = taken(&b, PROBE_LOG);
		out->retry = taken(&b, PROBE_OBJECT) && taken(&b, PROBE_OBJREF);
		out->owner_persist = taken(&b, PROBE_OWNER);
		if (err)
			memset(err, 0, sizeof(*err));
	}
	nft_batch_free(&b);
	return rc;
}
