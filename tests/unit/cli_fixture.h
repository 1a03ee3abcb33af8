/* SPDX-License-Identifier: Apache-2.0 */
/* For test_cli*.c: command lines run as a shell would, in a folder of their own. */
#ifndef TESTS_UNIT_CLI_FIXTURE_H
#define TESTS_UNIT_CLI_FIXTURE_H

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vgw/cli/cli.h"

/* The verbs that need a host are not what is tested here; where the library has them, its own are taken. */
__attribute__((weak)) int agent_run(int argc, char **argv)
{
	return CLI_DONE;
}

__attribute__((weak)) int agent_plan(int argc, char **argv)
{
	return CLI_DONE;
}

__attribute__((weak)) int agent_teardown(int argc, char **argv)
{
	return CLI_DONE;
}

/* -- a folder of our own -- */

static char place[] = "/tmp/vgw-cli-XXXXXX";

static int make_place(void **state)
{
	return mkdtemp(place) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

static int remove_place(void **state)
{
	return nftw(place, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* NAME in the place; valid until the next call. */
static const char *at(const char *name)
{
	static char path[100]; /* fits a sockaddr_un */

	snprintf(path, sizeof(path), "%s/%s", place, name);
	return path;
}

static void write_file(const char *name, const char *text, size_t len)
{
	FILE *f = fopen(at(name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* -- running -- */

struct outcome {
	int status;
	char *out, *err;
};

static char *read_stream(int fd)
{
	off_t len = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)len + 1);

	assert_non_null(text);
	assert_int_equal(pread(fd, text, (size_t)len, 0), len);
	close(fd);
	return text;
}

/* FILE takes the place of stream FD, whose former self is returned. */
static int redirect(int fd, int file)
{
	int former = dup(fd);

	assert_true(former >= 0);
	assert_int_equal(dup2(file, fd), fd);
	return former;
}

static void restore(int fd, int former)
{
	assert_int_equal(dup2(former, fd), fd);
	close(former);
}

/* Splits at spaces; '@' is the place. COPY holds the words. Their number. */
static int split(const char *line, char *copy, size_t size, char **words, int max)
{
	static char program[] = "vgw-agent";
	size_t n = 0;
	int count = 0;

	for (; *line && n + sizeof(place) < size; line++) {
		if (*line == '@')
			n += (size_t)snprintf(copy + n, size - n, "%s", place);
		else
			copy[n++] = *line;
	}
	copy[n] = '\0';
	words[count++] = program;
	for (char *w = strtok(copy, " "); w && count < max - 1; w = strtok(NULL, " "))
		words[count++] = w;
	words[count] = NULL;
	return count;
}

static int run_line(const char *line)
{
	static char copy[8192];
	static char *words[160];
	int n = split(line, copy, sizeof(copy), words, sizeof(words) / sizeof(words[0]));

	return cli_main(n, words);
}

/* INPUT may be NULL. */
static struct outcome run(const char *line, const char *input)
{
	int in = memfd_create("in", 0), out = memfd_create("out", 0), err = memfd_create("err", 0);
	int former_in, former_out, former_err;
	struct outcome result;

	if (input)
		assert_int_equal(write(in, input, strlen(input)), strlen(input));
	lseek(in, 0, SEEK_SET);
	fflush(stdout);
	fflush(stderr);
	former_in = redirect(STDIN_FILENO, in);
	former_out = redirect(STDOUT_FILENO, out);
	former_err = redirect(STDERR_FILENO, err);
	result.status = run_line(line);
	fflush(stdout);
	fflush(stderr);
	restore(STDIN_FILENO, former_in);
	restore(STDOUT_FILENO, former_out);
	restore(STDERR_FILENO, former_err);
	close(in);
	result.out = read_stream(out);
	result.err = read_stream(err);
	return result;
}

static void free_outcome(struct outcome *o)
{
	free(o->out);
	free(o->err);
}

/* What a command line should come to. TEXT "" must be empty, else it is a part of the stream. */
struct expectation {
	const char *line;
	int status;
	const char *out, *err;
};

static bool is_there(const char *part, const char *whole)
{
	return *part ? strstr(whole, part) != NULL : !*whole;
}

static void expect(const struct expectation *e, const char *input)
{
	struct outcome o = run(e->line, input);

	if (o.status != e->status || !is_there(e->out, o.out) || !is_there(e->err, o.err)) {
		fprintf(stderr, "%s: status %d\n-- out:\n%s-- err:\n%s", e->line, o.status, o.out, o.err);
		fail_msg("%s", e->line);
	}
	free_outcome(&o);
}

#endif
