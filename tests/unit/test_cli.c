/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs as a shell sees them: a command line in; standard output, standard error and the status out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>

#include "tests/unit/cli_fixture.h"

#define N(array)  (sizeof(array) / sizeof((array)[0]))
#define SOCKET	  " --socket @/control.sock"
#define TLS_FILES " --ca @/ca --cert @/crt --key @/key"

/* -- usage -- */

static void test_wrong_usage(void **state)
{
	static const struct expectation cases[] = {
		{"", 2, "", "a verb is missing"},
		{"fly", 2, "", "vgw-agent: unknown verb 'fly'\n"},
		{"stauts", 2, "", "unknown verb 'stauts'; did you mean 'status'?"},
		{"Apply", 2, "", "did you mean 'apply'?"},
		{"tear", 2, "", "did you mean 'teardown'?"},
		{"appyl", 2, "", "did you mean 'apply'?"},
		{"runn", 2, "", "did you mean 'run'?"},
		{"doctor", 2, "", "unknown verb 'doctor'\n"},
		{"a-verb-that-is-much-longer-than-any-that-there-could-be", 2, "", "unknown verb"},
		{"\x1b[2J", 2, "", "unknown verb '?[2J'"},
		{"--nothing", 2, "", "unknown verb '--nothing'"},
		{"help fly", 2, "", "unknown verb 'fly'"},
		{"help a b", 2, "", "unexpected argument 'b'\nusage: vgw-agent help [VERB]\n"},
		{"version now", 2, "", "unexpected argument 'now'"},
		{"check", 2, "", "vgw-agent check: an argument is missing\nusage: vgw-agent check FILE\n"},
		{"check a b", 2, "", "unexpected argument 'b'"},
		{"check --colour x", 2, "", "unknown option '--colour'"},
		{"check -x a", 2, "", "unknown option '-x'"},
		{"apply", 2, "", "an argument is missing"},
		{"apply f --dry-run --confirm 3s", 2, "", "--dry-run"},
		{"apply f --confirm", 2, "", "option '--confirm' needs a value"},
		{"apply f --confirm soon", 2, "", "'soon' is not a duration"},
		{"apply f --confirm 0s", 2, "", "'0s' is not a duration"},
		{"apply f --con 3s", 2, "", "unknown option '--con'"}, /* config, confirm or connect */
		{"confirm now", 2, "", "unexpected argument 'now'"},
		{"status extra", 2, "", "unexpected argument 'extra'"},
		{"status --json=yes", 2, "", "option '--json=yes' takes no value"},
		{"status --ca f", 2, "", "go with --connect"},
		{"status --connect h:1 --ca f --cert f", 2, "", "--connect needs --ca, --cert and --key"},
		{"status --connect h:1" TLS_FILES SOCKET, 2, "", "name one"},
		{"pki", 2, "", "an argument is missing"},
		{"pki @/x --address 192.168.150.300", 2, "", "'192.168.150.300' is not an IP address"},
		{"pki @/x --address gateway.example", 2, "", "'gateway.example' is not an IP address"},
		{"pki @/x --address 10.0.0.0/8", 2, "", "'10.0.0.0/8' is not an IP address"},
		{"pki @/x --name=", 2, "", "empty"},
	};

	for (size_t i = 0; i < N(cases); i++)
		expect(&cases[i], NULL);
	assert_int_equal(access(at("x"), F_OK), -1);
}

static void test_too_many_addresses(void **state)
{
	struct buf line = {0};

	buf_puts(&line, "pki @/x");
	for (int i = 0; i < 65; i++)
		buf_puts(&line, " --address ::1");
	expect(&(struct expectation){buf_str(&line), 2, "", "too many options '--address'"}, NULL);
	buf_free(&line);
}

static void test_help(void **state)
{
	struct outcome all = run("help", NULL), other = run("--help", NULL);

	assert_int_equal(all.status, CLI_DONE);
	assert_string_equal(all.err, "");
	assert_string_equal(all.out, other.out);
	for (const struct cli_verb *v = cli_verbs; v->name; v++) {
		char line[64], entry[64];

		snprintf(entry, sizeof(entry), "\n  %-9s %s\n", v->name, v->summary);
		assert_non_null(strstr(all.out, entry));
		for (unsigned i = 0; i < 3; i++) {
			snprintf(line, sizeof(line),
				 i == 0	  ? "help %s"
				 : i == 1 ? "%s --help"
					  : "%s x -h",
				 v->name);
			snprintf(entry, sizeof(entry), "usage: vgw-agent %s", v->name);
			expect(&(struct expectation){line, 0, entry, ""}, NULL);
		}
	}
	free_outcome(&all);
	free_outcome(&other);
}

static void test_version(void **state)
{
	static const struct expectation cases[] = {
		{"version", 0, "vgw-agent " VGW_VERSION "\nmbedTLS ", ""},
		{"--version", 0, "cJSON 1.", ""},
		{"-V", 0, "libnl 3.", ""},
	};

	for (size_t i = 0; i < N(cases); i++)
		expect(&cases[i], NULL);
}

static void test_a_full_disk_is_no_success(void **state)
{
	int full = open("/dev/full", O_WRONLY), nowhere = open("/dev/null", O_WRONLY);
	int former_out, former_err, status;

	if (full < 0)
		skip();
	fflush(stdout);
	former_out = redirect(STDOUT_FILENO, full);
	former_err = redirect(STDERR_FILENO, nowhere);
	close(full);
	close(nowhere);
	status = run_line("version");
	restore(STDOUT_FILENO, former_out);
	restore(STDERR_FILENO, former_err);
	clearerr(stdout);
	assert_int_equal(status, CLI_FAILED);
}

/* -- check -- */

#define SPEC(generation, more)                                                                               \
	"{\"apiVersion\": \"vgw-agent/v1\", \"generation\": " generation ", \"cluster\": \"demo\","          \
	" \"controlPlaneExposure\": \"private\", \"cloudspace\": {\"privateNetwork\": "                      \
	"\"192.168.150.0/24\"}" more "}"
#define FRONTENDS(name, port, protocol)                                                                      \
	", \"frontends\": [{\"name\": \"" name "\", \"port\": " port ", \"protocol\": \"" protocol "\","     \
	" \"backends\": [{\"address\": \"192.168.150.11\", \"port\": 6443},"                                 \
	"               {\"address\": \"192.168.150.12\", \"port\": 6443}]}]"

static void test_check(void **state)
{
	static const struct {
		const char *spec;
		struct expectation e;
	} cases[] = {
		{SPEC("3", FRONTENDS("kube-apiserver", "6443", "TCP")),
		 {"check -", 0,
		  "ok: cluster demo, generation 3, role gateway, private control plane on "
		  "192.168.150.1:6443, "
		  "1 frontend, 2 backends\n",
		  ""}},
		{SPEC("1", ""), {"check -", 0, "ok: cluster demo, generation 1, role gateway\n", ""}},
		{SPEC("1", ", \"addons\": {\"serviceLB\": \"vco\"}"),
		 {"check -", 0, "ok: ", "warning: ServiceLBVco: addons.serviceLB"}},
		{"", {"check -", 3, "", "InvalidSpec: "}},
		{"{", {"check -", 3, "", "InvalidSpec: "}},
		{SPEC("1", ", \"colour\": 1"), {"check -", 3, "", "(at /colour)\n"}},
		{SPEC("\"1\"", ""), {"check -", 3, "", "(at /generation)\n"}},
		{SPEC("1", FRONTENDS("web", "9443", "TCP")), {"check -", 3, "", "PortConflict: "}},
		{SPEC("1", FRONTENDS("web", "9444", "UDP")), {"check -", 3, "", "(at /frontends/0/port)\n"}},
		{SPEC("1", FRONTENDS("web", "9444", "TCP")), {"check -", 0, "ok: ", ""}},
		{SPEC("1", FRONTENDS("web", "9443", "UDP")), {"check -", 0, "ok: ", ""}},
		{SPEC("1", ", \"clusterNetwork\": {\"pods\": [\"192.168.0.0/16\"]}"),
		 {"check -", 3, "", "CIDROverlap: "}},
		{SPEC("1", ", \"\\u001b[2J\": 1"), {"check -", 3, "", "InvalidSpec: "}},
	};

	for (size_t i = 0; i < N(cases); i++) {
		struct expectation from_file = cases[i].e;

		expect(&cases[i].e, cases[i].spec);
		write_file("spec.json", cases[i].spec, strlen(cases[i].spec));
		from_file.line = "check @/spec.json";
		expect(&from_file, NULL);
	}
}

/* For scripts: the reason is the first word, and a refusal is one line. */
static void test_a_refusal_is_one_line(void **state)
{
	struct outcome o = run("check -", SPEC("1", ", \"a\\nb\\u001b[2J\": 1"));

	assert_int_equal(o.status, CLI_REFUSED);
	assert_int_equal(strncmp(o.err, "InvalidSpec: ", 13), 0);
	assert_ptr_equal(strchr(o.err, '\n'), o.err + strlen(o.err) - 1);
	assert_null(strchr(o.err, '\x1b'));
	free_outcome(&o);
}

static void test_files_that_cannot_be_read(void **state)
{
	static const struct expectation cases[] = {
		{"check @/nothing.json", 1, "",
		 "FileError: cannot read it: No such file or directory (at /tmp/"},
		{"check @", 1, "", "Is a directory"},
		{"apply @/nothing.json" SOCKET, 1, "", "/nothing.json"},
	};

	for (size_t i = 0; i < N(cases); i++)
		expect(&cases[i], NULL);
}

static void test_input_is_bounded(void **state)
{
	size_t len = (16 << 20) + 1;
	char *text = malloc(len);

	assert_non_null(text);
	memset(text, ' ', len);
	write_file("large.json", text, len);
	expect(&(struct expectation){"check @/large.json", 3, "", "TooLarge: longer than 16 MiB (at "}, NULL);
	expect(&(struct expectation){"apply @/large.json" SOCKET, 3, "", "TooLarge: "}, NULL);
	/* At the limit the text itself is judged. */
	write_file("large.json", text, len - 1);
	expect(&(struct expectation){"check @/large.json", 3, "", "InvalidSpec: "}, NULL);
	unlink(at("large.json"));
	free(text);
}

/* -- pki -- */

static void test_pki(void **state)
{
	static const char *const files[] = {"ca.crt",	  "ca.key",	"server.crt",
					    "server.key", "client.crt", "client.key"};
	struct outcome o = run("pki @/pki --name gw.example --address 192.168.150.1 --address fd00::1", NULL);

	assert_int_equal(o.status, CLI_DONE);
	assert_string_equal(o.err, "");
	for (size_t i = 0; i < N(files); i++) {
		char line[160];

		snprintf(line, sizeof(line), "%s/pki/%s\n", place, files[i]);
		assert_non_null(strstr(o.out, line));
		line[strlen(line) - 1] = '\0';
		assert_int_equal(access(line, R_OK), 0);
	}
	assert_null(strstr(o.out, "(kept)"));
	free_outcome(&o);
	expect(&(struct expectation){"pki @/pki", 0, "/pki/ca.crt (kept)\n", ""}, NULL);
	expect(&(struct expectation){"pki /proc/nowhere", 1, "", "/proc/nowhere"}, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_usage),
		cmocka_unit_test(test_too_many_addresses),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_a_full_disk_is_no_success),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_a_refusal_is_one_line),
		cmocka_unit_test(test_files_that_cannot_be_read),
		cmocka_unit_test(test_input_is_bounded),
		cmocka_unit_test(test_pki),
	};

	return cmocka_run_group_tests_name("cli", tests, make_place, remove_place);
}
