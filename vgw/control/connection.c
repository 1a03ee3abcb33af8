/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: a state machine that does a bounded piece of work whenever its socket is ready, so that no
 * client can hold up another.
 */
#include "vgw/control/internal.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netcfg/base/log.h"

enum {
	CONN_CROWD = 16, /* connections that are worth tidying up after */
	CONN_KEEP = 2048 /* a buffer of this size may stay with an idle connection */
};

static void conn_unlink(struct conn *c)
{
	struct control_server *s = c->server;

	*(c->prev ? &c->prev->next : &s->first) = c->next;
	*(c->next ? &c->next->prev : &s->last) = c->prev;
}

static void conn_append(struct conn *c)
{
	struct control_server *s = c->server;

	c->prev = s->last;
	c->next = NULL;
	*(s->last ? &s->last->next : &s->first) = c;
	s->last = c;
}

static void queue_remove(struct conn *c)
{
	struct control_server *s = c->server;
	struct conn **p;

	for (p = &s->queue; *p; p = &(*p)->next_in_queue)
		if (*p == c) {
			*p = c->next_in_queue;
			if (s->queue_end == &c->next_in_queue)
				s->queue_end = p;
			break;
		}
	c->queued = false;
}

/* The timer only ever fires too early, and then looks again: requests seldom need to touch the heap. */
static void set_deadline(struct conn *c, double seconds)
{
	struct ev_loop *loop = c->server->loop;

	c->deadline = ev_now(loop) + seconds;
	if (ev_is_active(&c->timer)) {
		if (ev_timer_remaining(loop, &c->timer) <= seconds)
			return;
		ev_timer_stop(loop, &c->timer);
	}
	ev_timer_set(&c->timer, seconds, 0);
	ev_timer_start(loop, &c->timer);
}

/* A stream takes 38 KiB. What a crowd has left behind goes back to the system, not to an allocator's list. */
static void release_memory(struct control_server *s)
{
	if (s->peak < CONN_CROWD || s->n_network > s->peak / 4)
		return;
	s->peak = s->n_network;
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

void conn_destroy(struct conn *c)
{
	struct control_server *s = c->server;
	bool tell = c->state == CONN_HANDLING && c->request.deferred && c->request.gone;

	if (c->queued)
		queue_remove(c);
	conn_unlink(c);
	if (s->n_network > s->peak)
		s->peak = s->n_network;
	*(c->local ? &s->n_local : &s->n_network) -= 1;
	ev_io_stop(s->loop, &c->io);
	ev_timer_stop(s->loop, &c->timer);
	if (tell)
		c->request.gone(c->request.gone_ctx, &c->request);
	if (c->tls && c->state != CONN_HANDSHAKE)
		tls_stream_close(c->tls);
	tls_stream_free(c->tls);
	close(c->fd);
	buf_wipe(&c->in);
	buf_free(&c->out);
	http_message_free(&c->request.message);
	free(c);
	release_memory(s);
}

static long conn_read(struct conn *c, void *data, size_t len)
{
	ssize_t n;

	if (c->tls)
		return tls_stream_read(c->tls, data, len);
	if (!c->budget)
		return -EAGAIN;
	n = recv(c->fd, data, len < c->budget ? len : c->budget, 0);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	c->budget -= (size_t)n;
	return n;
}

static long conn_write(struct conn *c, const void *data, size_t len)
{
	ssize_t n;

	if (c->tls)
		return tls_stream_write(c->tls, data, len);
	n = send(c->fd, data, len, MSG_NOSIGNAL);
	return n >= 0 ? n : errno == EINTR ? -EAGAIN : -errno;
}

static size_t pending(const struct conn *c)
{
	return c->out.len - c->out_pos;
}

/* 0 when everything is written. */
static int write_out(struct conn *c)
{
	size_t budget = CONTROL_TURN_WRITE;

	while (pending(c)) {
		size_t len = pending(c) < budget ? pending(c) : budget;
		long n = len ? conn_write(c, c->out.data + c->out_pos, len) : -EAGAIN;

		if (n < 0)
			return (int)n;
		c->out_pos += (size_t)n;
		budget -= (size_t)n;
	}
	c->out_pos = 0;
	if (c->out.cap > CONN_KEEP)
		buf_free(&c->out);
	else
		buf_consume(&c->out, c->out.len);
	return 0;
}

/* Closing at once with unread input would reset the connection, and the answer with it. */
static int begin_linger(struct conn *c)
{
	if (c->tls && c->state != CONN_HANDSHAKE)
		tls_stream_close(c->tls);
	tls_stream_free(c->tls);
	c->tls = NULL;
	shutdown(c->fd, SHUT_WR);
	buf_free(&c->in);
	c->state = CONN_LINGER;
	set_deadline(c, CONTROL_LINGER);
	return 0;
}

static int step_writing(struct conn *c)
{
	struct control_server *s = c->server;
	size_t before = pending(c);
	int rc = write_out(c);

	if (rc == -EAGAIN) {
		double left = c->write_deadline - ev_now(s->loop);

		if (pending(c) != before || !c->deadline)
			set_deadline(c, s->limits.request_timeout < left ? s->limits.request_timeout : left);
		return rc;
	}
	if (rc)
		return rc;
	if (c->closing)
		return begin_linger(c);
	http_message_reset(&c->request.message);
	c->state = CONN_IDLE;
	set_deadline(c, s->limits.idle_timeout);
	conn_unlink(c);
	conn_append(c);
	return 0;
}

static int step_handshake(struct conn *c)
{
	struct control_server *s = c->server;
	char from[IP_ADDR_STRLEN], why[200];
	struct tls_context *ctx;
	int rc = 0;

	if (!c->tls) {
		ctx = credentials_context(s);
		rc = ctx ? tls_stream_new(ctx, c->fd, NULL, &c->tls) : -ENOENT;
		if (rc)
			return rc;
		tls_stream_allow(c->tls, c->budget);
	}
	rc = tls_stream_handshake(c->tls);
	if (rc == -EAGAIN || rc == -ECONNRESET)
		return rc;
	if (rc) {
		log_debug("control: handshake with %s failed: %s", ip_addr_print(&c->peer, from),
			  tls_stream_error(c->tls, why, sizeof(why)));
		return begin_linger(c); /* or the reset would overtake the alert that says why */
	}
	admission_certificate(c);
	if (c->role != CONTROL_ROLE_NONE)
		credentials_proved(s, tls_stream_context(c->tls));
	c->state = CONN_IDLE;
	set_deadline(c, s->limits.idle_timeout);
	conn_unlink(c);
	conn_append(c);
	return 0;
}

static int feed(struct conn *c, const char *data, size_t len, size_t *used)
{
	struct http_message *m = &c->request.message;
	enum http_result result = http_message_feed(m, data, len, used);

	switch (result) {
	case HTTP_MESSAGE_MORE:
		if (c->state == CONN_IDLE && m->started) {
			c->state = CONN_READING;
			set_deadline(c, c->server->limits.request_timeout);
		}
		break;
	case HTTP_MESSAGE_COMPLETE:
		request_dispatch(c);
		break;
	case HTTP_MESSAGE_FAILED:
		request_refuse(c, &m->problem);
		break;
	}
	return 0;
}

/* Takes what was read ahead, or reads, and gives it to the parser. */
static int step_input(struct conn *c)
{
	char *scratch = c->server->scratch;
	size_t used;
	long n;

	if (c->in.len) {
		/* The dispatch may read ahead no more: `in` is stable under it. */
		feed(c, c->in.data, c->in.len, &used);
		buf_consume(&c->in, used);
		if (!c->in.len)
			buf_wipe(&c->in);
		return 0;
	}
	n = conn_read(c, scratch, CONTROL_SCRATCH);
	if (n <= 0)
		return n ? (int)n : -ECONNRESET;
	/* A handler that is called from here must not come back to the scratch: see conn_arm() for answers.
	 */
	feed(c, scratch, (size_t)n, &used);
	buf_append(&c->in, scratch + used, (size_t)n - used);
	if (c->request.message.has_body)
		explicit_bzero(scratch, used);
	return c->in.failed ? -ENOMEM : 0;
}

/* Keeps an eye on a client whose request is being handled. */
static int step_ahead(struct conn *c)
{
	long n;

	if (c->in.len >= CONTROL_READ_AHEAD)
		return -EAGAIN;
	n = conn_read(c, c->server->scratch, CONTROL_SCRATCH);
	if (n <= 0)
		return n ? (int)n : -ECONNRESET;
	buf_append(&c->in, c->server->scratch, (size_t)n);
	return c->in.failed ? -ENOMEM : 0;
}

static int step_linger(struct conn *c)
{
	long n = conn_read(c, c->server->scratch, CONTROL_SCRATCH);

	return n > 0 ? 0 : n ? (int)n : -ECONNRESET;
}

static int step(struct conn *c, unsigned *answered)
{
	int rc;

	switch (c->state) {
	case CONN_HANDSHAKE:
		return step_handshake(c);
	case CONN_IDLE:
		/* After an answer the client's next request is not there yet: save the call that says so. */
		if (*answered && !c->in.len)
			return -EAGAIN;
		if (*answered >= CONTROL_TURN_REQUESTS)
			return -EAGAIN;
		return step_input(c);
	case CONN_READING:
		if (pending(c)) { /* "100 Continue" */
			rc = write_out(c);
			if (rc && rc != -EAGAIN)
				return rc;
		}
		return step_input(c);
	case CONN_HANDLING:
		return step_ahead(c);
	case CONN_WRITING:
		++*answered;
		return step_writing(c);
	case CONN_LINGER:
		return step_linger(c);
	}
	return -EINVAL;
}

static void conn_pump(struct conn *c)
{
	unsigned answered = 0;
	int rc;

	c->running = true;
	c->budget = CONTROL_TURN_BYTES;
	if (c->tls)
		tls_stream_allow(c->tls, c->budget);
	do
		rc = step(c, &answered);
	while (!rc);
	c->running = false;
	if (rc == -EAGAIN)
		conn_arm(c);
	else
		conn_destroy(c);
}

static int wanted_events(const struct conn *c)
{
	switch (c->state) {
	case CONN_HANDSHAKE:
		return c->tls && tls_stream_wants_write(c->tls) ? EV_WRITE : EV_READ;
	case CONN_IDLE:
	case CONN_READING:
		/* Requests left over from this turn: writability brings us back in the next one. */
		return EV_READ | (pending(c) || c->in.len ? EV_WRITE : 0);
	case CONN_HANDLING:
		return c->in.len < CONTROL_READ_AHEAD ? EV_READ : 0;
	case CONN_WRITING:
		return EV_WRITE;
	case CONN_LINGER:
		return EV_READ;
	}
	return 0;
}

void conn_arm(struct conn *c)
{
	struct ev_loop *loop = c->server->loop;
	int events = wanted_events(c);

	if (c->state == CONN_HANDLING) { /* as long as the handler likes */
		c->deadline = 0;
		ev_timer_stop(loop, &c->timer);
	}
	if (ev_is_active(&c->io) ? (c->io.events & (EV_READ | EV_WRITE)) == events : !events)
		return;
	ev_io_stop(loop, &c->io);
	if (events) {
		ev_io_set(&c->io, c->fd, events);
		ev_io_start(loop, &c->io);
	}
}

void conn_wake(struct conn *c)
{
	/* A full socket may never call back: the wait for it is bounded from here on. */
	set_deadline(c, c->server->limits.request_timeout);
	conn_arm(c);
}

/*
 * A handshake costs milliseconds of arithmetic, so only one is carried on per turn of the loop, first come
 * first served; those left out are called again in the next turn, as their sockets stay readable.
 */
static struct conn *next_handshake(struct conn *c)
{
	struct control_server *s = c->server;

	if (!c->queued) {
		c->queued = true;
		c->next_in_queue = NULL;
		*s->queue_end = c;
		s->queue_end = &c->next_in_queue;
	}
	if (s->turn == ev_iteration(s->loop))
		return NULL;
	s->turn = ev_iteration(s->loop);
	c = s->queue;
	queue_remove(c);
	return c;
}

static void on_ready(struct ev_loop *loop, ev_io *w, int revents)
{
	struct conn *c = w->data;

	(void)loop;
	(void)revents;
	if (c->state == CONN_HANDSHAKE)
		c = next_handshake(c);
	if (c)
		conn_pump(c);
}

static void on_deadline(struct ev_loop *loop, ev_timer *w, int revents)
{
	static const struct http_problem late = {408, "RequestTimeout", "the request did not arrive in time"};
	struct conn *c = w->data;
	double left = c->deadline - ev_now(loop);

	(void)revents;
	if (!c->deadline)
		return;
	if (left > 0.001) {
		ev_timer_set(w, left, 0);
		ev_timer_start(loop, w);
	} else if (c->state == CONN_READING) {
		request_refuse(c, &late);
	} else {
		conn_destroy(c);
	}
}

static void set_tcp_options(int fd)
{
	int one = 1, idle = 30, interval = 10, count = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* The only way to learn that the client of a long poll has lost its power. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

int conn_new(struct control_server *s, int fd, const struct ip_addr *peer, bool local)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	c->server = s;
	c->fd = fd;
	c->peer = *peer;
	c->local = local;
	http_message_init(&c->request.message, s->limits.header, s->limits.body);
	c->request.message.on_head = request_on_head;
	c->request.message.on_head_ctx = c;
	ev_io_init(&c->io, on_ready, fd, EV_READ);
	ev_init(&c->timer, on_deadline);
	c->io.data = c->timer.data = c;
	conn_append(c);
	*(local ? &s->n_local : &s->n_network) += 1;
	if (local) {
		c->state = CONN_IDLE;
		admission_peer_credentials(c);
		set_deadline(c, s->limits.idle_timeout);
	} else {
		c->state = CONN_HANDSHAKE;
		set_tcp_options(fd);
		set_deadline(c, s->limits.handshake_timeout);
	}
	conn_arm(c);
	return 0;
}
