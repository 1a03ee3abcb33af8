/* SPDX-License-Identifier: Apache-2.0 */
/* The people's side: the verbs, what they print, and with which status the program ends (CONTRACT.md 2). */
#ifndef VGW_CLI_CLI_H
#define VGW_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "netcfg/base/buf.h"
#include "netcfg/base/err.h"
#include "vgw/control/client.h"

enum cli_status {
	CLI_DONE = 0,
	CLI_FAILED = 1,	 /* while running */
	CLI_USAGE = 2,	 /* the command line makes no sense */
	CLI_REFUSED = 3, /* "Reason: message" is on stderr */
	CLI_FOUND = 4,	 /* an examination found a problem */
};

struct cli_verb {
	const char *name;
	const char *synopsis; /* what follows the program's name */
	const char *summary;  /* one line for the list of verbs */
	const char *help;     /* paragraphs, each line ended */
	/* ARGV[0] is the verb; the order of ARGV may change. An enum cli_status. */
	int (*run)(int argc, char **argv);
};

/* All of main(): ARGV[0] is the program. An enum cli_status. */
int cli_main(int argc, char **argv);

/* Sorted as in the contract; ended by one whose name is NULL. */
extern const struct cli_verb cli_verbs[];
const struct cli_verb *cli_verb_find(const char *name);

int cli_check(int argc, char **argv);
int cli_apply(int argc, char **argv);
int cli_confirm(int argc, char **argv);
int cli_status(int argc, char **argv);
int cli_pmtu(int argc, char **argv);
int cli_pki(int argc, char **argv);
int cli_version(int argc, char **argv);
int cli_help(int argc, char **argv);
/* The verbs that touch this host. They live beside the loop. */
int agent_run(int argc, char **argv);
int agent_plan(int argc, char **argv);
int agent_teardown(int argc, char **argv);

/* -- the command line -- */

enum cli_option_kind {
	CLI_FLAG, /* value: bool * */
	CLI_TEXT, /* value: const char **; the last one counts */
	CLI_LIST, /* value: struct cli_list * */
};

struct cli_option {
	const char *name; /* without the dashes */
	enum cli_option_kind kind;
	void *value; /* left alone where the option is not given */
};

struct cli_list {
	const char *v[64];
	size_t n;
};

/*
 * Reads the options of a verb (in any place, also behind the arguments) and counts its other arguments, of
 * which there must be MIN to MAX. *ARGUMENTS points to the first of them. Their number, or -EINVAL when the
 * wrong usage has been explained on stderr.
 */
int cli_options(int argc, char **argv, const struct cli_option *options, size_t n, int min, int max,
		char ***arguments);

/* Explains a wrong usage on stderr; VERB NULL or unknown: of the program. Returns CLI_USAGE. */
int cli_usage(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* -- whom to talk to -- */

struct cli_target_options {
	const char *config, *socket;
	const char *connect, *ca, *certificate, *key;
};

/* clang-format off */
#define CLI_TARGET_OPTIONS(t)                                                                                \
	{"config", CLI_TEXT, &(t)->config}, {"socket", CLI_TEXT, &(t)->socket},                              \
	{"connect", CLI_TEXT, &(t)->connect}, {"ca", CLI_TEXT, &(t)->ca},                                    \
	{"cert", CLI_TEXT, &(t)->certificate}, {"key", CLI_TEXT, &(t)->key}
/* clang-format on */

struct cli_target {
	struct client_target client;
	struct config *config; /* holds the path of the socket; may be NULL */
};

/* CLI_DONE with OUT filled (cli_target_free), or the status after saying why on stderr. VERB for usage. */
int cli_target_open(const char *verb, const struct cli_target_options *options, struct cli_target *out);
void cli_target_free(struct cli_target *t);

/* -- input, output and failures -- */

/* A file or, for "-", standard input, of at most 16 MiB. CLI_DONE, or the status after saying why. */
int cli_read(const char *path, struct buf *out);

/* "Reason: message (at place)" on stderr, made harmless for a terminal. Returns STATUS. */
int cli_error(enum cli_status status, const struct vgw_err *err);

/* The same for an answer that is not a success. CLI_REFUSED or CLI_FAILED. */
int cli_problem(const struct client_response *response);

/* Fills ERR from an answer that is not a success; the status that goes with it. */
enum cli_status cli_problem_read(const struct client_response *response, struct vgw_err *err);

/* The lines of the answer's `plan`, or "no changes". CLI_DONE, or CLI_FAILED after saying why. */
int cli_print_plan(const struct client_response *response);

/*
 * The half of `teardown` that an agent does: DELETE /v1/spec, and prints what it has changed. *NO_AGENT when
 * none answers on the socket: then nothing has been printed, and the caller does it by itself. An enum
 * cli_status; CLI_FAILED with *NO_AGENT.
 */
int cli_teardown_remote(const struct client_target *target, bool *no_agent);

#endif
