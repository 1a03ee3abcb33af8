// SPDX-License-Identifier: Apache-2.0
/* The load of the traffic rows: client MODE CONNECTIONS SECONDS RATE ADDRESS:PORT...
 *   keep    requests on kept-alive connections, one after another on each
 *   close   a connection for each request
 *   stream  every connection reads as fast as it can
 *   paced   RATE requests a second over kept-alive connections; latency counts from when a request was due,
 * so that a stall is not hidden by the requests that were not sent meanwhile The connections are dealt out
 * over the addresses. Ends by itself and prints what it saw as JSON. */
#include "common.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum mode { KEEP, CLOSE, STREAM, PACED };

struct conn {
	int fd;
	struct sockaddr_in to;
	char connecting, busy;
	unsigned have;
	double since; /* when the request was due */
};

static enum mode mode;
static int ep;
static struct conn *conns;
static int count;
static uint32_t *samples; /* microseconds */
static size_t taken, room;
static uint64_t done, failed, bytes;
static char sink[256 * 1024];

/* The first of each kind is told, so that a row that fails says why. */
static void fail(const char *what, int error)
{
	if (failed++ < 3)
		fprintf(stderr, "%s: %s\n", what, error ? strerror(error) : "ended early");
	if (failed > 10000)
		exit(1);
}

static void record(double since)
{
	if (taken == room) {
		room = room ? room * 2 : 65536;
		samples = realloc(samples, room * sizeof(*samples));
		if (!samples)
			exit(1);
	}
	samples[taken++] = (uint32_t)((bench_now() - since) * 1e6);
	done++;
}

static void watch(struct conn *c, uint32_t events, int op)
{
	struct epoll_event e = {.events = events, .data.ptr = c};

	epoll_ctl(ep, op, c->fd, &e);
}

static void ask(struct conn *c, double due)
{
	char request[REQUEST] = {mode == STREAM ? ASK_STREAM : mode == CLOSE ? ASK_CLOSE : ASK_KEEP};

	c->busy = 1;
	c->have = 0;
	c->since = due;
	if (write(c->fd, request, sizeof(request)) != (ssize_t)sizeof(request))
		fail("write", errno);
}

static void begin(struct conn *c)
{
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->connecting = 1;
	c->since = bench_now();
	if (connect(c->fd, (struct sockaddr *)&c->to, sizeof(c->to)) != 0 && errno != EINPROGRESS) {
		perror("connect");
		exit(1);
	}
	watch(c, EPOLLOUT, EPOLL_CTL_ADD);
}

static void again(struct conn *c)
{
	close(c->fd);
	c->busy = 0;
	begin(c);
}

static void connected(struct conn *c)
{
	int error = 0;
	socklen_t size = sizeof(error);

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error) {
		fail("connect", error);
		again(c);
		return;
	}
	c->connecting = 0;
	watch(c, EPOLLIN, EPOLL_CTL_MOD);
	if (mode != PACED)
		ask(c, mode == CLOSE ? c->since : bench_now());
}

static void readable(struct conn *c)
{
	ssize_t n = read(c->fd, sink, sizeof(sink));
	int error = n < 0 ? errno : 0;

	if (n < 0 && error == EAGAIN)
		return;
	if (n > 0) {
		bytes += (uint64_t)n;
		c->have += (unsigned)n;
		if (mode == STREAM || c->have < ANSWER || mode == CLOSE)
			return;
		c->busy = 0;
		record(c->since);
		if (mode == KEEP)
			ask(c, bench_now());
		return;
	}
	if (mode == CLOSE && n == 0 && c->have == ANSWER)
		record(c->since);
	else
		fail("read", error);
	again(c);
}

/* Sends what is due, in turn over the idle connections; returns when the next one is. */
static double pace(double start, double rate, uint64_t *sent, double now)
{
	static int next;

	while (start + (double)*sent / rate <= now) {
		int i;

		for (i = 0; i < count && (conns[next].busy || conns[next].connecting); i++)
			next = (next + 1) % count;
		if (i == count)
			return now + 1e-3; /* all are busy: the answer that frees one wakes us */
		ask(&conns[next], start + (double)(*sent)++ / rate);
		next = (next + 1) % count;
	}
	return start + (double)*sent / rate;
}

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t percentile(double p)
{
	return taken ? samples[(size_t)((double)(taken - 1) * p)] : 0;
}

static void report(double seconds)
{
	qsort(samples, taken, sizeof(*samples), ascending);
	printf("{\"done\":%llu,\"failed\":%llu,\"seconds\":%.4f,\"perSecond\":%.1f,\"bytesPerSecond\":%.0f,"
	       "\"p50us\":%u,\"p99us\":%u,\"maxus\":%u}\n",
	       (unsigned long long)done, (unsigned long long)failed, seconds, (double)done / seconds,
	       (double)bytes / seconds, percentile(0.50), percentile(0.99), percentile(1.0));
}

static void setup(int argc, char **argv)
{
	static const char *const names[] = {"keep", "close", "stream", "paced"};

	for (mode = KEEP; mode <= PACED && strcmp(argv[1], names[mode]) != 0; mode++)
		;
	count = atoi(argv[2]);
	if (mode > PACED || count < 1 || count > 10000)
		exit(2);
	conns = calloc((size_t)count, sizeof(*conns));
	for (int i = 0; i < count; i++) {
		char *target = strdup(argv[5 + i % (argc - 5)]), *colon = strchr(target, ':');

		if (!colon)
			exit(2);
		*colon = 0;
		conns[i].to = bench_address(target, atoi(colon + 1));
		free(target);
		begin(&conns[i]);
	}
}

int main(int argc, char **argv)
{
	struct rlimit files = {65536, 65536};
	struct epoll_event events[256];
	uint64_t sent = 0;
	double start, end;

	if (argc < 6) {
		fprintf(stderr,
			"usage: client keep|close|stream|paced CONNECTIONS SECONDS RATE ADDRESS:PORT...\n");
		return 2;
	}
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGPIPE, SIG_IGN);
	ep = epoll_create1(0);
	setup(argc, argv);
	double warm = 0.15, rate = atof(argv[4]);

	/* The first moments (connects, ARP, caches) do not count. */
	start = bench_now() + warm;
	end = start + atof(argv[3]);
	for (int counting = 0;;) {
		double now = bench_now(), wake = end;

		if (now >= end)
			break;
		if (!counting && now >= start) {
			counting = 1;
			done = failed = bytes = taken = 0;
		}
		if (!counting)
			wake = start;
		else if (mode == PACED)
			wake = pace(start, rate, &sent, now);
		struct timespec span = bench_span((wake < end ? wake : end) - now);
		int n = epoll_pwait2(ep, events, 256, &span, NULL);

		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;

			if (c->connecting)
				connected(c);
			else
				readable(c);
		}
	}
	report(bench_now() - start);
	return 0;
}
