// SPDX-License-Identifier: Apache-2.0
/* The clients of the rows about failing backends. One line on stdout for each connection; times are seconds
 * of CLOCK_MONOTONIC. Ends by itself, or earlier at SIGTERM.
 *
 *   watch rate PER_SECOND SECONDS TIMEOUT ADDRESS PORT
 *       new connections to a server that sends its name and closes, at a steady rate with jitter (half to one
 * and a half intervals apart: two loads in step would always be dealt the same backends): START DURATION
 * ok|refused|reset|timeout|closed|other NAME watch hold ACTIVE IDLE SECONDS ADDRESS PORT connections to a
 * server that sends its name and then echoes; the active ones send a byte every 20 ms and want it back, the
 * idle ones only wait: END active|idle reset|closed|stalled|open NAME */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { NAME = 16, MAX_OPEN = 8192 };
static const double PULSE = 0.02;

struct conn {
	int fd, live, active;
	double start, due; /* due: when it is given up, or sends the next byte */
	unsigned have;
	uint64_t sent, echoed;
	double heard;
	char name[NAME];
};

static struct conn conns[MAX_OPEN];
static volatile sig_atomic_t over;
static int ep;

static void on_term(int number)
{
	(void)number;
	over = 1;
}

static const char *outcome(int error)
{
	switch (error) {
	case 0:
		return "closed";
	case ECONNREFUSED:
		return "refused";
	case ECONNRESET:
	case EPIPE:
		return "reset";
	case ETIMEDOUT:
		return "timeout";
	default:
		return "other";
	}
}

static struct conn *begin(const struct sockaddr_in *to, double start)
{
	struct conn *c = conns;

	while (c < conns + MAX_OPEN && c->live)
		c++;
	if (c == conns + MAX_OPEN)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	c->start = start;
	c->live = 1;
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};

	if (connect(c->fd, (const struct sockaddr *)to, sizeof(*to)) != 0 && errno != EINPROGRESS)
		c->due = 0;
	epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
	return c;
}

static void finish(struct conn *c, const char *how)
{
	printf("%.6f %.6f %s %s\n", c->start, bench_now() - c->start, how, c->name[0] ? c->name : "-");
	close(c->fd);
	c->live = 0;
}

/* Takes the name from what arrives; 1 once it is there, -errno or -EPROTO (end of file) when the connection
 * is over. */
static int hear(struct conn *c)
{
	char buffer[4096];
	ssize_t n = read(c->fd, buffer, sizeof(buffer));
	int error = 0;
	socklen_t size = sizeof(error);

	if (n < 0 && errno == EAGAIN) {
		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
		return error ? -error : 0;
	}
	if (n < 0)
		return -errno;
	if (n == 0)
		return -EPROTO;
	ssize_t i = 0;

	for (; !c->have && i < n; i++) { /* the line with the name, up to its end */
		size_t length = strlen(c->name);

		if (buffer[i] == '\n')
			c->have = 1;
		else if (length + 1 < NAME && !strchr(c->name, ' '))
			c->name[length] = buffer[i];
	}
	char *blank = strchr(c->name, ' ');

	if (c->have && blank)
		*blank = 0;
	c->echoed += (uint64_t)(n - i);
	c->heard = bench_now();
	return c->have ? 1 : 0;
}

static int rate(double per_second, double seconds, double timeout, const struct sockaddr_in *to)
{
	srand48((long)getpid());
	double start = bench_now(), end = start + seconds, last = end + timeout;
	double due = start;
	int open = 0;
	struct epoll_event events[256];

	for (;;) {
		double now = bench_now();

		if (over && end > now)
			end = now, last = now + timeout;
		if ((now >= end && open == 0) || now >= last + 1)
			return 0;
		while (now < end && due <= now) {
			struct conn *c = begin(to, now);

			due += (0.5 + drand48()) / per_second;
			if (!c)
				return 1;
			c->due = now + timeout;
			open++;
		}
		double next = now < end ? due : last;
		struct timespec span = bench_span(next - now < 0.01 ? next - now : 0.01);
		int n = epoll_pwait2(ep, events, 256, &span, NULL);

		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			int heard = hear(c);

			if (heard == 0)
				continue;
			finish(c, heard == 1 ? "ok" : outcome(heard == -EPROTO ? 0 : -heard));
			open--;
		}
		now = bench_now();
		for (struct conn *c = conns; open && c < conns + MAX_OPEN; c++)
			if (c->live && c->due <= now) {
				finish(c, "timeout");
				open--;
			}
	}
}

static void ended(struct conn *c, const char *how)
{
	printf("%.6f %s %s %s\n", bench_now(), c->active ? "active" : "idle", how, c->name);
	fflush(stdout);
	close(c->fd);
	c->live = 0;
}

static void hold_until(double end, int count)
{
	struct epoll_event events[256];

	while (!over && bench_now() < end) {
		struct timespec span = bench_span(0.005);
		int n = epoll_pwait2(ep, events, 256, &span, NULL);

		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			int heard = hear(c);

			if (heard < 0)
				ended(c, outcome(heard == -EPROTO ? 0 : -heard));
		}
		double now = bench_now();

		for (int i = 0; i < count; i++) {
			struct conn *c = &conns[i];

			if (!c->live || !c->active || c->due > now)
				continue;
			c->due = now + PULSE;
			if (write(c->fd, "x", 1) == 1)
				c->sent++;
			else if (errno != EAGAIN)
				ended(c, outcome(errno));
		}
	}
}

static int hold(int active, int idle, double seconds, const struct sockaddr_in *to)
{
	struct timespec settle = {.tv_nsec = 300000000};
	int count = active + idle;

	if (count > MAX_OPEN)
		return 2;
	for (int i = 0; i < count; i++) {
		struct conn *c = begin(to, bench_now());
		double limit = bench_now() + 5;

		while (!c->have && bench_now() < limit && hear(c) >= 0)
			nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
		if (!c->have) {
			fprintf(stderr, "a connection to hold got no name\n");
			return 1;
		}
		/* of every two one is active, as long as both are asked for */
		c->active = active > 0 && (idle == 0 || i % 2 == 0);
		active -= c->active;
		idle -= !c->active;
		c->echoed = 0;
	}
	puts("holding");
	fflush(stdout);
	hold_until(bench_now() + seconds, count);
	/* what was sent last may still be on its way */
	over = 0;
	nanosleep(&settle, NULL);
	for (int i = 0; i < count; i++) {
		struct conn *c = &conns[i];
		int heard = 0;

		if (!c->live)
			continue;
		if (c->active)
			heard = hear(c);
		if (heard < 0)
			ended(c, outcome(heard == -EPROTO ? 0 : -heard));
		else
			ended(c, c->active && c->echoed < c->sent ? "stalled" : "open");
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction term = {.sa_handler = on_term};

	sigaction(SIGTERM, &term, NULL);
	signal(SIGPIPE, SIG_IGN);
	ep = epoll_create1(0);
	if (argc == 7 && strcmp(argv[1], "rate") == 0) {
		struct sockaddr_in to = bench_address(argv[5], atoi(argv[6]));

		puts("started");
		fflush(stdout);
		return rate(atof(argv[2]), atof(argv[3]), atof(argv[4]), &to);
	}
	if (argc == 7 && strcmp(argv[1], "hold") == 0) {
		struct sockaddr_in to = bench_address(argv[5], atoi(argv[6]));

		return hold(atoi(argv[2]), atoi(argv[3]), atof(argv[4]), &to);
	}
	fprintf(stderr, "usage: watch rate PER_SECOND SECONDS TIMEOUT ADDRESS PORT | hold ACTIVE IDLE "
			"SECONDS ADDRESS PORT\n");
	return 2;
}
