/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/echo.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/icmp.h>

#include "netcfg/model/sockaddr.h"
#include "vgw/clock.h"
#include "vgw/probe/echo_packet.h"

enum {
	BATCH = 512,	   /* packets read before others get their turn */
	REMEMBERED = 4096, /* probes whose size is known; a power of two */
	FILL = 8192,	   /* even, for the checksum */
	PIECES = 65535 / FILL + 3,
	SEEN = 256, /* of a packet: headers and tag; the rest need not be copied */
	QUEUE_BYTES = 1 << 20,
};

struct echo {
	struct ev_loop *loop;
	ev_io io;
	ev_timer timer;
	echo_progress_fn *progress;
	echo_done_fn *done;
	void *ctx;
	int fd;
	bool raw, cancelled, busy;
	uint8_t family;
	uint16_t ident;
	uint64_t nonce;
	int error;
	struct echo_progress told;
	struct pmtu_search search;
	uint16_t size_of[REMEMBERED]; /* by id */
};

/* What requests are filled with: not to be compressed on the way, or larger ones would seem to pass. */
static uint8_t fill[FILL];

static void make_fill(void)
{
	uint32_t x = 0x9e3779b9;

	if (fill[0])
		return;
	for (size_t i = 0; i < sizeof(fill); i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		fill[i] = (uint8_t)(x >> 24);
	}
	fill[0] = 0xa5;
}

static void destroy(struct echo *e)
{
	ev_io_stop(e->loop, &e->io);
	ev_timer_stop(e->loop, &e->timer);
	if (e->fd >= 0)
		close(e->fd);
	free(e);
}

/* -- what has come -- */

/* The size of a probe of ours; 0 for what is not. Old routers quote no more than the sequence number. */
static uint32_t quoted_size(const struct echo *e, const struct echo_head *head)
{
	uint32_t next = e->search.next_id, id;

	if (head->tagged) {
		if (head->nonce != e->nonce || !head->id || head->id >= next || next - head->id > REMEMBERED)
			return 0;
		return e->size_of[head->id % REMEMBERED] == head->size ? head->size : 0;
	}
	if (e->raw && head->ident != e->ident)
		return 0;
	id = head->seq;
	if (!id || id >= next || next - id > REMEMBERED)
		return 0;
	return e->size_of[id % REMEMBERED];
}

static void take_reply(struct echo *e, const uint8_t *data, size_t len, size_t full, int64_t now)
{
	struct echo_head head;

	if (echo_read_reply(e->family, e->raw && e->family == IP_V4, data, len, full, &head))
		return;
	if (head.size == quoted_size(e, &head))
		pmtu_search_reply(&e->search, head.id, head.size, now);
}

static void drain_replies(struct echo *e)
{
	/* MSG_TRUNC makes raw sockets say how long a packet was without copying it; ping sockets copy it. */
	static uint8_t rest[65536];

	for (int n = 0; n < BATCH; n++) {
		uint8_t data[SEEN];
		struct iovec iov[] = {{data, sizeof(data)}, {rest, sizeof(rest)}};
		struct msghdr m = {.msg_iov = iov, .msg_iovlen = e->raw ? 1 : 2};
		ssize_t full = recvmsg(e->fd, &m, MSG_DONTWAIT | MSG_TRUNC);

		if (full < 0 && errno == EAGAIN)
			break;
		if (full < 0)
			continue; /* an error that is also in the error queue, told once */
		take_reply(e, data, (size_t)full < sizeof(data) ? (size_t)full : sizeof(data), (size_t)full,
			   clock_mono_us());
	}
}

/* -1 when the queue is empty; else 0 and what it says, the mtu 0 and SIZE 0 for what is not ours. */
static int next_error(struct echo *e, struct echo_error *error, uint32_t *size)
{
	uint8_t data[SEEN];
	union {
		struct cmsghdr aligned;
		uint8_t bytes[512];
	} control;
	struct iovec iov = {data, sizeof(data)};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct echo_head head;
	ssize_t n = recvmsg(e->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);

	*size = 0;
	memset(error, 0, sizeof(*error));
	if (n < 0)
		return -1;
	if (echo_read_error(&m, error))
		return 0;
	if (!error->local && !echo_read_quote(e->family, data, (size_t)n, &head))
		*size = quoted_size(e, &head);
	return 0;
}

/*
 * Empties the error queue. True when this host itself has refused a packet as too big; *MTU is what it named
 * then. Such a refusal may also come after the packet was taken, from IPsec or a tunnel below.
 */
static bool drain_errors(struct echo *e, uint32_t *mtu)
{
	struct echo_error error;
	bool refused = false;
	uint32_t size;

	*mtu = 0;
	for (int i = 0; i < BATCH && !next_error(e, &error, &size); i++) {
		if (error.local && error.code == EMSGSIZE) {
			refused = true;
			*mtu = error.mtu;
		} else if (size && error.code == EMSGSIZE) {
			pmtu_search_report(&e->search, size, error.mtu, clock_mono_us());
		} else if (size || error.local) {
			e->error = error.code;
		}
	}
	return refused;
}

static void drain(struct echo *e)
{
	uint32_t mtu;

	drain_replies(e);
	if (drain_errors(e, &mtu) && mtu)
		pmtu_search_too_big(&e->search, 0, mtu + 1, mtu, clock_mono_us());
}

/* -- what goes out -- */

static int transmit(struct echo *e, const struct pmtu_search_probe *probe)
{
	const struct echo_head head = {
		.ident = e->ident,
		.seq = (uint16_t)probe->id,
		.nonce = e->nonce,
		.id = probe->id,
		.size = probe->size,
	};
	size_t least = echo_ip_header(e->family) + ECHO_HEAD, left = probe->size - least, pieces = 1;
	uint8_t packet[ECHO_HEAD];
	struct iovec iov[PIECES] = {{packet, sizeof(packet)}};
	struct msghdr m = {.msg_iov = iov};
	uint32_t sum;

	if (probe->size < least) /* a device may name any limit */
		return -EINVAL;
	echo_encode(e->family, &head, packet);
	sum = echo_sum(0, packet, sizeof(packet));
	for (; left; pieces++) {
		iov[pieces].iov_base = fill;
		iov[pieces].iov_len = left < FILL ? left : FILL;
		left -= iov[pieces].iov_len;
		sum = echo_sum(sum, fill, iov[pieces].iov_len);
	}
	m.msg_iovlen = pieces;
	/* ICMPv6's has the addresses in it, and the kernel computes it (RFC 3542 3.1). */
	if (e->family == IP_V4)
		echo_put_checksum(packet, sum);
	return sendmsg(e->fd, &m, MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void send_probe(struct echo *e, const struct pmtu_search_probe *probe)
{
	int pending, rc = 0;
	socklen_t len = sizeof(pending);

	e->size_of[probe->id % REMEMBERED] = (uint16_t)probe->size;
	/* An error that came from the network would be returned instead of sending, once. */
	for (int i = 0; i < 3; i++) {
		uint32_t mtu;

		getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &pending, &len);
		rc = transmit(e, probe);
		if (rc != -EMSGSIZE && rc != -EHOSTUNREACH && rc != -ENETUNREACH && rc != -ECONNREFUSED)
			break;
		if (drain_errors(e, &mtu)) {
			pmtu_search_too_big(&e->search, probe->id, probe->size, mtu, clock_mono_us());
			return;
		}
	}
	if (rc == -EMSGSIZE)
		pmtu_search_too_big(&e->search, probe->id, probe->size, 0, clock_mono_us());
	else if (rc == -EAGAIN || rc == -ENOBUFS || rc == -ENOMEM)
		pmtu_search_unsent(&e->search, probe->id, probe->size, clock_mono_us());
	else if (rc)
		e->error = -rc; /* a local firewall, or no route just now: counts as lost */
}

/* -- one step -- */

static void report(struct echo *e)
{
	struct echo_progress p = {.sent = e->search.sent};

	pmtu_search_range(&e->search, &p.low, &p.high);
	if (!e->progress || (p.low == e->told.low && p.high == e->told.high))
		return;
	e->told = p;
	e->progress(e->ctx, &p);
}

static void finish(struct echo *e, const struct pmtu_search_result *path, enum pmtu_search_state state)
{
	const struct echo_result result = {
		.state = state,
		.path = *path,
		.raw = e->raw,
		.error = state == PMTU_SEARCH_UNKNOWN ? e->error : 0,
	};
	echo_done_fn *done = e->done;
	void *ctx = e->ctx;

	destroy(e);
	done(ctx, &result);
}

static void step(struct echo *e)
{
	struct pmtu_search_probe probe;
	struct pmtu_search_result path;
	enum pmtu_search_state state;
	int64_t wait;

	drain(e);
	while (pmtu_search_next(&e->search, clock_mono_us(), &probe))
		send_probe(e, &probe);
	e->busy = true;
	report(e);
	e->busy = false;
	if (e->cancelled) {
		destroy(e);
		return;
	}
	state = pmtu_search_result(&e->search, clock_mono_us(), &path);
	if (state != PMTU_SEARCH_RUNNING) {
		finish(e, &path, state);
		return;
	}
	wait = pmtu_search_wait(&e->search, clock_mono_us());
	ev_now_update(e->loop);
	ev_timer_stop(e->loop, &e->timer);
	ev_timer_set(&e->timer, (double)wait / 1e6, 0.0);
	ev_timer_start(e->loop, &e->timer);
}

static void on_io(struct ev_loop *loop, struct ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	step(w->data);
}

static void on_timer(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	step(w->data);
}

/* -- the beginning -- */

/* Of a link-local address the link is part of the place. */
static socklen_t scoped_sockaddr(const struct ip_addr *a, uint32_t scope, struct sockaddr_storage *out)
{
	socklen_t len = ip_to_sockaddr(a, 0, out);

	if (a->family == IP_V6)
		((struct sockaddr_in6 *)out)->sin6_scope_id = scope;
	return len;
}

/* A raw socket hears all of the host's ICMP: only replies are of use. */
static int filter(int fd, uint8_t family)
{
	if (family == IP_V6) {
		struct icmp6_filter f;

		ICMP6_FILTER_SETBLOCKALL(&f);
		ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &f);
		return setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &f, sizeof(f));
	} else {
		struct icmp_filter f = {~(1u << ICMP_ECHOREPLY)};

		return setsockopt(fd, SOL_RAW, ICMP_FILTER, &f, sizeof(f));
	}
}

static int open_socket(struct echo *e, struct vgw_err *err)
{
	int domain = e->family == IP_V6 ? AF_INET6 : AF_INET;
	int protocol = e->family == IP_V6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	int rc;

	e->raw = true;
	e->fd = socket(domain, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	if (e->fd >= 0)
		return filter(e->fd, e->family) ? vgw_err_set(err, -errno, "Failed", NULL, "ICMP filter: %m")
						: 0;
	if (errno == EPERM || errno == EACCES) {
		e->raw = false;
		e->fd = socket(domain, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	}
	if (e->fd >= 0)
		return 0;
	rc = -errno;
	if (rc == -EPERM || rc == -EACCES)
		return vgw_err_set(err, rc, "PermissionDenied", NULL,
				   "ICMP echo needs CAP_NET_RAW, or a group in net.ipv4.ping_group_range");
	return vgw_err_set(err, rc, "Failed", NULL, "ICMP socket: %s", strerror(-rc));
}

static int set_options(const struct echo *e)
{
	const int on = 1, bytes = QUEUE_BYTES;
	const int probe = e->family == IP_V6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE;

	/* The system's limit may be lower, which costs packets only where many large ones come at once. */
	setsockopt(e->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (e->family == IP_V6)
		return setsockopt(e->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe)) ||
		       setsockopt(e->fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
	return setsockopt(e->fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe)) ||
	       setsockopt(e->fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
}

static int bind_and_connect(struct echo *e, const struct echo_params *p, struct vgw_err *err)
{
	char text[IP_ADDR_STRLEN];
	struct sockaddr_storage ss;
	socklen_t len;
	int rc;

	if (p->interface && setsockopt(e->fd, SOL_SOCKET, SO_BINDTODEVICE, p->interface,
				       (socklen_t)strnlen(p->interface, IFNAMSIZ)))
		return vgw_err_set(err, -errno, errno == EPERM ? "PermissionDenied" : "Failed", p->interface,
				   "%m");
	if (p->source.family != IP_NONE) {
		len = scoped_sockaddr(&p->source, p->scope, &ss);
		if (bind(e->fd, (struct sockaddr *)&ss, len))
			return vgw_err_set(err, -errno, "AddressNotAvailable",
					   ip_addr_print(&p->source, text), "%m");
	}
	len = scoped_sockaddr(&p->address, p->scope, &ss);
	if (!connect(e->fd, (struct sockaddr *)&ss, len))
		return 0;
	rc = -errno;
	return vgw_err_set(err, rc, rc == -EACCES ? "PermissionDenied" : "NoRoute",
			   ip_addr_print(&p->address, text), "%s", strerror(-rc));
}

static int begin(struct echo *e, const struct echo_params *params, struct vgw_err *err)
{
	struct pmtu_search_params search = params->search;
	int rc;

	if (params->source.family != IP_NONE && params->source.family != e->family)
		return vgw_err_set(err, -EINVAL, "AddressNotAvailable", NULL,
				   "the source is of another family");
	if (getrandom(&e->nonce, sizeof(e->nonce), GRND_NONBLOCK) != sizeof(e->nonce) ||
	    getrandom(&e->ident, sizeof(e->ident), GRND_NONBLOCK) != sizeof(e->ident))
		return vgw_err_set(err, -EAGAIN, "Failed", NULL, "no random numbers yet");
	rc = open_socket(e, err);
	if (rc)
		return rc;
	if (set_options(e))
		return vgw_err_set(err, -errno, "Failed", NULL, "ICMP socket options: %m");
	rc = bind_and_connect(e, params, err);
	if (rc)
		return rc;
	if (!search.floor)
		search.floor = e->family == IP_V6 ? PMTU_FLOOR_V6 : PMTU_FLOOR_V4;
	pmtu_search_init(&e->search, &search, clock_mono_us());
	if (e->search.params.floor < echo_ip_header(e->family) + ECHO_HEAD)
		return vgw_err_set(err, -EINVAL, "Failed", NULL, "less than %zu bytes cannot be measured",
				   echo_ip_header(e->family) + ECHO_HEAD);
	return 0;
}

struct echo *echo_start(struct ev_loop *loop, const struct echo_params *params, echo_progress_fn *progress,
			echo_done_fn *done, void *ctx, struct vgw_err *err)
{
	struct echo *e = calloc(1, sizeof(*e));

	if (!e) {
		vgw_err_set(err, -ENOMEM, "Failed", NULL, "out of memory");
		return NULL;
	}
	make_fill();
	e->loop = loop;
	e->progress = progress;
	e->done = done;
	e->ctx = ctx;
	e->fd = -1;
	e->family = params->address.family;
	ev_init(&e->io, on_io);
	ev_init(&e->timer, on_timer);
	e->io.data = e->timer.data = e;
	if (begin(e, params, err)) {
		destroy(e);
		return NULL;
	}
	ev_io_set(&e->io, e->fd, EV_READ);
	ev_io_start(loop, &e->io);
	ev_timer_start(loop, &e->timer); /* at once, but from the loop */
	return e;
}

void echo_cancel(struct echo *e)
{
	if (!e)
		return;
	if (e->busy)
		e->cancelled = true;
	else
		destroy(e);
}
