/* SPDX-License-Identifier: Apache-2.0 */
/* pki: the certificates of a trial or a small site. */
#include "vgw/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "netcfg/model/ip.h"
#include "vgw/control/pki.h"

/* When PATH was last replaced, to tell which files are new. */
static struct timespec changed(const char *dir, const char *name)
{
	char path[4096];
	struct stat st = {0};

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return stat(path, &st) == 0 ? st.st_ctim : (struct timespec){0};
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int make(const char *dir, const char *name, const struct cli_list *addresses)
{
	static const char *const files[] = {"ca.crt",	  "ca.key",	"server.crt",
					    "server.key", "client.crt", "client.key"};
	enum { N = sizeof(files) / sizeof(files[0]) };
	struct timespec before[N], after;
	struct vgw_err err = {0};
	int rc;

	for (size_t i = 0; i < N; i++)
		before[i] = changed(dir, files[i]);
	rc = pki_make(dir, name, addresses->v, addresses->n, &err);
	if (rc)
		return cli_error(rc == -EINVAL ? CLI_REFUSED : CLI_FAILED, &err);
	for (size_t i = 0; i < N; i++) {
		after = changed(dir, files[i]);
		printf("%s/%s%s\n", dir, files[i], same_time(&before[i], &after) ? " (kept)" : "");
	}
	return CLI_DONE;
}

int cli_pki(int argc, char **argv)
{
	struct cli_list addresses = {0};
	const char *name = NULL;
	const struct cli_option options[] = {
		{"name", CLI_TEXT, &name},
		{"address", CLI_LIST, &addresses},
	};
	struct ip_addr parsed;
	char **arguments;

	if (cli_options(argc, argv, options, sizeof(options) / sizeof(options[0]), 1, 1, &arguments) < 0)
		return CLI_USAGE;
	if (!*arguments[0])
		return cli_usage(argv[0], "the name of the directory is empty");
	if (name && !*name)
		return cli_usage(argv[0], "the name of the server is empty");
	for (size_t i = 0; i < addresses.n; i++)
		if (ip_addr_parse(addresses.v[i], &parsed) < 0)
			return cli_usage(argv[0], "'%s' is not an IP address", addresses.v[i]);
	return make(arguments[0], name, &addresses);
}
