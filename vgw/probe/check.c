/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/check_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "vgw/probe/check_socket.h"

enum {
	LINGER_BUDGET = 64 << 10, /* bytes thrown away while waiting for the other side to hang up */
	MAX_LINGERING = 512,
};
static const double LINGER_S = 1.0;

static double monotonic_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void unlist(struct check *c)
{
	struct check_tls *t = c->tls;

	if (!c->listed)
		return;
	*(c->prev ? &c->prev->next : &t->lingering) = c->next;
	*(c->next ? &c->next->prev : &t->lingering_last) = c->prev;
	t->n_lingering--;
	c->listed = false;
}

static void destroy(struct check *c)
{
	unlist(c);
	ev_io_stop(c->loop, &c->io);
	ev_timer_stop(c->loop, &c->timer);
	check_drop_ssl(c);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

/*
 * -- the end --
 *
 * The verdict is reported as soon as it is known; the connection may outlive it for a moment. Whoever hangs
 * up first keeps the connection in TIME_WAIT for a minute, and hanging up on data that is on its way is a
 * reset, which servers log. So the rest of the answer is read, close_notify is sent, and then the server has
 * a second to hang up first.
 */

/* True while the other side has not hung up. */
static bool still_open(struct check *c)
{
	char data[CHECK_READ_SIZE];

	while (c->lingered < LINGER_BUDGET) {
		ssize_t n = recv(c->fd, data, sizeof(data), 0);

		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		c->lingered += (size_t)n;
	}
	return false;
}

static void linger(struct check *c)
{
	c->budget = CHECK_READ_BUDGET;
	if (c->has_ssl) {
		if (check_body_goes_on(c))
			return;
		mbedtls_ssl_close_notify(&c->ssl);
		check_drop_ssl(c); /* what comes now need not be understood */
	}
	if (still_open(c))
		check_watch(c, EV_READ);
	else
		destroy(c);
}

static void list(struct check *c)
{
	struct check_tls *t = c->tls;

	if (t->n_lingering >= MAX_LINGERING)
		destroy(t->lingering);
	c->prev = t->lingering_last;
	c->next = NULL;
	*(c->prev ? &c->prev->next : &t->lingering) = c;
	t->lingering_last = c;
	t->n_lingering++;
	c->listed = true;
}

static void part(struct check *c)
{
	ev_timer_stop(c->loop, &c->timer);
	/* A handshake that hangs cannot be ended politely either. */
	if (!c->usable || !c->tls || (c->stage == CHECK_STAGE_TLS && c->result.code == CHECK_TIMEOUT)) {
		destroy(c);
		return;
	}
	/* Without TLS there is no other way to tell the server that this was all. */
	if (c->stage == CHECK_STAGE_CONNECT)
		shutdown(c->fd, SHUT_WR);
	list(c);
	ev_timer_set(&c->timer, LINGER_S, 0.0);
	ev_timer_start(c->loop, &c->timer);
	linger(c);
}

/* Report; C may be gone afterwards, and whatever the caller does in its callback is safe. */
static void finish(struct check *c)
{
	check_done_fn *done = c->done;
	void *ctx = c->ctx;
	struct check_result result = c->result;

	result.latency_ms = monotonic_ms() - c->started;
	if (c->memory && result.code != CHECK_OK)
		check_memory_forget(c->memory);
	c->done = NULL;
	c->spec = NULL;
	c->memory = NULL;
	part(c);
	done(ctx, &result);
}

static void on_io(struct ev_loop *loop, struct ev_io *w, int revents)
{
	struct check *c = w->data;

	(void)loop;
	(void)revents;
	if (!c->done) {
		linger(c);
		return;
	}
	check_step(c);
	if (c->decided)
		finish(c);
}

static void on_timer(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct check *c = w->data;

	(void)loop;
	(void)revents;
	if (!c->done) {
		destroy(c);
		return;
	}
	if (!c->decided)
		check_decide(c, c->stage, CHECK_TIMEOUT, "no answer within %u ms", c->spec->timeout_ms);
	finish(c);
}

void check_tls_hang_up(struct check_tls *t)
{
	while (t->lingering)
		destroy(t->lingering);
}

/* -- the beginning -- */

/* 0, or -EAGAIN when this host cannot check anything just now. */
static int begin(struct check *c)
{
	int rc;

	if (c->spec->type == SPEC_CHECK_NONE) {
		check_decide(c, CHECK_STAGE_NONE, CHECK_OK, "%s", "");
		return 0;
	}
	c->stage = CHECK_STAGE_CONNECT;
	rc = check_socket_open(&c->target, &c->source, &c->fd, &c->result);
	if (rc == -ECONNABORTED)
		c->decided = true;
	else if (rc)
		return rc;
	else
		check_watch(c, EV_WRITE);
	return 0;
}

struct check *check_start(struct ev_loop *loop, const struct check_params *params, check_done_fn *done,
			  void *ctx)
{
	struct check *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->loop = loop;
	c->done = done;
	c->ctx = ctx;
	c->tls = params->tls;
	c->spec = params->spec;
	c->target = params->target;
	c->source = params->source;
	c->gateway = params->gateway;
	c->memory = params->memory;
	c->fd = -1;
	c->started = monotonic_ms();
	ev_init(&c->io, on_io);
	ev_init(&c->timer, on_timer);
	c->io.data = c;
	c->timer.data = c;
	/* Where the loop was held up, an answer that is there counts before the time that has run out. */
	ev_set_priority(&c->timer, EV_MINPRI);
	if (begin(c)) {
		destroy(c);
		return NULL;
	}
	/* ev_now() is when the loop woke up, which may be long ago, and would be taken off the timeout. */
	ev_now_update(loop);
	ev_timer_set(&c->timer, c->decided ? 0.0 : c->spec->timeout_ms / 1e3, 0.0);
	ev_timer_start(loop, &c->timer);
	return c;
}

void check_cancel(struct check *c)
{
	if (c)
		destroy(c);
}
