/* SPDX-License-Identifier: Apache-2.0 */
/* For test_cli_agent.c: an agent on a Unix socket that answers by script, in a process of its own. */
#ifndef TESTS_UNIT_CLI_AGENT_H
#define TESTS_UNIT_CLI_AGENT_H

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/unit/cli_fixture.h"

struct reply {
	unsigned status; /* 0: closes without an answer */
	const char *body;
	int signal; /* sent to the test when a request with this reply came; 0: none */
};

struct agent {
	pid_t pid;
};

/* A whole request; its first line, without the version, and the length of its body into the file `requests`.
 */
static void hear_request(int fd)
{
	char text[65536], method[16] = "", path[256] = "";
	size_t n = 0, want = 0, length = 0;
	const char *head = NULL, *field;
	ssize_t got;
	FILE *f;

	while ((!head || n < want) && (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0) {
		n += (size_t)got;
		text[n] = '\0';
		head = strstr(text, "\r\n\r\n");
		field = strcasestr(text, "content-length:");
		length = head && field && field < head ? strtoul(field + 15, NULL, 10) : 0;
		want = head ? (size_t)(head + 4 - text) + length : 0;
	}
	sscanf(text, "%15s %255s", method, path);
	f = fopen(at("requests"), "a");
	if (f) {
		fprintf(f, "%s %s %zu\n", method, path, length);
		fclose(f);
	}
}

static void answer(int fd, const struct reply *r)
{
	struct buf out = {0};

	if (!r->status)
		return;
	buf_printf(&out, "HTTP/1.1 %u Word\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", r->status,
		   r->status == 304 ? 0 : strlen(r->body), r->status == 304 ? "" : r->body);
	if (write(fd, out.data, out.len) < 0)
		_exit(1);
	buf_free(&out);
}

/* On the socket `control.sock`; the last reply is repeated. */
static void start_agent(struct agent *agent, const struct reply *replies, size_t n)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
	pid_t test = getpid();

	unlink(at("requests"));
	unlink(at("control.sock"));
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", at("control.sock"));
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 8), 0);
	agent->pid = fork();
	assert_true(agent->pid >= 0);
	for (size_t i = 0; !agent->pid && (peer = accept(fd, NULL, NULL)) >= 0; i++) {
		const struct reply *r = &replies[i < n ? i : n - 1];

		hear_request(peer);
		if (r->signal)
			kill(test, r->signal);
		answer(peer, r);
		close(peer);
	}
	if (!agent->pid)
		_exit(0);
	close(fd);
}

static void stop_agent(struct agent *agent)
{
	kill(agent->pid, SIGKILL);
	waitpid(agent->pid, NULL, 0);
	unlink(at("control.sock"));
}

/* What the agent was asked, a line each; malloc'ed. */
static char *requests(void)
{
	int fd = open(at("requests"), O_RDONLY);

	assert_true(fd >= 0);
	return read_stream(fd);
}

#endif
