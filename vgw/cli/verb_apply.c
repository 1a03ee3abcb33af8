/* SPDX-License-Identifier: Apache-2.0 */
/* apply and confirm, and the half of teardown that a running agent does. */
#include "vgw/cli/cli.h"

#include <errno.h>
#include <stdio.h>

#include "vgw/model/spec.h"

static int send_spec(const struct client_target *target, const struct buf *spec, const char *query)
{
	struct client_response response = {0};
	struct vgw_err err = {0};
	char path[64];
	int status;

	snprintf(path, sizeof(path), "/v1/spec%s", query);
	if (client_request(target, "PUT", path, "application/json", buf_str(spec), spec->len, &response,
			   &err))
		return cli_error(CLI_FAILED, &err);
	status = response.status == 200 ? cli_print_plan(&response) : cli_problem(&response);
	client_response_free(&response);
	return status;
}

/* The query for a duration as people write it. */
static int confirm_query(const char *verb, const char *duration, char *query, size_t size)
{
	uint32_t ms = 0;
	char text[16];

	if (spec_duration_parse(duration, &ms) < 0 || !ms)
		return cli_usage(verb, "'%s' is not a duration such as 30s or 2m", duration);
	snprintf(query, size, "?confirm=%s", spec_duration_print(ms, text));
	return CLI_DONE;
}

int cli_apply(int argc, char **argv)
{
	bool dry_run = false;
	const char *confirm = NULL;
	struct cli_target_options where = {0};
	const struct cli_option options[] = {
		{"dry-run", CLI_FLAG, &dry_run},
		{"confirm", CLI_TEXT, &confirm},
		CLI_TARGET_OPTIONS(&where),
	};
	char query[40] = "", **arguments;
	struct cli_target target;
	struct buf spec = {0};
	int status;

	if (cli_options(argc, argv, options, sizeof(options) / sizeof(options[0]), 1, 1, &arguments) < 0)
		return CLI_USAGE;
	if (dry_run && confirm)
		return cli_usage(argv[0], "--dry-run applies nothing that --confirm could take back");
	if (dry_run)
		snprintf(query, sizeof(query), "?dryRun=true");
	if (confirm && confirm_query(argv[0], confirm, query, sizeof(query)))
		return CLI_USAGE;
	status = cli_target_open(argv[0], &where, &target);
	if (status)
		return status;
	status = cli_read(arguments[0], &spec);
	if (status == CLI_DONE)
		status = send_spec(&target.client, &spec, query);
	if (status == CLI_DONE && confirm)
		fprintf(stderr, "the spec before comes back in %s unless you say: vgw-agent confirm\n",
			confirm);
	buf_free(&spec);
	cli_target_free(&target);
	return status;
}

int cli_confirm(int argc, char **argv)
{
	struct cli_target_options where = {0};
	const struct cli_option options[] = {CLI_TARGET_OPTIONS(&where)};
	struct client_response response = {0};
	struct vgw_err err = {0};
	struct cli_target target;
	char **arguments;
	int status;

	if (cli_options(argc, argv, options, sizeof(options) / sizeof(options[0]), 0, 0, &arguments) < 0)
		return CLI_USAGE;
	status = cli_target_open(argv[0], &where, &target);
	if (status)
		return status;
	if (client_request(&target.client, "POST", "/v1/spec/confirm", NULL, "", 0, &response, &err))
		status = cli_error(CLI_FAILED, &err);
	else if (response.status >= 200 && response.status < 300)
		puts("confirmed");
	else
		status = cli_problem(&response);
	client_response_free(&response);
	cli_target_free(&target);
	return status;
}

int cli_teardown_remote(const struct client_target *target, bool *no_agent)
{
	struct client_response response = {0};
	struct vgw_err err = {0};
	int status, rc = client_request(target, "DELETE", "/v1/spec", NULL, NULL, 0, &response, &err);

	/* Elsewhere, nobody could do it in the agent's place. */
	*no_agent = !target->connect && (rc == -ENOENT || rc == -ECONNREFUSED);
	if (*no_agent)
		return CLI_FAILED;
	if (rc)
		return cli_error(CLI_FAILED, &err);
	if (response.status == 200)
		status = cli_print_plan(&response);
	else if (response.status == 204)
		status = puts("no changes") < 0 ? CLI_FAILED : CLI_DONE;
	else
		status = cli_problem(&response);
	client_response_free(&response);
	return status;
}
