/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/control/client.h"

#include <errno.h>
#include <http_parser.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "vgw/control/http.h"
#include "vgw/control/pem_file.h"
#include "vgw/control/tls.h"

enum { RESPONSE_MAX = 64 << 20, RESPONSE_HEADER_MAX = 64 << 10, TIMEOUT_DEFAULT = 30 };

struct exchange {
	int fd;
	struct tls_stream *tls;
	double deadline;
	const char *place; /* what to call the other side */
	struct vgw_err *err;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int timed_out(const struct exchange *x)
{
	return vgw_err_set(x->err, -ETIMEDOUT, "Timeout", x->place, "no answer in time");
}

/* 0 when the socket is ready. */
static int wait_for(const struct exchange *x, short events)
{
	struct pollfd p = {.fd = x->fd, .events = events};
	double left = x->deadline - now();
	int rc;

	if (left <= 0)
		return timed_out(x);
	rc = poll(&p, 1, left > 3600 ? 3600000 : (int)(left * 1000) + 1);
	if (rc < 0 && errno != EINTR)
		return vgw_err_set(x->err, -errno, "ConnectFailed", x->place, "%s", strerror(errno));
	return 0;
}

static int failed(const struct exchange *x, int rc, const char *doing)
{
	char text[256];

	if (rc == -EPROTO && x->tls)
		return vgw_err_set(x->err, rc, "TLSFailed", x->place, "%s",
				   tls_stream_error(x->tls, text, sizeof(text)));
	return vgw_err_set(x->err, rc, "ConnectionLost", x->place, "%s: %s", doing,
			   rc == -ECONNRESET ? "the agent closed the connection" : strerror(-rc));
}

static int refused(const struct exchange *x, int rc)
{
	if (rc == -ENOENT || rc == -ECONNREFUSED)
		return vgw_err_set(x->err, rc, "NoAgent", x->place,
				   "no agent answers at %s; is vgw-agent running?", x->place);
	if (rc == -EACCES)
		return vgw_err_set(x->err, rc, "Forbidden", x->place,
				   "no permission to use %s; be root or in the group vgw-agent", x->place);
	return vgw_err_set(x->err, rc, "ConnectFailed", x->place, "cannot connect to %s: %s", x->place,
			   strerror(-rc));
}

static int connect_unix(struct exchange *x, const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};

	x->place = path;
	if (strlen(path) >= sizeof(sun.sun_path))
		return refused(x, -ENAMETOOLONG);
	strcpy(sun.sun_path, path);
	x->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (x->fd < 0)
		return refused(x, -errno);
	while (connect(x->fd, (struct sockaddr *)&sun, sizeof(sun))) {
		struct timespec pause = {.tv_nsec = 10000000};

		if (errno != EAGAIN) /* a full backlog */
			return refused(x, -errno);
		if (now() > x->deadline)
			return timed_out(x);
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int connect_address(struct exchange *x, const struct addrinfo *ai)
{
	socklen_t len = sizeof(int);
	int rc, error = 0;

	x->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (x->fd < 0)
		return refused(x, -errno);
	if (!connect(x->fd, ai->ai_addr, ai->ai_addrlen))
		return 0;
	if (errno != EINPROGRESS)
		return refused(x, -errno);
	do {
		struct pollfd p = {.fd = x->fd, .events = POLLOUT};

		rc = wait_for(x, POLLOUT);
		if (!rc && poll(&p, 1, 0) == 1)
			break;
	} while (!rc);
	if (!rc && !getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &error, &len) && error)
		rc = refused(x, -error);
	return rc;
}

/* "HOST:PORT", "[V6]:PORT". HOST gets 256 bytes, PORT points into TEXT. */
static int split_host(const char *text, char *host, const char **port)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;

	if (!len || !colon[1])
		return -EINVAL;
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		return -EINVAL;
	}
	if (!len || len >= 256)
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	*port = colon + 1;
	return 0;
}

static int connect_tcp(struct exchange *x, const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *all, *ai;
	struct ip_addr literal;
	int rc;

	if (!ip_addr_parse(host, &literal))
		hints.ai_flags |= AI_NUMERICHOST;
	rc = getaddrinfo(host, port, &hints, &all);
	if (rc)
		return vgw_err_set(x->err, -EHOSTUNREACH, "ConnectFailed", x->place, "cannot resolve %s: %s",
				   host, gai_strerror(rc));
	rc = -EHOSTUNREACH;
	for (ai = all; ai; ai = ai->ai_next) {
		rc = connect_address(x, ai);
		if (!rc || rc == -ETIMEDOUT)
			break;
		if (x->fd >= 0)
			close(x->fd);
		x->fd = -1;
	}
	freeaddrinfo(all);
	return rc;
}

static int load_context(const struct client_target *t, struct tls_context **out, struct vgw_err *err)
{
	struct tls_pem pem = {
		.certificate_where = t->certificate,
		.key_where = t->key,
		.ca_where = t->ca,
	};
	int rc;

	if (!t->ca || !t->certificate || !t->key)
		return vgw_err_set(err, -EINVAL, "InvalidArgument", t->connect,
				   "a CA, a certificate and a key are needed");
	rc = pem_file_read(t->ca, &pem.ca, err);
	if (!rc)
		rc = pem_file_read(t->certificate, &pem.certificate, err);
	if (!rc)
		rc = pem_file_read(t->key, &pem.key, err);
	if (!rc)
		rc = tls_context_new(TLS_CLIENT, &pem, out, err);
	tls_pem_free(&pem);
	return rc;
}

static int shake_hands(struct exchange *x, struct tls_context *ctx, const char *host)
{
	int rc = tls_stream_new(ctx, x->fd, host, &x->tls);

	if (rc)
		return vgw_err_set(x->err, rc, "TLSFailed", x->place, "TLS cannot be set up");
	while ((rc = tls_stream_handshake(x->tls)) == -EAGAIN) {
		rc = wait_for(x, tls_stream_wants_write(x->tls) ? POLLOUT : POLLIN);
		if (rc)
			return rc;
	}
	if (rc == -ECONNRESET)
		return vgw_err_set(x->err, rc, "TLSFailed", x->place,
				   "the agent closed the connection during the handshake");
	return rc ? failed(x, rc, "handshake") : 0;
}

static int open_exchange(const struct client_target *t, struct exchange *x)
{
	struct tls_context *ctx = NULL;
	const char *port;
	char host[256];
	int rc;

	if (!t->connect && !t->socket)
		return vgw_err_set(x->err, -EINVAL, "InvalidArgument", NULL, "no socket and no address");
	if (!t->connect)
		return connect_unix(x, t->socket);
	x->place = t->connect;
	if (split_host(t->connect, host, &port))
		return vgw_err_set(x->err, -EINVAL, "InvalidArgument", t->connect,
				   "HOST:PORT or [ADDRESS]:PORT is meant");
	rc = load_context(t, &ctx, x->err);
	if (!rc)
		rc = connect_tcp(x, host, port);
	if (!rc)
		rc = shake_hands(x, ctx, host);
	tls_context_unref(ctx);
	return rc;
}

/* Returns a -errno without touching the error: an early answer may explain the failure. */
static int send_all(const struct exchange *x, const char *data, size_t len, bool *timeout)
{
	while (len) {
		long n = x->tls ? tls_stream_write(x->tls, data, len)
				: (long)send(x->fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && !x->tls)
			n = errno == EINTR ? -EAGAIN : -errno;
		if (n == -EAGAIN) {
			*timeout = wait_for(x, POLLOUT) != 0;
			if (*timeout)
				return -ETIMEDOUT;
			continue;
		}
		if (n < 0)
			return (int)n;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

struct reader {
	struct client_response *response;
	size_t header;
	bool head_only, in_etag, complete, too_large;
	struct buf field, etag;
};

static int on_field(http_parser *p, const char *at, size_t len)
{
	struct reader *r = p->data;

	r->header += len;
	if (r->in_etag)
		buf_consume(&r->field, r->field.len);
	r->in_etag = false;
	if (r->header > RESPONSE_HEADER_MAX)
		return -1;
	buf_append(&r->field, at, len);
	return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
	struct reader *r = p->data;

	r->header += len;
	if (!r->in_etag) {
		r->in_etag = true;
		if (!strcasecmp(buf_str(&r->field), "etag"))
			buf_consume(&r->etag, r->etag.len);
	}
	if (!strcasecmp(buf_str(&r->field), "etag"))
		buf_append(&r->etag, at, len);
	return r->header > RESPONSE_HEADER_MAX ? -1 : 0;
}

static int on_head(http_parser *p)
{
	struct reader *r = p->data;

	p->upgrade = 0;
	return r->head_only ? 1 : 0;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
	struct reader *r = p->data;
	struct buf *body = &r->response->body;

	if (len > RESPONSE_MAX - body->len) {
		r->too_large = true;
		return -1;
	}
	buf_append(body, at, len);
	return body->failed ? -1 : 0;
}

static int on_complete(http_parser *p)
{
	struct reader *r = p->data;

	if (p->status_code < 200) /* an interim response: the real one follows */
		return 0;
	r->response->status = p->status_code;
	r->complete = true;
	http_parser_pause(p, 1);
	return 0;
}

static const struct http_parser_settings settings = {
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_headers_complete = on_head,
	.on_body = on_body,
	.on_message_complete = on_complete,
};

/* Feeds what came; LEN 0 is the end of the stream. */
static int digest(const struct exchange *x, http_parser *p, const char *data, size_t len)
{
	struct reader *r = p->data;

	http_parser_execute(p, &settings, data, len);
	if (r->complete)
		return 0;
	if (r->too_large)
		return vgw_err_set(x->err, -EMSGSIZE, "TooLarge", x->place, "the answer is too large");
	if (r->response->body.failed || r->field.failed || r->etag.failed)
		return vgw_err_set(x->err, -ENOMEM, "OutOfMemory", x->place, "no memory for the answer");
	if (HTTP_PARSER_ERRNO(p) != HPE_OK)
		return vgw_err_set(x->err, -EPROTO, "Malformed", x->place, "the answer is not HTTP: %s",
				   http_errno_description(HTTP_PARSER_ERRNO(p)));
	if (!len)
		return failed(x, -ECONNRESET, "reading the answer");
	return 0;
}

static int read_response(const struct exchange *x, struct reader *r)
{
	char chunk[16384];
	http_parser p;
	int rc = 0;

	http_parser_init(&p, HTTP_RESPONSE);
	p.data = r;
	while (!r->complete && !rc) {
		long n = x->tls ? tls_stream_read(x->tls, chunk, sizeof(chunk))
				: (long)recv(x->fd, chunk, sizeof(chunk), 0);

		if (n < 0 && !x->tls)
			n = errno == EINTR ? -EAGAIN : -errno;
		if (n == -EAGAIN)
			rc = wait_for(x, x->tls && tls_stream_wants_write(x->tls) ? POLLOUT : POLLIN);
		else if (n < 0)
			rc = failed(x, (int)n, "reading the answer");
		else
			rc = digest(x, &p, chunk, (size_t)n);
	}
	if (!rc)
		snprintf(r->response->etag, sizeof(r->response->etag), "%s", buf_str(&r->etag));
	buf_free(&r->field);
	buf_free(&r->etag);
	return rc;
}

static void render_request(struct buf *out, const struct client_target *t, const char *method,
			   const char *path, const char *type, const char *body, size_t len)
{
	char date[30];

	http_date_print(time(NULL), date);
	buf_printf(out,
		   "%s %s HTTP/1.1\r\nHost: %s\r\nDate: %s\r\nUser-Agent: vgw-agent/" VGW_VERSION
		   "\r\nAccept: */*\r\nConnection: close\r\n",
		   method, path, t->connect ? t->connect : "localhost", date);
	if (type)
		buf_printf(out, "Content-Type: %s\r\n", type);
	if (body)
		buf_printf(out, "Content-Length: %zu\r\n", len);
	buf_puts(out, "\r\n");
	if (body && len <= 65536) /* one write, and one record, for the usual */
		buf_append(out, body, len);
}

static int converse(const struct exchange *x, const struct buf *head, const char *body, size_t len,
		    struct reader *r)
{
	bool timeout = false;
	int rc = send_all(x, head->data, head->len, &timeout);

	if (!rc && body && len > 65536)
		rc = send_all(x, body, len, &timeout);
	if (timeout)
		return rc;
	/* A server that refuses may answer before it has read everything. */
	if (rc && read_response(x, r) == 0)
		return 0;
	return rc ? failed(x, rc, "sending the request") : read_response(x, r);
}

static bool plain_text(const char *s)
{
	for (; *s; s++)
		if (*s <= ' ' || *s == 0x7f)
			return false;
	return true;
}

int client_request(const struct client_target *target, const char *method, const char *path,
		   const char *content_type, const char *body, size_t len, struct client_response *response,
		   struct vgw_err *err)
{
	struct exchange x = {
		.fd = -1,
		.deadline = now() + (target->timeout > 0 ? target->timeout : TIMEOUT_DEFAULT),
		.err = err,
	};
	struct reader r = {.response = response, .head_only = !strcmp(method, "HEAD")};
	struct buf head = {0};
	int rc;

	memset(response, 0, sizeof(*response));
	if (!plain_text(path) || (target->connect && !plain_text(target->connect)))
		return vgw_err_set(err, -EINVAL, "InvalidArgument", path, "not a path that can be asked for");
	render_request(&head, target, method, path, content_type, body, len);
	rc = head.failed ? vgw_err_set(err, -ENOMEM, "OutOfMemory", NULL, "no memory for the request") : 0;
	if (!rc)
		rc = open_exchange(target, &x);
	if (!rc)
		rc = converse(&x, &head, body, len, &r);
	if (x.tls)
		tls_stream_close(x.tls);
	tls_stream_free(x.tls);
	if (x.fd >= 0)
		close(x.fd);
	buf_wipe(&head);
	if (rc)
		client_response_free(response);
	return rc;
}

void client_response_free(struct client_response *response)
{
	buf_free(&response->body);
	memset(response, 0, sizeof(*response));
}
