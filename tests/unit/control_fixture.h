/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real control server for the tests of the channel, in a child process of its own, with certificates by
 * pki_make() in a temporary folder. What it has seen is asked for over its own socket: GET /stats.
 */
#ifndef TESTS_UNIT_CONTROL_FIXTURE_H
#define TESTS_UNIT_CONTROL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vgw/control/client.h"
#include "vgw/control/pem_file.h"
#include "vgw/control/pki.h"
#include "vgw/control/server.h"
#include "vgw/control/tls.h"

enum {
	BIG = 8 << 20, /* more than the sockets' buffers hold */
	PATIENCE = 10, /* seconds until a condition that is waited for counts as missed */
};

/* -- the server's side -- */

struct served {
	struct ev_loop *loop;
	struct control_server *server;
	struct control_request *waiting[8];
	unsigned gone, kept, rolled_back;
	char *big;
};

static inline void served_gone(void *ctx, struct control_request *req)
{
	struct served *s = ctx;
	size_t i;

	s->gone++;
	for (i = 0; i < 8; i++)
		if (s->waiting[i] == req)
			s->waiting[i] = NULL;
}

static inline void served_defer(struct served *s, struct control_request *req)
{
	size_t i;

	for (i = 0; i < 8 && s->waiting[i]; i++)
		;
	if (i == 8) {
		control_reply_problem(req, 503, "Busy", "too many wait", NULL);
		return;
	}
	s->waiting[i] = req;
	control_request_defer(req, served_gone, s);
}

static inline void served_release(struct served *s)
{
	size_t i;

	for (i = 0; i < 8; i++) {
		if (s->waiting[i])
			control_reply(s->waiting[i], 200, "text/plain", NULL, "released", 8);
		s->waiting[i] = NULL;
	}
}

static inline void served_staged(void *ctx, bool kept, const struct vgw_err *err)
{
	struct served *s = ctx;

	(void)err;
	*(kept ? &s->kept : &s->rolled_back) += 1;
}

static inline void served_stage(struct served *s, struct control_request *req)
{
	const char *confirm = control_request_query(req, "confirm");
	struct vgw_err err = {0};
	size_t len;
	const char *both = control_request_body(req, &len);
	const char *key = strstr(both, "-----BEGIN EC PRIVATE"); /* behind the certificate, in one text */
	char *pem = strndup(both, key ? (size_t)(key - both) : len);

	if (control_server_stage_certificate(s->server, pem, key ? key : "", atof(confirm ? confirm : "60"),
					     served_staged, s, &err))
		control_reply_problem(req, 422, err.reason, err.text, err.where);
	else
		control_reply(req, 200, NULL, NULL, NULL, 0);
	free(pem);
}

static inline void served_client_ca(struct served *s, struct control_request *req)
{
	struct vgw_err err = {0};
	size_t len;

	if (control_server_set_client_ca(s->server, control_request_body(req, &len), &err))
		control_reply_problem(req, 422, err.reason, err.text, err.where);
	else
		control_reply(req, 200, NULL, NULL, NULL, 0);
}

static inline void served_stats(struct served *s, struct control_request *req)
{
	double skew = 0;
	bool seen = control_server_skew(s->server, &skew);
	char text[200];
	size_t i, waiting = 0;

	for (i = 0; i < 8; i++)
		waiting += s->waiting[i] != NULL;
	snprintf(text, sizeof(text),
		 "connections=%u gone=%u waiting=%zu kept=%u back=%u skew=%.0f notafter=%d turns=%u ",
		 control_server_connections(s->server), s->gone, waiting, s->kept, s->rolled_back,
		 seen ? skew : 0, control_server_not_after(s->server) > time(NULL), ev_iteration(s->loop));
	control_reply(req, 200, "text/plain", NULL, text, strlen(text));
}

/* From now on SPARE more files may be opened. */
static inline void served_limit_files(const char *spare)
{
	struct rlimit limit;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)(fd + atoi(spare));
	setrlimit(RLIMIT_NOFILE, &limit);
}

static inline void served_handler(void *ctx, struct control_request *req)
{
	const char *path = control_request_path(req), *body;
	struct served *s = ctx;
	char text[300];
	size_t len;

	body = control_request_body(req, &len);
	if (!strcmp(path, "/defer")) {
		served_defer(s, req);
	} else if (!strcmp(path, "/release")) {
		served_release(s);
		control_reply(req, 204, NULL, NULL, NULL, 0);
	} else if (!strcmp(path, "/stats")) {
		served_stats(s, req);
	} else if (!strcmp(path, "/stage")) {
		served_stage(s, req);
	} else if (!strcmp(path, "/client-ca")) {
		served_client_ca(s, req);
	} else if (!strcmp(path, "/files")) {
		served_limit_files(control_request_query(req, "spare"));
		control_reply(req, 200, NULL, NULL, NULL, 0);
	} else if (!strcmp(path, "/big")) {
		control_reply(req, 200, "text/plain", NULL, s->big, BIG);
	} else if (!strcmp(path, "/forget")) {
		return; /* a handler's mistake */
	} else if (!strcmp(path, "/quit")) {
		control_reply(req, 200, NULL, NULL, NULL, 0);
		ev_break(s->loop, EVBREAK_ALL);
	} else {
		snprintf(text, sizeof(text), "%s %s by %s, %zu bytes from %.20s", control_request_method(req),
			 path, control_request_client(req), len, body);
		control_reply(req, 200, "text/plain", "ETag: \"7\"\r\n", text, strlen(text));
	}
}

/* -- the test's side -- */

struct fixture {
	char dir[64], other_dir[80]; /* two sites: of the server, and of nobody it knows */
	char socket[100], address[40], log[100];
	char ca[100], certificate[100], key[100];
	uint16_t port;
	pid_t pid;
};

static struct fixture fx;

static inline double fx_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void fx_pause(void)
{
	struct timespec t = {.tv_nsec = 5000000};

	nanosleep(&t, NULL);
}

/* A port nobody has right now. */
static inline uint16_t fx_free_port(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	close(fd);
	return ntohs(sin.sin_port);
}

/* The configuration of every server here; tests alter it before fx_start(). */
static inline struct control_config fx_config(void)
{
	static const char *cas[1];
	static char server_crt[100], server_key[100];
	static struct ip_endpoint listen;
	static const struct control_client clients[] = {{"controller", CONTROL_ROLE_WRITER}};

	cas[0] = fx.ca;
	snprintf(server_crt, sizeof(server_crt), "%s/server.crt", fx.dir);
	snprintf(server_key, sizeof(server_key), "%s/server.key", fx.dir);
	fx.port = fx_free_port();
	snprintf(fx.address, sizeof(fx.address), "127.0.0.1:%u", fx.port);
	assert_int_equal(ip_endpoint_parse(fx.address, &listen), 0);
	return (struct control_config){
		.listen = &listen,
		.n_listen = 1,
		.certificate = server_crt,
		.key = server_key,
		.client_ca = cas,
		.n_client_ca = 1,
		.clients = clients,
		.n_clients = 1,
		.socket = fx.socket,
		.socket_group = "daemon",
	};
}

static inline void fx_serve(const struct control_config *config, int ready)
{
	struct served s = {.loop = ev_loop_new(EVFLAG_AUTO), .big = calloc(1, BIG)};
	struct vgw_err err = {0};
	char text[800];
	int rc = control_server_new(s.loop, config, served_handler, &s, &s.server, &err);

	if (rc)
		fprintf(stderr, "%s\n", vgw_err_print(&err, text, sizeof(text)));
	if (write(ready, &rc, sizeof(rc)) != sizeof(rc))
		_exit(1);
	close(ready);
	if (!rc)
		ev_run(s.loop, 0);
	control_server_free(s.server);
	ev_loop_destroy(s.loop);
	free(s.big);
	exit(0); /* through the leak checker */
}

static inline void fx_start(const struct control_config *config)
{
	int ready[2], rc = -1, log;

	assert_int_equal(pipe(ready), 0);
	fflush(NULL);
	fx.pid = fork();
	assert_true(fx.pid >= 0);
	if (fx.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		log = open(fx.log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(log, 2);
		close(log);
		close(ready[0]);
		fx_serve(config, ready[1]);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &rc, sizeof(rc)), sizeof(rc));
	close(ready[0]);
	assert_int_equal(rc, 0);
}

static inline struct client_target fx_local(void)
{
	return (struct client_target){.socket = fx.socket, .timeout = PATIENCE};
}

static inline struct client_target fx_remote(void)
{
	return (struct client_target){
		.connect = fx.address,
		.ca = fx.ca,
		.certificate = fx.certificate,
		.key = fx.key,
		.timeout = PATIENCE,
	};
}

/* Returns the status, or -errno; TEXT (may be NULL) gets the start of the body. */
static inline int fx_ask(const struct client_target *t, const char *method, const char *path,
			 const char *body, char *text, size_t size)
{
	struct client_response r;
	struct vgw_err err = {0};
	int rc = client_request(t, method, path, body ? "application/json" : NULL, body,
				body ? strlen(body) : 0, &r, &err);

	if (text)
		snprintf(text, size, "%s", rc ? err.reason : buf_str(&r.body));
	if (!rc)
		rc = (int)r.status;
	client_response_free(&r);
	return rc;
}

/* Waits until the server says WORD about itself. */
static inline void fx_await(const char *word)
{
	struct client_target t = fx_local();
	double until = fx_now() + PATIENCE;
	char text[300];

	do {
		assert_int_equal(fx_ask(&t, "GET", "/stats", NULL, text, sizeof(text)), 200);
		if (strstr(text, word))
			return;
		fx_pause();
	} while (fx_now() < until);
	fail_msg("waited for %s in: %s", word, text);
}

static inline void fx_stop(void)
{
	struct client_target t = fx_local();
	int status = -1;

	assert_int_equal(fx_ask(&t, "POST", "/quit", NULL, NULL, 0), 200);
	assert_int_equal(waitpid(fx.pid, &status, 0), fx.pid);
	fx.pid = 0;
	assert_int_equal(status, 0);
	assert_int_not_equal(access(fx.socket, F_OK), 0);
}

/* After a test that failed half-way. */
static inline int fx_clean(void **state)
{
	(void)state;
	if (fx.pid > 0) {
		kill(fx.pid, SIGKILL);
		waitpid(fx.pid, NULL, 0);
		fx.pid = 0;
	}
	return 0;
}

static inline void fx_pki(const char *dir, const char *name, const char *address)
{
	struct vgw_err err = {0};

	if (pki_make(dir, name, &address, address ? 1 : 0, &err))
		fail_msg("%s", err.text);
}

static inline int fx_set_up(void **state)
{
	(void)state;
	strcpy(fx.dir, "/tmp/vgw-control-XXXXXX");
	if (!mkdtemp(fx.dir) || chmod(fx.dir, 0755))
		return -1;
	snprintf(fx.other_dir, sizeof(fx.other_dir), "%s/other", fx.dir);
	snprintf(fx.socket, sizeof(fx.socket), "%s/control.sock", fx.dir);
	snprintf(fx.log, sizeof(fx.log), "%s/log", fx.dir);
	snprintf(fx.ca, sizeof(fx.ca), "%s/ca.crt", fx.dir);
	snprintf(fx.certificate, sizeof(fx.certificate), "%s/client.crt", fx.dir);
	snprintf(fx.key, sizeof(fx.key), "%s/client.key", fx.dir);
	fx_pki(fx.dir, NULL, "127.0.0.1");
	fx_pki(fx.other_dir, NULL, "127.0.0.1");
	return 0;
}

static inline int fx_tear_down(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", fx.dir);
	return system(command) == 0 ? 0 : -1;
}

/* -- raw connections -- */

static inline int fx_connect_unix(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, fx.socket);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

static inline int fx_connect_tcp(void)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons(fx.port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return fd;
}

static inline void fx_send(int fd, const char *text)
{
	size_t len = strlen(text);

	assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
}

/* Readable (or ended) within SECONDS. */
static inline bool fx_readable(int fd, double seconds)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, (int)(seconds * 1000)) == 1;
}

/* Reads until WORD has come N times; fails at the end of the stream. */
static inline void fx_read_until(int fd, const char *word, unsigned n, struct buf *got)
{
	char chunk[4096];
	const char *at;
	unsigned seen;
	ssize_t len;

	do {
		if (!fx_readable(fd, PATIENCE))
			fail_msg("waited for \"%s\", got: %.500s", word, buf_str(got));
		len = recv(fd, chunk, sizeof(chunk), 0);
		if (len <= 0)
			fail_msg("the stream ended before \"%s\": %.500s", word, buf_str(got));
		buf_append(got, chunk, (size_t)len);
		seen = 0;
		for (at = buf_str(got); (at = strstr(at, word)); at++)
			seen++;
	} while (seen < n);
}

static inline void fx_expect(int fd, const char *word, unsigned n)
{
	struct buf got = {0};

	fx_read_until(fd, word, n, &got);
	buf_free(&got);
}

/* Reads what there is until the server ends the connection. */
static inline void fx_expect_end(int fd)
{
	char chunk[65536];
	ssize_t n;

	do {
		if (!fx_readable(fd, PATIENCE))
			fail_msg("the connection is still open");
		n = recv(fd, chunk, sizeof(chunk), 0);
	} while (n > 0);
}

#endif
