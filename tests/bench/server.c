// SPDX-License-Identifier: Apache-2.0
/* The backend of the traffic rows: server PORT[-LAST]...
 * Answers fixed requests on connections that stay open, closes when asked to, or streams until the client has
 * had enough. A range of ports makes thousands of backends for health checks. One thread, epoll. */
#include "common.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

struct peer {
	int fd;
	char listening, streaming, closing;
	unsigned have;
	char request[REQUEST];
};

static int ep;
static char chunk[256 * 1024];

static void watch(struct peer *p, uint32_t events, int op)
{
	struct epoll_event e = {.events = events, .data.ptr = p};

	if (epoll_ctl(ep, op, p->fd, &e) != 0)
		perror("epoll_ctl");
}

static void listen_on(int port)
{
	struct peer *p = calloc(1, sizeof(*p));
	struct sockaddr_in sin = bench_address("0.0.0.0", port);
	int one = 1;

	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	p->listening = 1;
	setsockopt(p->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (p->fd < 0 || bind(p->fd, (struct sockaddr *)&sin, sizeof(sin)) != 0 || listen(p->fd, 4096) != 0) {
		fprintf(stderr, "port %d: %s\n", port, strerror(errno));
		exit(1);
	}
	watch(p, EPOLLIN, EPOLL_CTL_ADD);
}

static void accept_all(const struct peer *listener)
{
	for (int i = 0; i < 64; i++) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK), one = 1;
		struct peer *p;

		if (fd < 0)
			return;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		p = calloc(1, sizeof(*p));
		p->fd = fd;
		watch(p, EPOLLIN, EPOLL_CTL_ADD);
	}
}

static void drop(struct peer *p)
{
	close(p->fd);
	free(p);
}

/* 0 while the connection lives. */
static int serve(struct peer *p)
{
	for (;;) {
		ssize_t n = read(p->fd, p->request + p->have, REQUEST - p->have);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		p->have += (unsigned)n;
		if (p->have < REQUEST)
			continue;
		p->have = 0;
		if (p->request[0] == ASK_STREAM) {
			p->streaming = 1;
			watch(p, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
			return 0;
		}
		if (write(p->fd, chunk, ANSWER) != ANSWER || p->request[0] == ASK_CLOSE)
			return -1;
	}
}

static int stream(struct peer *p)
{
	for (int i = 0; i < 4; i++)
		if (write(p->fd, chunk, sizeof(chunk)) < 0)
			return errno == EAGAIN ? 0 : -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct rlimit files = {65536, 65536};
	struct epoll_event events[256];

	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGPIPE, SIG_IGN);
	ep = epoll_create1(0);
	for (int i = 1; i < argc; i++) {
		int first = atoi(argv[i]), last = first;
		const char *dash = strchr(argv[i], '-');

		if (dash)
			last = atoi(dash + 1);
		for (int port = first; port <= last; port++)
			listen_on(port);
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, events, 256, -1);

		for (int i = 0; i < n; i++) {
			struct peer *p = events[i].data.ptr;

			if (p->listening)
				accept_all(p);
			else if (!p->streaming ? serve(p) != 0
					       : stream(p) != 0 || (events[i].events & EPOLLHUP))
				drop(p);
		}
	}
}
