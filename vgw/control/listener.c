/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets: TCP before its address exists, and the Unix socket with nothing but a rename between. */
#include "vgw/control/internal.h"

#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "netcfg/base/log.h"
#include "netcfg/model/sockaddr.h"

enum { LISTEN_BACKLOG = 128, ACCEPTS_PER_TURN = 16 };

/* Descriptors or memory have run out: the backlog would make the loop spin, so look again a little later. */
static void pause_accepting(struct control_server *s)
{
	struct listener *l;

	if (!s->starved)
		log_warning("control: cannot accept connections: %s; trying again", strerror(errno));
	s->starved = true;
	for (l = s->listeners; l; l = l->next)
		ev_io_stop(s->loop, &l->io);
	ev_timer_stop(s->loop, &s->resume);
	ev_timer_set(&s->resume, 0.2, 0);
	ev_timer_start(s->loop, &s->resume);
}

static void on_resume(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct control_server *s = w->data;
	struct listener *l;

	(void)revents;
	for (l = s->listeners; l; l = l->next)
		ev_io_start(loop, &l->io);
}

static void on_accept(struct ev_loop *loop, ev_io *w, int revents)
{
	struct listener *l = w->data;
	int i;

	(void)loop;
	(void)revents;
	for (i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage sa = {0};
		socklen_t len = sizeof(sa);
		struct ip_endpoint peer;
		int fd = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
				pause_accepting(l->server);
			/* Anything else is EAGAIN, or a fault of that one connection (accept(2)). */
			return;
		}
		l->server->starved = false;
		ip_from_sockaddr(&sa, &peer);
		server_accepted(l->server, fd, &peer.addr, l->endpoint.addr.family == IP_NONE);
	}
}

/* Takes FD. */
static int listener_start(struct control_server *s, int fd, const struct ip_endpoint *endpoint)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->server = s;
	l->fd = fd;
	if (endpoint)
		l->endpoint = *endpoint;
	ev_io_init(&l->io, on_accept, fd, EV_READ);
	l->io.data = l;
	ev_io_start(s->loop, &l->io);
	l->next = s->listeners;
	s->listeners = l;
	ev_set_cb(&s->resume, on_resume);
	s->resume.data = s;
	return 0;
}

/* Binding before the address exists: it may come with the interface, long after us. */
static int set_options(int fd, uint8_t family)
{
	int one = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		return -errno;
	if (family == IP_V4)
		return setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one)) ? -errno : 0;
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one)))
		return -errno;
	return 0;
}

int listener_tcp(struct control_server *s, const struct ip_endpoint *endpoint, struct vgw_err *err)
{
	char place[IP_ENDPOINT_STRLEN];
	struct sockaddr_storage sa;
	socklen_t len = ip_to_sockaddr(&endpoint->addr, endpoint->port, &sa);
	struct listener *l;
	int fd, rc;

	for (l = s->listeners; l; l = l->next)
		if (l->endpoint.addr.family != IP_NONE && !ip_endpoint_cmp(&l->endpoint, endpoint))
			return 0;
	ip_endpoint_print(endpoint, place);
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return vgw_err_set(err, -errno, "ListenFailed", place, "no socket: %s", strerror(errno));
	rc = set_options(fd, endpoint->addr.family);
	if (!rc && (bind(fd, (struct sockaddr *)&sa, len) || listen(fd, LISTEN_BACKLOG)))
		rc = -errno;
	if (rc) {
		close(fd);
		if (rc == -EADDRINUSE)
			return vgw_err_set(err, rc, "AddressInUse", place,
					   "another program listens on the control channel's address");
		return vgw_err_set(err, rc, "ListenFailed", place, "cannot listen: %s", strerror(-rc));
	}
	rc = listener_start(s, fd, endpoint);
	return rc ? vgw_err_set(err, rc, "OutOfMemory", place, "no memory for a listener") : 0;
}

/* 0 when PATH is free or stale (nobody listens), else -errno. */
static int probe_socket(const struct sockaddr_un *sun)
{
	struct stat st;
	int fd, rc;

	if (lstat(sun->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) ? -errno : -EADDRINUSE;
	close(fd);
	if (rc == -ECONNREFUSED || rc == -ENOENT)
		return 0;
	return rc == -EAGAIN ? -EADDRINUSE : rc; /* a full backlog is somebody's */
}

/* /etc/group alone: a name service could block the agent's start, and a static binary has none. */
static bool find_group(const char *name, gid_t *out)
{
	FILE *f = fopen("/etc/group", "re");
	struct group *g;
	bool found = false;

	while (f && !found && (g = fgetgrent(f))) {
		found = !strcmp(g->gr_name, name);
		*out = g->gr_gid;
	}
	if (f)
		fclose(f);
	return found;
}

/* Ready under another name before it takes PATH: nobody finds it without its mode and group. */
static int bind_aside(struct control_server *s, int fd, const char *path)
{
	struct sockaddr_un aside = {.sun_family = AF_UNIX};
	struct stat st;
	int rc = 0;

	if (snprintf(aside.sun_path, sizeof(aside.sun_path), "%s.new", path) >= (int)sizeof(aside.sun_path))
		return -ENAMETOOLONG;
	unlink(aside.sun_path);
	if (bind(fd, (struct sockaddr *)&aside, sizeof(aside)))
		return -errno;
	if (s->has_group && chown(aside.sun_path, (uid_t)-1, s->group))
		log_warning("control: %s stays out of its group's reach: %s", path, strerror(errno));
	if (chmod(aside.sun_path, 0660) || listen(fd, LISTEN_BACKLOG) || lstat(aside.sun_path, &st) ||
	    rename(aside.sun_path, path))
		rc = -errno;
	if (rc) {
		unlink(aside.sun_path);
		return rc;
	}
	s->socket_dev = st.st_dev;
	s->socket_ino = st.st_ino;
	return 0;
}

int listener_unix(struct control_server *s, const char *group, struct vgw_err *err)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	const char *path = s->socket;
	int fd, rc;

	if (strlen(path) + strlen(".new") >= sizeof(sun.sun_path))
		return vgw_err_set(err, -ENAMETOOLONG, "ListenFailed", path, "the path is too long");
	strcpy(sun.sun_path, path);
	rc = probe_socket(&sun);
	if (rc == -EADDRINUSE)
		return vgw_err_set(err, rc, "AddressInUse", path, "another vgw-agent answers there already");
	if (rc)
		return vgw_err_set(err, rc, "ListenFailed", path, "%s",
				   rc == -EEXIST ? "there is something else than a socket" : strerror(-rc));
	s->has_group = group && find_group(group, &s->group);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return vgw_err_set(err, -errno, "ListenFailed", path, "no socket: %s", strerror(errno));
	rc = bind_aside(s, fd, path);
	if (rc) {
		close(fd);
		return vgw_err_set(err, rc, "ListenFailed", path, "cannot listen: %s", strerror(-rc));
	}
	rc = listener_start(s, fd, NULL);
	return rc ? vgw_err_set(err, rc, "OutOfMemory", path, "no memory for a listener") : 0;
}

void listener_close_all(struct control_server *s)
{
	struct listener *l;
	struct stat st;

	ev_timer_stop(s->loop, &s->resume);
	while ((l = s->listeners)) {
		s->listeners = l->next;
		ev_io_stop(s->loop, &l->io);
		close(l->fd);
		free(l);
	}
	/* A successor may have taken the path over. */
	if (s->socket && s->socket_ino && !lstat(s->socket, &st) && st.st_dev == s->socket_dev &&
	    st.st_ino == s->socket_ino)
		unlink(s->socket);
}
