/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that look at this host or change it without an agent: `plan`, and `teardown` when none answers.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vgw/cli/cli.h"
#include "vgw/host.h"
#include "vgw/store.h"

struct local {
	struct config *config;
	struct store store;
	struct host host;
	struct plan_recorded record;
	struct host_view view;
	struct spec *spec, *stored;
};

static void local_close(struct local *l)
{
	host_view_free(&l->view);
	store_record_free(&l->record);
	spec_free(l->spec);
	spec_free(l->stored);
	host_close(&l->host);
	config_free(l->config);
}

static enum cli_status status_of(int rc)
{
	return rc == -EINVAL || rc == -E2BIG || rc == -ESTALE ? CLI_REFUSED : CLI_FAILED;
}

static int local_open(struct local *l, const char *config, struct vgw_err *err)
{
	int rc = config_load(config, &l->config, err);

	if (!rc)
		rc = store_open(&l->store, l->config->state_directory, err);
	if (!rc)
		rc = store_read_record(&l->store, &l->record, err);
	if (!rc)
		rc = host_open(&l->host, l->config, err);
	return rc;
}

/* The spec behind what the kernel has, if it can still be read. */
static void read_stored(struct local *l)
{
	struct buf text = {0};

	if (store_read_spec(&l->store, &text, NULL) == 0)
		spec_decode(buf_str(&text), text.len, &l->stored, NULL);
	buf_free(&text);
}

static int make_plan(struct local *l, const struct buf *text, struct plan *plan, struct vgw_err *err)
{
	const struct wanted_verdict *const *verdicts;
	struct rules_live live = {0};
	struct netstate wanted;
	int rc = spec_decode(buf_str(text), text->len, &l->spec, err);

	if (rc)
		return rc;
	read_stored(l);
	if (l->stored)
		rc = rules_check_generation(l->spec, l->stored, err);
	if (!rc)
		rc = host_look(&l->host, l->spec, &l->record, NULL, &l->view, err);
	if (rc)
		return rc;
	live.accepted = l->stored;
	live.control_plane_live =
		l->stored && l->view.observed.table.present && spec_control_plane(l->stored);
	rc = rules_check(l->spec, &l->view.rules, &live, err);
	if (rc)
		return rc;
	rc = host_verdicts(l->spec, l->stored, &l->view, l->view.arena, &verdicts);
	if (rc)
		return vgw_err_set(err, rc, "OutOfMemory", "plan", "no memory");
	return host_plan(&l->host, l->spec, verdicts, &l->record, &l->view, &wanted, plan, err);
}

int agent_plan(int argc, char **argv)
{
	const char *config = NULL;
	const struct cli_option options[] = {{"config", CLI_TEXT, &config}};
	struct local l = {0};
	struct buf text = {0};
	struct vgw_err err = {0};
	struct plan plan = {0};
	char **arguments;
	int rc, status;

	if (cli_options(argc, argv, options, 1, 1, 1, &arguments) < 0)
		return CLI_USAGE;
	status = cli_read(arguments[0], &text);
	if (status != CLI_DONE)
		return status;
	rc = local_open(&l, config, &err);
	if (!rc)
		rc = make_plan(&l, &text, &plan, &err);
	for (size_t i = 0; !rc && i < plan.n; i++)
		puts(plan.ops[i].line);
	if (!rc && !plan.n)
		puts("no changes");
	local_close(&l);
	buf_free(&text);
	return rc ? cli_error(status_of(rc), &err) : CLI_DONE;
}

static void print_removed(void *ctx, const char *line)
{
	*(bool *)ctx = true;
	puts(line);
}

static int teardown_here(const char *config, struct vgw_err *err)
{
	struct local l = {.store.lock = -1};
	bool any = false;
	int rc = local_open(&l, config, err);

	if (!rc)
		rc = store_lock(&l.store, err);
	if (!rc)
		rc = host_remove(&l.host, &l.record, print_removed, &any, err);
	if (!rc)
		rc = store_clear(&l.store, err);
	if (!rc && !any)
		puts("no changes");
	store_close(&l.store);
	local_close(&l);
	return rc;
}

int agent_teardown(int argc, char **argv)
{
	struct cli_target_options where = {0};
	const struct cli_option options[] = {CLI_TARGET_OPTIONS(&where)};
	struct vgw_err err = {0};
	struct cli_target target;
	bool no_agent = false;
	char **arguments;
	int status, rc;

	if (cli_options(argc, argv, options, sizeof(options) / sizeof(options[0]), 0, 0, &arguments) < 0)
		return CLI_USAGE;
	status = cli_target_open("teardown", &where, &target);
	if (status != CLI_DONE)
		return status;
	status = cli_teardown_remote(&target.client, &no_agent);
	cli_target_free(&target);
	if (!no_agent || where.connect)
		return status;
	rc = teardown_here(where.config, &err);
	return rc ? cli_error(status_of(rc), &err) : CLI_DONE;
}
