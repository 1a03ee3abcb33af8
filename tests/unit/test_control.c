/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel from outside: who gets in, what is answered, and what bad clients cost the others. */
#include "tests/unit/control_fixture.h"

#include <grp.h>

#define HOST "Host: a\r\n"

static void both_ways_in(void **state)
{
	struct control_config config = fx_config();
	struct client_target local = fx_local(), remote = fx_remote();
	struct client_response r;
	struct vgw_err err = {0};
	char text[200];

	(void)state;
	fx_start(&config);
	assert_int_equal(fx_ask(&local, "GET", "/a", NULL, text, sizeof(text)), 200);
	assert_non_null(strstr(text, "GET /a by uid "));
	assert_int_equal(fx_ask(&remote, "PUT", "/v1/spec?dryRun=true", "{}", text, sizeof(text)), 200);
	assert_string_equal(text, "PUT /v1/spec by controller, 2 bytes from {}");
	assert_int_equal(client_request(&remote, "HEAD", "/a", NULL, NULL, 0, &r, &err), 0);
	assert_int_equal(r.status, 200);
	assert_int_equal(r.body.len, 0);
	assert_string_equal(r.etag, "\"7\"");
	client_response_free(&r);
	assert_int_equal(fx_ask(&remote, "GET", "/big", NULL, NULL, 0), 200);
	assert_int_equal(fx_ask(&remote, "GET", "/forget", NULL, NULL, 0), 500);
	fx_await("skew=0 notafter=1");
	fx_stop();
}

static void large_bodies(void **state)
{
	struct control_config config = fx_config();
	struct client_target remote = fx_remote(), local = fx_local();
	size_t len = 3 << 20;
	char *body = malloc(len + 1), text[200];

	(void)state;
	assert_non_null(body);
	memset(body, 'x', len);
	body[len] = '\0';
	config.limits.body = len;
	fx_start(&config);
	assert_int_equal(fx_ask(&remote, "PUT", "/a", body, text, sizeof(text)), 200);
	assert_non_null(strstr(text, "3145728 bytes"));
	fx_stop();

	config = fx_config();
	config.limits.body = len - 1; /* answered before it is read, and the answer arrives */
	fx_start(&config);
	remote = fx_remote();
	assert_int_equal(fx_ask(&remote, "PUT", "/a", body, text, sizeof(text)), 413);
	assert_int_equal(fx_ask(&local, "PUT", "/a", body, text, sizeof(text)), 413);
	assert_non_null(strstr(text, "\"reason\":\"TooLarge\""));
	fx_stop();
	free(body);
}

static void roles(void **state)
{
	static const struct {
		const char *name;
		enum control_role role;
		const char *method;
		int status;
	} cases[] = {
		{"controller", CONTROL_ROLE_WRITER, "PUT", 200},
		{"controller", CONTROL_ROLE_READER, "GET", 200},
		{"controller", CONTROL_ROLE_READER, "PUT", 403},
		{"controlle", CONTROL_ROLE_WRITER, "GET", 403},
		{"prometheus", CONTROL_ROLE_READER, "GET", 403},
		{"prometheus", CONTROL_ROLE_READER, "PUT", 403},
	};
	char text[300];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct control_client client = {cases[i].name, cases[i].role};
		struct control_config config = fx_config();
		struct client_target remote = fx_remote();

		config.clients = &client;
		fx_start(&config);
		assert_int_equal(fx_ask(&remote, cases[i].method, "/a",
					*cases[i].method == 'P' ? "body" : NULL, text, sizeof(text)),
				 cases[i].status);
		if (cases[i].status == 403)
			assert_non_null(strstr(text, "\"reason\":\"Forbidden\""));
		fx_stop();
	}
}

static void strangers_stay_out(void **state)
{
	struct control_config config = fx_config();
	struct client_target t = fx_remote();
	char crt[100], key[100], ca[100], text[200];

	(void)state;
	snprintf(crt, sizeof(crt), "%s/client.crt", fx.other_dir);
	snprintf(key, sizeof(key), "%s/client.key", fx.other_dir);
	snprintf(ca, sizeof(ca), "%s/ca.crt", fx.other_dir);
	fx_start(&config);
	t.certificate = crt; /* of another CA */
	t.key = key;
	assert_true(fx_ask(&t, "GET", "/a", NULL, text, sizeof(text)) < 0);
	assert_string_equal(text, "TLSFailed");
	t = fx_remote();
	t.ca = ca; /* the server is the stranger */
	assert_true(fx_ask(&t, "GET", "/a", NULL, text, sizeof(text)) < 0);
	assert_string_equal(text, "TLSFailed");
	snprintf(text, sizeof(text), "localhost:%u", fx.port); /* a name it does not have */
	t = fx_remote();
	t.connect = text;
	assert_true(fx_ask(&t, "GET", "/a", NULL, crt, sizeof(crt)) < 0);
	assert_string_equal(crt, "TLSFailed");
	fx_stop();
}

static void nobody_there(void **state)
{
	struct control_config config = fx_config();
	struct client_target t = fx_local(), remote = fx_remote();
	char text[200];
	int fd;

	(void)state;
	assert_int_equal(fx_ask(&t, "GET", "/a", NULL, text, sizeof(text)), -ENOENT);
	assert_string_equal(text, "NoAgent");
	assert_int_equal(fx_ask(&remote, "GET", "/a", NULL, text, sizeof(text)), -ECONNREFUSED);
	assert_string_equal(text, "NoAgent");
	fx_start(&config); /* leaves its socket behind when it is killed */
	fx_clean(NULL);
	assert_int_equal(fx_ask(&t, "GET", "/a", NULL, text, sizeof(text)), -ECONNREFUSED);
	assert_string_equal(text, "NoAgent");
	config = fx_config();
	fx_start(&config); /* and the next one takes its place */
	t.timeout = 0.2;
	assert_int_equal(fx_ask(&t, "GET", "/defer", NULL, text, sizeof(text)), -ETIMEDOUT);
	assert_string_equal(text, "Timeout");
	fd = fx_connect_tcp(); /* no TLS at all */
	fx_send(fd, "GET / HTTP/1.1\r\n" HOST "\r\n");
	fx_expect_end(fd);
	close(fd);
	fx_stop();
}

static void addresses_in_use(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct control_config config = fx_config(), second = config;
	struct control_server *s;
	struct vgw_err err = {0};
	struct ip_endpoint taken = config.listen[0];

	(void)state;
	fx_start(&config);
	assert_int_equal(control_server_new(loop, &second, served_handler, NULL, &s, &err), -EADDRINUSE);
	assert_string_equal(err.reason, "AddressInUse");
	assert_string_equal(err.where, fx.socket);
	second.socket = NULL;
	second.listen = &taken;
	assert_int_equal(control_server_new(loop, &second, served_handler, NULL, &s, &err), -EADDRINUSE);
	assert_string_equal(err.reason, "AddressInUse");
	assert_string_equal(err.where, fx.address);
	second.key = "/nonexistent/server.key";
	assert_int_equal(control_server_new(loop, &second, served_handler, NULL, &s, &err), -ENOENT);
	assert_string_equal(err.where, second.key);
	/* An address that this host does not have yet. */
	second = fx_config();
	second.socket = NULL;
	assert_int_equal(ip_endpoint_parse("192.0.2.77:9443", &taken), 0);
	second.listen = &taken;
	assert_int_equal(control_server_new(loop, &second, served_handler, NULL, &s, &err), 0);
	assert_int_equal(control_server_listen(s, &taken, 1, &err), 0);
	control_server_free(s);
	ev_loop_destroy(loop);
	fx_stop();
}

static void framing(void **state)
{
	static const struct {
		const char *send, *expect;
		unsigned times;
		bool ends;
	} cases[] = {
		{"GET /a HTTP/1.1\r\n" HOST "\r\n", "200 OK", 1, false},
		{"GET /a HTTP/1.0\r\n\r\n", "Connection: close", 1, true},
		{"GET /a HTTP/1.1\r\n" HOST "Connection: close\r\n\r\nGET /b HTTP/1.1\r\n" HOST "\r\n",
		 "200 OK", 1, true},
		{"NONSENSE\r\n\r\n", "400 Bad Request", 1, true},
		{"PUT /a HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "400 Bad", 1, true},
		{"PUT /a HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n",
		 "413 ", 1, true},
		{"PUT /a HTTP/1.1\r\n" HOST "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n",
		 "100 Continue", 1, false},
		{"PUT /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		 "1 bytes from a", 1, false},
		{"GET /a HTTP/1.1\r\n" HOST "\r\nGET /b HTTP/1.1\r\n" HOST "\r\nGET /c HTTP/1.1\r\n" HOST
		 "\r\n",
		 "200 OK", 3, false},
		{"GET /a HTTP/1.1\r\n" HOST "\r\nNONSENSE\r\n\r\n", "400 Bad", 1, true},
	};
	struct control_config config = fx_config();
	char *header = malloc(20000);
	size_t i;
	int fd;

	(void)state;
	fx_start(&config);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		fd = fx_connect_unix();
		fx_send(fd, cases[i].send);
		fx_expect(fd, cases[i].expect, cases[i].times);
		if (cases[i].ends)
			fx_expect_end(fd);
		close(fd);
	}
	assert_non_null(header);
	memset(header, 'a', 20000);
	memcpy(header, "GET /", 5);
	header[19999] = '\0';
	fd = fx_connect_unix();
	fx_send(fd, header);
	fx_expect(fd, "431 Request Header Fields Too Large", 1);
	fx_expect_end(fd);
	close(fd);
	free(header);
	fx_stop();
}

static void pipelines(void **state)
{
	enum { REQUESTS = 500 };
	static const char release[] = "POST /release HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n";
	struct control_config config = fx_config();
	struct buf flood = {0}, got = {0};
	unsigned i;
	int fd, other;

	(void)state;
	fx_start(&config);
	for (i = 0; i < REQUESTS; i++)
		buf_puts(&flood, "GET /a HTTP/1.1\r\n" HOST "\r\n");
	fd = fx_connect_unix();
	fx_send(fd, flood.data);
	fx_expect(fd, "200 OK", REQUESTS);
	/* Answers keep their order even behind one that takes its time. */
	fx_send(fd, "GET /defer HTTP/1.1\r\n" HOST "\r\nGET /after HTTP/1.1\r\n" HOST "\r\n");
	fx_await("waiting=1");
	assert_false(fx_readable(fd, 0));
	other = fx_connect_unix();
	fx_send(other, release);
	fx_expect(other, "204 No Content", 1);
	fx_read_until(fd, "GET /after", 1, &got);
	assert_non_null(strstr(got.data, "released"));
	assert_true(strstr(got.data, "released") < strstr(got.data, "GET /after"));
	buf_free(&got);
	/* Read-ahead is bounded, and nothing of it is lost. */
	fx_send(fd, "GET /defer HTTP/1.1\r\n" HOST "\r\n");
	fx_send(fd, flood.data);
	fx_await("waiting=1");
	fx_send(other, release);
	fx_expect(fd, "200 OK", REQUESTS + 1);
	close(fd);
	close(other);
	buf_free(&flood);
	fx_stop();
}

static void deferred_client_goes(void **state)
{
	struct control_config config = fx_config();
	struct client_target remote;
	int fd;

	(void)state;
	fx_start(&config);
	fd = fx_connect_unix();
	fx_send(fd, "GET /defer HTTP/1.1\r\n" HOST "\r\n");
	fx_await("waiting=1");
	close(fd);
	fx_await("gone=1 waiting=0");
	remote = fx_remote();
	remote.timeout = 0.3;
	assert_int_equal(fx_ask(&remote, "GET", "/defer", NULL, NULL, 0), -ETIMEDOUT);
	fx_await("gone=2 waiting=0");
	fd = fx_connect_unix();
	fx_send(fd, "GET /defer HTTP/1.1\r\n" HOST "\r\n");
	fx_await("waiting=1"); /* and the server goes while it waits */
	fx_stop();
	close(fd);
}

static void slow_clients_delay_nobody(void **state)
{
	static const char request[] = "GET /slow HTTP/1.1\r\n" HOST "\r\n";
	struct control_config config = fx_config();
	struct client_target remote = fx_remote();
	int fd[8], silent = -1;
	size_t i, j;
	double start;

	(void)state;
	fx_start(&config);
	silent = fx_connect_tcp();
	for (j = 0; j < 8; j++)
		fd[j] = fx_connect_unix();
	for (i = 0; i < sizeof(request) - 1; i++) {
		for (j = 0; j < 8; j++)
			assert_int_equal(send(fd[j], request + i, 1, MSG_NOSIGNAL), 1);
		start = fx_now();
		if (i % 8 == 0)
			assert_int_equal(fx_ask(&remote, "GET", "/a", NULL, NULL, 0), 200);
		assert_true(fx_now() - start < 2);
	}
	for (j = 0; j < 8; j++) {
		fx_expect(fd[j], "GET /slow by", 1);
		close(fd[j]);
	}
	close(silent);
	fx_stop();
}

static void time_outs(void **state)
{
	struct control_config config = fx_config();
	int fd, tcp;

	(void)state;
	config.limits.handshake_timeout = config.limits.request_timeout = 0.2;
	config.limits.idle_timeout = 0.6;
	fx_start(&config);
	tcp = fx_connect_tcp();
	fd = fx_connect_unix();
	fx_send(fd, "GET /a HTTP/1.1\r\n");
	fx_expect(fd, "\"reason\":\"RequestTimeout\"", 1);
	fx_expect_end(fd);
	close(fd);
	fx_expect_end(tcp); /* its handshake has never begun */
	close(tcp);
	fd = fx_connect_unix();
	fx_send(fd, "GET /a HTTP/1.1\r\n" HOST "\r\n");
	fx_expect(fd, "200 OK", 1);
	fx_expect_end(fd); /* idle */
	close(fd);
	fd = fx_connect_unix();
	fx_send(fd, "GET /big HTTP/1.1\r\n" HOST "\r\n"); /* and never reads it */
	fx_await("connections=2");
	fx_await("connections=1");
	close(fd);
	fx_stop();
}

static void handshakes_are_limited(void **state)
{
	struct control_config config = fx_config();
	struct client_target remote;
	int fd[6];
	size_t i;

	(void)state;
	config.limits.handshakes = 3;
	fx_start(&config);
	for (i = 0; i < 6; i++)
		fd[i] = fx_connect_tcp();
	for (i = 0; i < 3; i++)
		fx_expect_end(fd[i]); /* the oldest go first */
	assert_false(fx_readable(fd[5], 0));
	remote = fx_remote(); /* and whoever comes now gets in */
	assert_int_equal(fx_ask(&remote, "GET", "/a", NULL, NULL, 0), 200);
	for (i = 0; i < 6; i++)
		close(fd[i]);
	fx_stop();
}

static void connections_are_limited(void **state)
{
	struct control_config config = fx_config();
	struct client_target remote, local = fx_local();
	int fd[40];
	size_t i;

	(void)state;
	config.limits.connections = 4;
	fx_start(&config);
	for (i = 0; i < 40; i++)
		fd[i] = fx_connect_tcp();
	assert_int_equal(fx_ask(&local, "GET", "/a", NULL, NULL, 0), 200);
	fx_await("connections=5");
	remote = fx_remote();
	assert_int_equal(fx_ask(&remote, "GET", "/a", NULL, NULL, 0), 200);
	for (i = 0; i < 40; i++)
		close(fd[i]);
	fx_await("connections=1");
	/* The operator's own socket: the oldest idle connection makes room. */
	for (i = 0; i < 40; i++)
		fd[i] = fx_connect_unix();
	assert_int_equal(fx_ask(&local, "GET", "/a", NULL, NULL, 0), 200);
	fx_expect_end(fd[0]);
	assert_false(fx_readable(fd[39], 0));
	for (i = 0; i < 40; i++)
		close(fd[i]);
	fx_stop();
}

/* The number behind "turns=" in the server's own words. */
static unsigned turns(int fd)
{
	struct buf got = {0};
	const char *at;
	unsigned n;

	fx_send(fd, "GET /stats HTTP/1.1\r\n" HOST "\r\n");
	fx_read_until(fd, "turns=", 1, &got);
	at = strstr(got.data, "turns=");
	n = (unsigned)strtoul(at + 6, NULL, 10);
	buf_free(&got);
	return n;
}

static void descriptors_run_out(void **state)
{
	struct control_config config = fx_config();
	int fd, late;
	unsigned before;

	(void)state;
	fx_start(&config);
	fd = fx_connect_unix();
	fx_send(fd, "POST /files?spare=0 HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
	fx_expect(fd, "200 OK", 1);
	late = fx_connect_unix(); /* stays in the backlog */
	fx_send(late, "GET /a HTTP/1.1\r\n" HOST "\r\n");
	before = turns(fd);
	assert_false(fx_readable(late, 0.5));
	assert_true(turns(fd) - before < 50); /* no spinning */
	fx_send(fd, "POST /files?spare=100 HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
	fx_expect(fd, "200 OK", 1);
	fx_expect(late, "200 OK", 1);
	close(fd);
	close(late);
	fx_stop();
}

/* Clients that send as fast as they can and never read, in a child, for half a minute at most. */
static pid_t start_hogs(void)
{
	static const char get[] = "GET /big HTTP/1.1\r\n" HOST "\r\n";
	static const char put[] = "PUT /a HTTP/1.1\r\n" HOST "Content-Length: 16000\r\n\r\n";
	double until = fx_now() + 30;
	char upload[sizeof(put) - 1 + 16000];
	pid_t pid;
	int fd[8];
	size_t i;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(upload, 'x', sizeof(upload));
	memcpy(upload, put, sizeof(put) - 1);
	for (i = 0; i < 8; i++)
		fd[i] = fx_connect_unix();
	for (i = 0; fx_now() < until; i = (i + 1) % 8) {
		const char *text = i % 2 ? upload : get;
		size_t len = i % 2 ? sizeof(upload) : sizeof(get) - 1;

		if (send(fd[i], text, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN) {
			close(fd[i]);
			fd[i] = fx_connect_unix();
		}
	}
	_exit(0);
}

static void hogs_starve_nobody(void **state)
{
	struct control_config config = fx_config();
	struct client_target remote = fx_remote();
	pid_t hogs;
	int i;

	(void)state;
	fx_start(&config);
	hogs = start_hogs();
	assert_true(hogs > 0);
	for (i = 0; i < 10; i++) {
		double start = fx_now();

		assert_int_equal(fx_ask(&remote, "GET", "/a", NULL, NULL, 0), 200);
		assert_true(fx_now() - start < 3);
	}
	kill(hogs, SIGKILL);
	waitpid(hogs, NULL, 0);
	fx_await("connections=1");
	fx_stop();
}

/* In a child that is user and group 65534, and in the socket's group or not. Returns the status. */
static int ask_as_nobody(bool in_group)
{
	const struct group *g = getgrnam("daemon");
	gid_t groups[1] = {g ? g->gr_gid : 0};
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		struct client_target t = fx_local();

		if (!g || setgroups(in_group, groups) || setgid(65534) || setuid(65534))
			_exit(1);
		_exit(fx_ask(&t, "GET", "/a", NULL, NULL, 0) == 200 ? 20 : 43);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void local_users(void **state)
{
	struct control_config config = fx_config();
	struct stat st;

	(void)state;
	if (geteuid() != 0) {
		print_message("not root: the socket's users are not tried\n");
		skip();
	}
	fx_start(&config);
	assert_int_equal(stat(fx.socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
	assert_int_equal(ask_as_nobody(true), 20);
	assert_int_equal(ask_as_nobody(false), 43); /* by the file's mode */
	assert_int_equal(chmod(fx.socket, 0666), 0);
	assert_int_equal(ask_as_nobody(false), 43); /* by the peer's credentials */
	fx_stop();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(both_ways_in, fx_clean),
		cmocka_unit_test_teardown(large_bodies, fx_clean),
		cmocka_unit_test_teardown(roles, fx_clean),
		cmocka_unit_test_teardown(strangers_stay_out, fx_clean),
		cmocka_unit_test_teardown(nobody_there, fx_clean),
		cmocka_unit_test_teardown(addresses_in_use, fx_clean),
		cmocka_unit_test_teardown(framing, fx_clean),
		cmocka_unit_test_teardown(pipelines, fx_clean),
		cmocka_unit_test_teardown(deferred_client_goes, fx_clean),
		cmocka_unit_test_teardown(slow_clients_delay_nobody, fx_clean),
		cmocka_unit_test_teardown(time_outs, fx_clean),
		cmocka_unit_test_teardown(handshakes_are_limited, fx_clean),
		cmocka_unit_test_teardown(connections_are_limited, fx_clean),
		cmocka_unit_test_teardown(descriptors_run_out, fx_clean),
		cmocka_unit_test_teardown(hogs_starve_nobody, fx_clean),
		cmocka_unit_test_teardown(local_users, fx_clean),
	};

	return cmocka_run_group_tests(tests, fx_set_up, fx_tear_down);
}
