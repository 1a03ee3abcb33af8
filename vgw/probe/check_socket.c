/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/check_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netcfg/model/sockaddr.h"

static int over(struct check_result *out, enum check_stage stage, enum check_code code, const char *detail)
{
	out->stage = stage;
	out->code = code;
	snprintf(out->detail, sizeof(out->detail), "%s", detail);
	return -ECONNABORTED;
}

static bool out_of_resources(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS || err == EAGAIN;
}

static int bind_source(int fd, const struct ip_addr *source, struct check_result *out)
{
	struct sockaddr_storage ss;
	socklen_t len = ip_to_sockaddr(source, 0, &ss);
	const int on = 1;

	/* The port is chosen by connect(2) then, for this destination alone: else all checks of a host
	 * together would have to share the ephemeral ports. Without it the check still works. */
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (!bind(fd, (struct sockaddr *)&ss, len))
		return 0;
	if (out_of_resources(errno) || errno == EADDRINUSE)
		return -EAGAIN;
	if (errno == EADDRNOTAVAIL) {
		char text[IP_ADDR_STRLEN];

		over(out, CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, "");
		snprintf(out->detail, sizeof(out->detail), "source address %s is not on this host",
			 ip_addr_print(source, text));
		return -ECONNABORTED;
	}
	return over(out, CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, strerror(errno));
}

/*
 * TCP says EADDRNOTAVAIL both where all local ports to this destination are in use and where no address of
 * this host can be the source (IPv6); UDP only in the second case.
 */
static bool ports_are_out(const struct ip_endpoint *target)
{
	struct sockaddr_storage ss;
	socklen_t len = ip_to_sockaddr(&target->addr, target->port, &ss);
	int s = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool out = s < 0 || !connect(s, (struct sockaddr *)&ss, len) || errno != EADDRNOTAVAIL;

	if (s >= 0)
		close(s);
	return out;
}

/* An error that connect(2) returned itself. */
static int connect_failed(int err, struct check_result *out)
{
	switch (err) {
	case ECONNREFUSED:
	case ECONNRESET:
		/* Loopback answers before connect(2) is back. */
		return over(out, CHECK_STAGE_CONNECT, CHECK_REFUSED, "connection refused");
	case EINVAL:
		return over(out, CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, "blackhole route");
	case EACCES:
		return over(out, CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, "prohibited or not a host's address");
	default:
		if (out_of_resources(err))
			return -EAGAIN;
		return over(out, CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, strerror(err));
	}
}

static int begin(int fd, const struct ip_endpoint *target, const struct ip_addr *source,
		 struct check_result *out)
{
	struct sockaddr_storage ss;
	socklen_t len = ip_to_sockaddr(&target->addr, target->port, &ss);
	const int on = 1;

	/* A handshake is small writes that each wait for an answer. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (source->family != IP_NONE) {
		int rc = bind_source(fd, source, out);

		if (rc)
			return rc;
	}
	if (!connect(fd, (struct sockaddr *)&ss, len) || errno == EINPROGRESS || errno == EINTR)
		return 0;
	if (errno == EADDRNOTAVAIL)
		return ports_are_out(target)
			       ? -EAGAIN
			       : over(out, CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, "no source address for it");
	return connect_failed(errno, out);
}

int check_socket_open(const struct ip_endpoint *target, const struct ip_addr *source, int *fd,
		      struct check_result *out)
{
	int family = target->addr.family == IP_V6 ? AF_INET6 : AF_INET;
	int s = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	int rc;

	if (s < 0) {
		if (out_of_resources(errno))
			return -EAGAIN;
		return over(out, CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, strerror(errno)); /* IPv6 is off */
	}
	rc = begin(s, target, source, out);
	if (rc) {
		close(s);
		return rc;
	}
	*fd = s;
	return 0;
}

int check_socket_connected(int fd, struct check_result *out)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	switch (err) {
	case 0:
		return 0;
	case ECONNREFUSED:
		return over(out, CHECK_STAGE_CONNECT, CHECK_REFUSED, "connection refused");
	case ECONNRESET:
		return over(out, CHECK_STAGE_CONNECT, CHECK_REFUSED, "connection reset");
	case ETIMEDOUT:
		return over(out, CHECK_STAGE_CONNECT, CHECK_TIMEOUT, strerror(err));
	default:
		/* The neighbour did not answer, or a router said so. */
		return over(out, CHECK_STAGE_CONNECT, CHECK_UNREACHABLE, strerror(err));
	}
}
