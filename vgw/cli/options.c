/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, and whom it says to talk to. */
#include "vgw/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vgw/cli/text.h"
#include "vgw/config.h"

enum {
	MAX_OPTIONS = 16,
	FIRST_VALUE = 1000 /* of getopt_long: beyond every short option */
};

int cli_usage(const char *verb, const char *fmt, ...)
{
	const struct cli_verb *v = verb ? cli_verb_find(verb) : NULL;
	struct buf line = {0};
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_clean(&line, text);
	if (v)
		fprintf(stderr, "vgw-agent %s: %s\nusage: vgw-agent %s\n", v->name, buf_str(&line),
			v->synopsis);
	else
		fprintf(stderr, "vgw-agent: %s\nusage: vgw-agent VERB [ARGUMENT]...; see 'vgw-agent help'\n",
			buf_str(&line));
	buf_free(&line);
	return CLI_USAGE;
}

static int take(const struct cli_option *option, const char *verb)
{
	struct cli_list *list;

	switch (option->kind) {
	case CLI_FLAG:
		*(bool *)option->value = true;
		return 0;
	case CLI_TEXT:
		*(const char **)option->value = optarg;
		return 0;
	case CLI_LIST:
		list = option->value;
		if (list->n == sizeof(list->v) / sizeof(list->v[0])) {
			cli_usage(verb, "too many options '--%s'", option->name);
			return -EINVAL;
		}
		list->v[list->n++] = optarg;
		return 0;
	}
	return -EINVAL;
}

static void explain(int c, char **argv)
{
	if (c == ':')
		cli_usage(argv[0], "option '%s' needs a value", argv[optind - 1]);
	else if (optopt >= FIRST_VALUE)
		cli_usage(argv[0], "option '%s' takes no value", argv[optind - 1]);
	else if (optopt)
		cli_usage(argv[0], "unknown option '-%c'", optopt);
	else
		cli_usage(argv[0], "unknown option '%s'", argv[optind - 1]);
}

int cli_options(int argc, char **argv, const struct cli_option *options, size_t n, int min, int max,
		char ***arguments)
{
	struct option known[MAX_OPTIONS + 1] = {0};
	int c, given;

	for (size_t i = 0; i < n && i < MAX_OPTIONS; i++)
		known[i] = (struct option){options[i].name,
					   options[i].kind == CLI_FLAG ? no_argument : required_argument,
					   NULL, FIRST_VALUE + (int)i};
	optind = 0; /* glibc: start anew, also after another command line */
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", known, NULL)) != -1) {
		if (c < FIRST_VALUE) {
			explain(c, argv);
			return -EINVAL;
		}
		if (take(&options[c - FIRST_VALUE], argv[0]))
			return -EINVAL;
	}
	given = argc - optind;
	*arguments = argv + optind;
	if (given >= min && given <= max)
		return given;
	if (given < min)
		cli_usage(argv[0], "an argument is missing");
	else
		cli_usage(argv[0], "unexpected argument '%s'", argv[optind + max]);
	return -EINVAL;
}

static int check_target(const char *verb, const struct cli_target_options *o)
{
	if (!o->connect && (o->ca || o->certificate || o->key))
		return cli_usage(verb, "--ca, --cert and --key go with --connect");
	if (o->connect && o->socket)
		return cli_usage(verb, "--connect and --socket are two places; name one");
	if (o->connect && !(o->ca && o->certificate && o->key))
		return cli_usage(verb, "--connect needs --ca, --cert and --key");
	return CLI_DONE;
}

int cli_target_open(const char *verb, const struct cli_target_options *options, struct cli_target *out)
{
	struct vgw_err err = {0};
	int rc = check_target(verb, options);

	memset(out, 0, sizeof(*out));
	if (rc)
		return rc;
	if (options->connect) {
		out->client.connect = options->connect;
		out->client.ca = options->ca;
		out->client.certificate = options->certificate;
		out->client.key = options->key;
		return CLI_DONE;
	}
	out->client.socket = options->socket;
	if (options->socket)
		return CLI_DONE;
	rc = config_load(options->config, &out->config, &err);
	/* Who may use the socket need not be allowed to read the settings. */
	if (rc == -EACCES && !options->config) {
		out->client.socket = CONFIG_DEFAULT_SOCKET;
		return CLI_DONE;
	}
	if (rc)
		return cli_error(rc == -EINVAL || rc == -E2BIG ? CLI_REFUSED : CLI_FAILED, &err);
	out->client.socket = out->config->socket;
	return CLI_DONE;
}

void cli_target_free(struct cli_target *t)
{
	if (t->config)
		config_free(t->config);
	memset(t, 0, sizeof(*t));
}
