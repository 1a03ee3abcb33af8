/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that talk to an agent: what they ask, and what they make of each answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pty.h>

#include "tests/unit/cli_agent.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define SOCKET	 " --socket @/control.sock"

#define PLAN                                                                                                 \
	"{\"generation\": 3, \"revision\": 7, \"plan\": [\"create table inet vgw_agent\", \"set mtu wg0 "    \
	"1400\"]}"
#define PROBLEM(reason, more)                                                                                \
	"{\"type\": \"about:blank\", \"title\": \"T\", \"status\": 0, \"reason\": \"" reason                 \
	"\", \"detail\": \"why\"" more "}"
#define STATUS(revision)                                                                                     \
	"{\"kind\": \"GatewayStatus\", \"revision\": " revision                                              \
	", \"endpoint\": {\"host\": \"192.168.150.1\", \"port\": 6443}}"

struct conversation {
	struct expectation e;
	struct reply reply;
	const char *request; /* what the agent was asked */
};

static void converse(const struct conversation *c, const char *input)
{
	struct agent agent;
	char *asked;

	start_agent(&agent, &c->reply, 1);
	expect(&c->e, input);
	stop_agent(&agent);
	asked = requests();
	assert_string_equal(asked, c->request);
	free(asked);
}

static void test_apply(void **state)
{
	static const struct conversation cases[] = {
		{{"apply -" SOCKET, 0, "create table inet vgw_agent\nset mtu wg0 1400\n", ""},
		 {200, PLAN, 0},
		 "PUT /v1/spec 4\n"},
		{{"apply - --dry-run" SOCKET, 0, "create table", ""},
		 {200, PLAN, 0},
		 "PUT /v1/spec?dryRun=true 4\n"},
		{{"apply --confirm 1m30s -" SOCKET, 0, "create table", "vgw-agent confirm"},
		 {200, PLAN, 0},
		 "PUT /v1/spec?confirm=90s 4\n"},
		{{"apply -" SOCKET, 0, "no changes\n", ""}, {200, "{\"plan\": []}", 0}, "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 0, "a?[2Jb c\n", ""},
		 {200, "{\"plan\": [\"a\\u001b[2Jb\\nc\"]}", 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 1, "", "InvalidAnswer: "}, {200, "{}", 0}, "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 1, "", "InvalidAnswer: "}, {200, "plan", 0}, "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 3, "", "PortConflict: why (at /frontends/1/port)\n"},
		 {422, PROBLEM("PortConflict", ", \"pointer\": \"/frontends/1/port\""), 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 3, "", "StaleGeneration: why\n"},
		 {409, PROBLEM("StaleGeneration", ""), 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 3, "", "TooLarge: why\n"},
		 {413, PROBLEM("TooLarge", ""), 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 3, "", "InvalidSpec: why\n"},
		 {400, PROBLEM("InvalidSpec", ""), 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 3, "", "Forbidden: why\n"},
		 {403, PROBLEM("Forbidden", ""), 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 3, "", "HTTPStatus: the agent answered 401\n"},
		 {401, "", 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 1, "", "HTTPStatus: the agent answered 400\n"},
		 {400, "<html>", 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 1, "", "Busy: why\n"}, {429, PROBLEM("Busy", ""), 0}, "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 1, "", "KernelError: why\n"},
		 {500, PROBLEM("KernelError", ""), 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 1, "", "HTTPStatus: the agent answered 503\n"},
		 {503, "", 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 3, "", "Evil?[2J: why\n"},
		 {422, PROBLEM("Evil\\u001b[2J", ""), 0},
		 "PUT /v1/spec 4\n"},
		{{"apply -" SOCKET, 1, "", ": "}, {0, "", 0}, "PUT /v1/spec 4\n"},
	};

	for (size_t i = 0; i < N(cases); i++)
		converse(&cases[i], "spec");
}

static void test_confirm(void **state)
{
	static const struct conversation cases[] = {
		{{"confirm" SOCKET, 0, "confirmed\n", ""}, {200, "{}", 0}, "POST /v1/spec/confirm 0\n"},
		{{"confirm" SOCKET, 0, "confirmed\n", ""}, {204, "", 0}, "POST /v1/spec/confirm 0\n"},
		{{"confirm" SOCKET, 3, "", "NothingToConfirm: why\n"},
		 {409, PROBLEM("NothingToConfirm", ""), 0},
		 "POST /v1/spec/confirm 0\n"},
	};

	for (size_t i = 0; i < N(cases); i++)
		converse(&cases[i], NULL);
}

static void test_status(void **state)
{
	static const struct conversation cases[] = {
		{{"status" SOCKET, 0, "192.168.150.1:6443  revision 5\n", ""},
		 {200, STATUS("5"), 0},
		 "GET /v1/status 0\n"},
		{{"status --json" SOCKET, 0, STATUS("5") "\n", ""},
		 {200, STATUS("5"), 0},
		 "GET /v1/status 0\n"},
		{{"status" SOCKET, 0, "not a status document", ""}, {200, "hello", 0}, "GET /v1/status 0\n"},
		{{"status" SOCKET, 3, "", "Forbidden: why\n"},
		 {403, PROBLEM("Forbidden", ""), 0},
		 "GET /v1/status 0\n"},
		{{"status --json" SOCKET, 1, "", "answered 503"}, {503, "", 0}, "GET /v1/status 0\n"},
	};

	for (size_t i = 0; i < N(cases); i++)
		converse(&cases[i], NULL);
}

static void test_the_settings_name_the_socket(void **state)
{
	static const char good[] = "{\"socket\": \"control.sock\"}", bad[] = "{\"sock\": 1}";
	static const struct conversation c = {{"status --config @/agent.json", 0, "revision 5\n", ""},
					      {200, STATUS("5"), 0},
					      "GET /v1/status 0\n"};

	write_file("agent.json", good, strlen(good));
	converse(&c, NULL);
	write_file("agent.json", bad, strlen(bad));
	expect(&(struct expectation){"status --config @/agent.json", 3, "", "InvalidConfig: "}, NULL);
	expect(&(struct expectation){"status --config @/none.json", 1, "", "/none.json"}, NULL);
}

static void test_no_agent(void **state)
{
	static const struct expectation cases[] = {
		{"status" SOCKET, 1, "", "NoAgent: no agent answers at /tmp/vgw-cli-"},
		{"status --json" SOCKET, 1, "", "/control.sock"},
		{"confirm" SOCKET, 1, "", "NoAgent: "},
		{"apply -" SOCKET, 1, "", "NoAgent: "},
	};

	for (size_t i = 0; i < N(cases); i++)
		expect(&cases[i], "{}");
}

/* -- teardown's half -- */

struct teardown {
	struct reply reply;
	int status;
	const char *out, *err;
};

static int teardown_status;
static bool teardown_no_agent;

/* As a verb would call it, with its streams caught. */
static void run_teardown(char **out, char **err)
{
	int to_out = memfd_create("out", 0), to_err = memfd_create("err", 0);
	int former_out, former_err;
	struct client_target target = {.socket = at("control.sock")};

	fflush(stdout);
	former_out = redirect(STDOUT_FILENO, to_out);
	former_err = redirect(STDERR_FILENO, to_err);
	teardown_status = cli_teardown_remote(&target, &teardown_no_agent);
	fflush(stdout);
	restore(STDOUT_FILENO, former_out);
	restore(STDERR_FILENO, former_err);
	*out = read_stream(to_out);
	*err = read_stream(to_err);
}

static void test_teardown(void **state)
{
	static const struct teardown cases[] = {
		{{200, PLAN, 0}, 0, "create table", ""},
		{{200, "{\"plan\": []}", 0}, 0, "no changes\n", ""},
		{{204, "", 0}, 0, "no changes\n", ""},
		{{403, PROBLEM("Forbidden", ""), 0}, 3, "", "Forbidden: why"},
		{{500, PROBLEM("KernelError", ""), 0}, 1, "", "KernelError: why"},
		{{0, "", 0}, 1, "", ": "},
	};
	char *out, *err, *asked;

	for (size_t i = 0; i < N(cases); i++) {
		struct agent agent;

		start_agent(&agent, &cases[i].reply, 1);
		run_teardown(&out, &err);
		stop_agent(&agent);
		asked = requests();
		assert_int_equal(teardown_status, cases[i].status);
		assert_false(teardown_no_agent);
		assert_true(is_there(cases[i].out, out) && is_there(cases[i].err, err));
		assert_string_equal(asked, "DELETE /v1/spec 0\n");
		free(asked);
		free(out);
		free(err);
	}
}

/* The socket file may be gone, or be left behind by an agent that was killed. */
static void test_teardown_without_an_agent(void **state)
{
	struct agent agent;
	char *out, *err;

	for (int left_behind = 0; left_behind < 2; left_behind++) {
		start_agent(&agent, &(struct reply){0}, 1);
		kill(agent.pid, SIGKILL);
		waitpid(agent.pid, NULL, 0);
		if (!left_behind)
			unlink(at("control.sock"));
		run_teardown(&out, &err);
		assert_true(teardown_no_agent);
		assert_int_equal(teardown_status, CLI_FAILED);
		assert_string_equal(out, "");
		assert_string_equal(err, "");
		free(out);
		free(err);
	}
	unlink(at("control.sock"));
}

/* -- the live view -- */

/* Without a terminal: a table for each revision, and one line for an outage. */
static void test_watch_appends(void **state)
{
	static const struct reply replies[] = {
		{200, STATUS("5"), 0}, {200, STATUS("5"), 0},
		{304, "", 0},	       {200, STATUS("6"), 0},
		{503, "", 0},	       {503, "", 0},
		{200, STATUS("6"), 0}, {200, STATUS("9"), SIGINT},
	};
	struct agent agent;
	struct outcome o;
	char *asked;

	start_agent(&agent, replies, N(replies));
	o = run("status --watch" SOCKET, NULL);
	stop_agent(&agent);
	asked = requests();
	assert_int_equal(o.status, CLI_DONE);
	assert_string_equal(o.out, "192.168.150.1:6443  revision 5\n\n192.168.150.1:6443  revision 6\n");
	assert_string_equal(o.err, "HTTPStatus: the agent answered 503\n");
	assert_string_equal(asked, "GET /v1/status 0\n"
				   "GET /v1/status?since=5&wait=2s 0\n"
				   "GET /v1/status?since=5&wait=2s 0\n"
				   "GET /v1/status?since=5&wait=2s 0\n"
				   "GET /v1/status?since=6&wait=2s 0\n"
				   "GET /v1/status 0\n"
				   "GET /v1/status 0\n"
				   "GET /v1/status?since=6&wait=2s 0\n");
	free(asked);
	free_outcome(&o);
}

static void test_watch_ends(void **state)
{
	static const struct reply json[] = {{200, STATUS("5"), 0}, {200, STATUS("5"), SIGTERM}};
	static const struct reply refused[] = {{200, STATUS("5"), 0}, {403, PROBLEM("Forbidden", ""), 0}};
	struct sigaction before, after;
	struct agent agent;

	sigaction(SIGINT, NULL, &before);
	start_agent(&agent, json, N(json));
	expect(&(struct expectation){"status --watch --json" SOCKET, 0, STATUS("5") "\n", ""}, NULL);
	stop_agent(&agent);
	start_agent(&agent, refused, N(refused));
	expect(&(struct expectation){"status --watch" SOCKET, 3, "revision 5", "Forbidden: why\n"}, NULL);
	stop_agent(&agent);
	sigaction(SIGINT, NULL, &after);
	assert_ptr_equal(before.sa_handler, after.sa_handler);
}

/* Everything that the program writes to its terminal, until WORD came; malloc'ed. */
static void read_terminal(int fd, struct buf *seen, const char *word)
{
	char chunk[4096];
	ssize_t n;

	while (!word || !strstr(buf_str(seen), word)) {
		n = read(fd, chunk, sizeof(chunk));
		if (n <= 0) /* EIO: the other side is closed */
			break;
		buf_append(seen, chunk, (size_t)n);
	}
	if (word)
		assert_non_null(strstr(buf_str(seen), word));
}

static void test_watch_on_a_terminal(void **state)
{
	static const struct reply replies[] = {{200, STATUS("5"), 0}, {503, "", 0}, {200, STATUS("6"), 0}};
	struct winsize size = {.ws_row = 4, .ws_col = 24};
	struct buf seen = {0};
	struct agent agent;
	int terminal, status;
	pid_t pid;

	start_agent(&agent, replies, N(replies));
	pid = forkpty(&terminal, NULL, NULL, &size);
	assert_true(pid >= 0);
	if (!pid) {
		alarm(30);
		setenv("TERM", "xterm", 1);
		unsetenv("NO_COLOR");
		_exit(run_line("status --watch" SOCKET));
	}
	read_terminal(terminal, &seen, "192.168.150.1:6443  rev");
	read_terminal(terminal, &seen, "HTTPStatus: the agent a");
	read_terminal(terminal, &seen, "The last that was heard");
	buf_consume(&seen, seen.len);
	read_terminal(terminal, &seen, "192.168.150.1:6443  rev");
	/* What Ctrl-C comes to. */
	assert_int_equal(write(terminal, "\x03", 1), 1);
	read_terminal(terminal, &seen, NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), CLI_DONE);
	/* The cursor and the former screen are the last things that come. */
	assert_string_equal(buf_str(&seen) + seen.len - strlen("\x1b[?25h\x1b[?1049l"),
			    "\x1b[?25h\x1b[?1049l");
	stop_agent(&agent);
	close(terminal);
	buf_free(&seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apply),
		cmocka_unit_test(test_confirm),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_the_settings_name_the_socket),
		cmocka_unit_test(test_no_agent),
		cmocka_unit_test(test_teardown),
		cmocka_unit_test(test_teardown_without_an_agent),
		cmocka_unit_test(test_watch_appends),
		cmocka_unit_test(test_watch_ends),
		cmocka_unit_test(test_watch_on_a_terminal),
	};

	/* Whoever started us in the background may have had it ignored, and what is ignored stays so. */
	signal(SIGINT, SIG_DFL);
	return cmocka_run_group_tests_name("cli with an agent", tests, make_place, remove_place);
}
