/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/cli/cli.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <ev.h>
#include <http_parser.h>
#include <mbedtls/version.h>
#include <netlink/version.h>
#include <stdio.h>
#include <string.h>

enum {
	WORD_MAX = 32,	 /* longer words resemble no verb */
	RESEMBLANCE = 2, /* typing errors that a suggestion forgives */
};

const struct cli_verb *cli_verb_find(const char *name)
{
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		if (!strcmp(v->name, name))
			return v;
	return NULL;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Insertions, deletions, substitutions and swaps of neighbours that make B of A, both below WORD_MAX. */
static size_t distance(const char *a, const char *b)
{
	size_t d[WORD_MAX][WORD_MAX], n = strlen(a), m = strlen(b);

	for (size_t i = 0; i <= n; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			size_t changed = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			d[i][j] = least(changed, least(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[n][m];
}

/* The verb that was probably meant, or NULL. */
static const struct cli_verb *nearest(const char *typed)
{
	const struct cli_verb *found = NULL;
	size_t len = strlen(typed), best = RESEMBLANCE + 1;
	char word[WORD_MAX];

	if (!len || len >= WORD_MAX)
		return NULL;
	for (size_t i = 0; i <= len; i++)
		word[i] = (char)tolower((unsigned char)typed[i]);
	for (const struct cli_verb *v = cli_verbs; v->name; v++) {
		bool prefix = len >= 2 && !strncmp(v->name, word, len);
		size_t d = prefix ? 0 : distance(word, v->name);

		/* Of a short word two errors leave nothing. */
		if (d < best && d < len) {
			best = d;
			found = v;
		}
	}
	return found;
}

static int unknown_verb(const char *word)
{
	const struct cli_verb *v = nearest(word);

	if (v)
		return cli_usage(NULL, "unknown verb '%s'; did you mean '%s'?", word, v->name);
	return cli_usage(NULL, "unknown verb '%s'", word);
}

static int help_verb(const struct cli_verb *v)
{
	printf("usage: vgw-agent %s\n\n%s", v->synopsis, v->help);
	return CLI_DONE;
}

static int help_all(void)
{
	puts("vgw-agent: private frontends, backend checks and tunnel MTU of a virtual gateway\n\n"
	     "usage: vgw-agent VERB [ARGUMENT]...\n");
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		printf("  %-9s %s\n", v->name, v->summary);
	puts("\n'vgw-agent help VERB' explains one of them.\n"
	     "Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 an examination found a problem.");
	return CLI_DONE;
}

int cli_help(int argc, char **argv)
{
	const struct cli_verb *v;
	char **arguments;
	int n = cli_options(argc, argv, NULL, 0, 0, 1, &arguments);

	if (n < 0)
		return CLI_USAGE;
	if (!n)
		return help_all();
	v = cli_verb_find(arguments[0]);
	return v ? help_verb(v) : unknown_verb(arguments[0]);
}

int cli_version(int argc, char **argv)
{
	unsigned long http = http_parser_version();
	char tls[18] = "";
	char **arguments;

	if (cli_options(argc, argv, NULL, 0, 0, 0, &arguments) < 0)
		return CLI_USAGE;
	/* What is loaded now, not what was there at build time. */
	mbedtls_version_get_string(tls);
	printf("vgw-agent %s\n"
	       "mbedTLS %s, cJSON %s, libnl %d.%d.%d, libev %d.%d, http-parser %lu.%lu.%lu\n",
	       VGW_VERSION, tls, cJSON_Version(), nl_ver_maj, nl_ver_min, nl_ver_mic, ev_version_major(),
	       ev_version_minor(), http >> 16 & 255, http >> 8 & 255, http & 255);
	return CLI_DONE;
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

static int dispatch(int argc, char **argv)
{
	const struct cli_verb *v;

	if (argc < 2)
		return cli_usage(NULL, "a verb is missing");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help_all();
	v = cli_verb_find(!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") ? "version" : argv[1]);
	if (!v)
		return unknown_verb(argv[1]);
	if (asks_for_help(argc - 1, argv + 1))
		return help_verb(v);
	return v->run(argc - 1, argv + 1);
}

int cli_main(int argc, char **argv)
{
	int status = dispatch(argc, argv);

	/* A full disk must not look like success. */
	if ((fflush(stdout) || ferror(stdout)) && status == CLI_DONE) {
		perror("vgw-agent: standard output");
		status = CLI_FAILED;
	}
	return status;
}
