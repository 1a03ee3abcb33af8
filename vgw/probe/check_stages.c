/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/check_internal.h"

#include <errno.h>
#include <mbedtls/net_sockets.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgw/control/tls_compat.h"
#include "vgw/probe/check_session.h"
#include "vgw/probe/check_socket.h"

void check_watch(struct check *c, int events)
{
	if (c->events == events)
		return;
	ev_io_stop(c->loop, &c->io);
	c->events = events;
	if (!events)
		return;
	ev_io_set(&c->io, c->fd, events);
	ev_io_start(c->loop, &c->io);
}

void check_decide(struct check *c, enum check_stage stage, enum check_code code, const char *fmt, ...)
{
	va_list ap;

	c->decided = true;
	c->result.stage = stage;
	c->result.code = code;
	va_start(ap, fmt);
	vsnprintf(c->result.detail, sizeof(c->result.detail), fmt, ap);
	va_end(ap);
}

void check_drop_ssl(struct check *c)
{
	if (c->has_ssl)
		mbedtls_ssl_free(&c->ssl);
	c->has_ssl = false;
	buf_free(&c->request);
}

static int on_send(void *ctx, const unsigned char *data, size_t len)
{
	struct check *c = ctx;
	ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);

	if (n >= 0)
		return (int)n;
	if (errno == EAGAIN || errno == EINTR)
		return MBEDTLS_ERR_SSL_WANT_WRITE;
	if (errno == ECONNRESET || errno == EPIPE)
		return MBEDTLS_ERR_NET_CONN_RESET;
	return MBEDTLS_ERR_NET_SEND_FAILED;
}

static int on_recv(void *ctx, unsigned char *data, size_t len)
{
	struct check *c = ctx;
	ssize_t n;

	if (len > c->budget)
		len = c->budget;
	if (!len)
		return MBEDTLS_ERR_SSL_WANT_READ; /* the loop calls again: there is more */
	n = recv(c->fd, data, len, 0);
	if (n >= 0) {
		c->budget -= (size_t)n;
		return (int)n;
	}
	if (errno == EAGAIN || errno == EINTR)
		return MBEDTLS_ERR_SSL_WANT_READ;
	if (errno == ECONNRESET)
		return MBEDTLS_ERR_NET_CONN_RESET;
	return MBEDTLS_ERR_NET_RECV_FAILED;
}

/* True when RC only means "later"; then the loop will call again. */
static bool wait_for(struct check *c, int rc)
{
	if (rc == MBEDTLS_ERR_SSL_WANT_READ) {
		check_watch(c, EV_READ);
		return true;
	}
	if (rc == MBEDTLS_ERR_SSL_WANT_WRITE) {
		check_watch(c, EV_WRITE);
		return true;
	}
	return false;
}

static bool is_eof(int rc)
{
	return rc == 0 || rc == MBEDTLS_ERR_SSL_CONN_EOF || rc == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY;
}

/* The handshake did not come about. */
static void tls_failed(struct check *c, int rc)
{
	char why[sizeof(c->result.detail)];

	c->usable = false;
	check_tls_explain(&c->ssl, rc, why, sizeof(why));
	check_decide(c, CHECK_STAGE_TLS, CHECK_TLS_FAILED, "%s", why);
}

/* -- http -- */

static bool send_request(struct check *c)
{
	while (c->sent < c->request.len) {
		int rc = mbedtls_ssl_write(&c->ssl, (const unsigned char *)c->request.data + c->sent,
					   c->request.len - c->sent);

		if (rc > 0) {
			c->sent += (size_t)rc;
			continue;
		}
		if (tls_compat_repeat(rc))
			continue;
		if (!wait_for(c, rc)) {
			c->usable = false;
			check_decide(c, CHECK_STAGE_HTTP, CHECK_MALFORMED, "connection reset");
		}
		return false;
	}
	return true;
}

/* The connection is over before the answer was. */
static void answer_failed(struct check *c, int rc)
{
	if (is_eof(rc)) {
		check_http_judge(&c->http, c->spec, &c->result);
		c->decided = true;
		return;
	}
	c->usable = false;
	if (rc == MBEDTLS_ERR_NET_CONN_RESET || rc == MBEDTLS_ERR_NET_RECV_FAILED) {
		check_decide(c, CHECK_STAGE_HTTP, CHECK_MALFORMED, "connection reset");
		return;
	}
	/* In TLS 1.3 the client is done first, and learns only now that the server is not content with it. */
	tls_failed(c, rc);
}

static void read_answer(struct check *c)
{
	unsigned char data[CHECK_READ_SIZE];

	while (!c->decided) {
		int rc = mbedtls_ssl_read(&c->ssl, data, sizeof(data));

		if (rc > 0) {
			if (check_http_feed(&c->http, data, (size_t)rc) || c->http.answered) {
				check_http_judge(&c->http, c->spec, &c->result);
				c->decided = true;
			}
		} else if (!tls_compat_repeat(rc)) {
			if (!wait_for(c, rc))
				answer_failed(c, rc);
			return;
		}
	}
}

static void step_http(struct check *c)
{
	if (send_request(c))
		read_answer(c);
}

/* -- tls -- */

static void begin_tls(struct check *c)
{
	c->stage = CHECK_STAGE_TLS;
	mbedtls_ssl_init(&c->ssl);
	c->has_ssl = true;
	if (mbedtls_ssl_setup(&c->ssl, check_tls_config(c->tls, c->second))) {
		check_decide(c, CHECK_STAGE_TLS, CHECK_TLS_FAILED, "out of memory");
		return;
	}
	/* No SNI: RFC 6066 3 has no addresses in it. NULL also tells 3.6 that this is meant. */
	mbedtls_ssl_set_hostname(&c->ssl, NULL);
	mbedtls_ssl_set_bio(&c->ssl, c, on_send, on_recv, NULL);
	c->offered = c->memory && check_session_offer(c->memory, &c->ssl);
	if (c->offered)
		c->remembered = c->memory->certificate; /* another check of this server may fail meanwhile */
}

/* Only a whole handshake shows a certificate, and the session that was offered had none. */
static bool is_resumed(const struct check *c)
{
	return c->offered && !mbedtls_ssl_get_peer_cert(&c->ssl);
}

static void judge(struct check *c)
{
	int64_t good_until = INT64_MAX;

	if (is_resumed(c)) {
		c->result.certificate = c->remembered;
		return;
	}
	check_tls_judge(c->tls, &c->ssl, c->spec->ca, &c->gateway, &c->result, &good_until);
	if (c->memory && c->result.code == CHECK_OK)
		check_session_keep(c->memory, &c->ssl, &c->result.certificate, good_until);
}

static void handshake_done(struct check *c)
{
	c->result.stage = CHECK_STAGE_TLS;
	judge(c);
	if (c->result.code != CHECK_OK) {
		c->decided = true;
		return;
	}
	if (c->spec->type != SPEC_CHECK_HTTPS) {
		check_decide(c, CHECK_STAGE_TLS, CHECK_OK, "%s", mbedtls_ssl_get_version(&c->ssl));
		return;
	}
	c->stage = CHECK_STAGE_HTTP;
	check_http_init(&c->http);
	check_http_request(&c->request, &c->target, c->spec->path && *c->spec->path ? c->spec->path : "/");
	if (c->request.failed)
		check_decide(c, CHECK_STAGE_HTTP, CHECK_MALFORMED, "out of memory");
}

/* Begin again with a new connection. */
static void begin_second(struct check *c)
{
	int rc;

	check_drop_ssl(c);
	check_watch(c, 0);
	close(c->fd);
	c->fd = -1;
	c->usable = false;
	c->second = true;
	c->stage = CHECK_STAGE_CONNECT;
	rc = check_socket_open(&c->target, &c->source, &c->fd, &c->result);
	if (!rc)
		check_watch(c, EV_WRITE);
	else if (rc == -ECONNABORTED)
		c->decided = true;
	else
		check_decide(c, CHECK_STAGE_TLS, CHECK_TLS_FAILED, "no second connection: out of resources");
}

static void step_tls(struct check *c)
{
	int rc;

	do
		rc = mbedtls_ssl_handshake(&c->ssl);
	while (tls_compat_repeat(rc));
	if (!rc)
		handshake_done(c);
	else if (wait_for(c, rc))
		return;
	else if (!c->second && check_tls_try_second(&c->ssl, rc))
		begin_second(c);
	else
		tls_failed(c, rc);
}

/* -- connect -- */

static void step_connect(struct check *c)
{
	if (check_socket_connected(c->fd, &c->result)) {
		c->decided = true;
		return;
	}
	c->usable = true;
	if (c->spec->type == SPEC_CHECK_TCP)
		check_decide(c, CHECK_STAGE_CONNECT, CHECK_OK, "connected");
	else
		begin_tls(c);
}

void check_step(struct check *c)
{
	enum check_stage before;

	c->budget = CHECK_READ_BUDGET;
	do {
		before = c->stage;
		switch (c->stage) {
		case CHECK_STAGE_NONE:
		case CHECK_STAGE_ROUTE:
			break;
		case CHECK_STAGE_CONNECT:
			step_connect(c);
			break;
		case CHECK_STAGE_TLS:
			step_tls(c);
			break;
		case CHECK_STAGE_HTTP:
			step_http(c);
			break;
		}
	} while (!c->decided && c->stage > before);
}

bool check_body_goes_on(struct check *c)
{
	unsigned char data[CHECK_READ_SIZE];

	while (c->result.stage == CHECK_STAGE_HTTP && c->http.answered && !c->http.complete) {
		int rc = mbedtls_ssl_read(&c->ssl, data, sizeof(data));

		if (rc > 0) {
			if (check_http_feed(&c->http, data, (size_t)rc))
				return false;
		} else if (!tls_compat_repeat(rc)) {
			return wait_for(c, rc);
		}
	}
	return false;
}
