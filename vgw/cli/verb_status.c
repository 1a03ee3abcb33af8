/* SPDX-License-Identifier: Apache-2.0 */
/* status: once, or watched until the user has seen enough. */
#include "vgw/cli/cli.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "vgw/cli/status_table.h"
#include "vgw/cli/table.h"
#include "vgw/cli/terminal.h"
#include "vgw/cli/text.h"

enum {
	REDRAW_S = 2,	     /* latencies and ages move without a new revision */
	PATIENCE_S = 5,	     /* for an answer, beyond the wait that was asked for */
	RETRY_MS = 1000,     /* while no agent answers */
	BREATH_MS = 100,     /* between two answers, however fast changes come */
	REVISION_STRLEN = 64 /* an ETag's, too */
};

struct watch {
	struct client_target target;
	bool json, live; /* live: drawn in place on a terminal */
	struct buf document;
	char revision[REVISION_STRLEN]; /* of the document; "" before the first, or when it has none */
	char shown[REVISION_STRLEN];
	bool away; /* the last request had no answer; ERR says why */
	bool away_told;
	struct vgw_err err;
};

static void print_document(const struct buf *document, bool json)
{
	struct buf table = {0};
	unsigned columns = 0, rows;

	if (json) {
		bool ended = document->len && document->data[document->len - 1] == '\n';

		printf("%s%s", buf_str(document), ended ? "" : "\n");
		return;
	}
	if (terminal_present())
		terminal_size(&columns, &rows);
	status_table_render(buf_str(document), document->len, terminal_colour(), columns, &table);
	fputs(buf_str(&table), stdout);
	buf_free(&table);
}

static int show_once(const struct client_target *target, bool json)
{
	struct client_response response = {0};
	struct vgw_err err = {0};
	int status = CLI_DONE;

	if (client_request(target, "GET", "/v1/status", NULL, NULL, 0, &response, &err))
		return cli_error(CLI_FAILED, &err);
	if (response.status == 200)
		print_document(&response.body, json);
	else
		status = cli_problem(&response);
	client_response_free(&response);
	return status;
}

/* The revision as the agent wants it back in `since`. */
static void read_revision(struct watch *w, const char *etag)
{
	struct cJSON *root = cJSON_ParseWithLength(buf_str(&w->document), w->document.len);
	const struct cJSON *revision = cJSON_GetObjectItemCaseSensitive(root, "revision");

	if (cJSON_IsNumber(revision))
		snprintf(w->revision, sizeof(w->revision), "%.0f", revision->valuedouble);
	else
		snprintf(w->revision, sizeof(w->revision), "%.*s", (int)strspn(etag, "0123456789"), etag);
	cJSON_Delete(root);
}

/* One long poll. CLI_REFUSED, with ERR: asking again is of no use. Else CLI_DONE. */
static enum cli_status ask(struct watch *w)
{
	struct client_response response = {0};
	enum cli_status status = CLI_DONE;
	char path[128] = "/v1/status";

	/* The first answer, and the first after an outage, is wanted at once. */
	if (*w->revision && !w->away)
		snprintf(path, sizeof(path), "/v1/status?since=%s&wait=%ds", w->revision, REDRAW_S);
	w->away = true;
	if (client_request(&w->target, "GET", path, NULL, NULL, 0, &response, &w->err))
		return CLI_DONE;
	if (response.status == 200) {
		buf_free(&w->document);
		w->document = response.body;
		memset(&response.body, 0, sizeof(response.body));
		read_revision(w, response.etag);
		w->away = false;
	} else if (response.status == 304) {
		w->away = false;
	} else {
		status = cli_problem_read(&response, &w->err);
		status = status == CLI_REFUSED ? status : CLI_DONE;
	}
	client_response_free(&response);
	return status;
}

static void draw(struct watch *w)
{
	char text[sizeof(w->err) + 64], line[sizeof(w->err) + 16];
	struct buf view = {0}, clean = {0};
	struct table_page page = {.out = &view, .colour = terminal_colour()};
	struct table_line message = {.page = &page};
	unsigned rows;

	terminal_size(&page.width, &rows);
	if (w->away) {
		snprintf(text, sizeof(text), "%s; trying again", vgw_err_print(&w->err, line, sizeof(line)));
		text_clean(&clean, text);
		table_line_put(&message, TABLE_BAD, buf_str(&clean));
		table_line_end(&message);
		if (w->document.len)
			buf_puts(&view, "The last that was heard:\n\n");
	}
	if (w->document.len)
		status_table_render(buf_str(&w->document), w->document.len, page.colour, page.width, &view);
	terminal_draw(&view, rows);
	buf_free(&clean);
	buf_free(&view);
}

/* Without a terminal to draw on: what is new, below what was there. */
static void append(struct watch *w)
{
	if (w->away && !w->away_told)
		cli_error(CLI_FAILED, &w->err);
	w->away_told = w->away;
	if (w->away || (*w->revision && !strcmp(w->revision, w->shown)))
		return;
	if (*w->shown && !w->json)
		puts("");
	print_document(&w->document, w->json);
	fflush(stdout);
	memcpy(w->shown, w->revision, sizeof(w->shown));
}

static int watch(const struct client_target *target, bool json)
{
	struct watch w = {.target = *target, .json = json, .live = terminal_present() && !json};
	enum cli_status status = CLI_DONE;

	w.target.timeout = REDRAW_S + PATIENCE_S;
	terminal_catch();
	if (w.live)
		terminal_enter();
	while (!terminal_stopped() && !ferror(stdout)) {
		status = ask(&w);
		if (status != CLI_DONE || terminal_stopped())
			break;
		if (w.live)
			draw(&w);
		else
			append(&w);
		terminal_pause(w.away ? RETRY_MS : BREATH_MS);
	}
	if (w.live)
		terminal_leave();
	terminal_release();
	buf_free(&w.document);
	return status == CLI_DONE ? CLI_DONE : cli_error(status, &w.err);
}

int cli_status(int argc, char **argv)
{
	bool json = false, watched = false;
	struct cli_target_options where = {0};
	const struct cli_option options[] = {
		{"json", CLI_FLAG, &json},
		{"watch", CLI_FLAG, &watched},
		CLI_TARGET_OPTIONS(&where),
	};
	struct cli_target target;
	char **arguments;
	int status;

	if (cli_options(argc, argv, options, sizeof(options) / sizeof(options[0]), 0, 0, &arguments) < 0)
		return CLI_USAGE;
	status = cli_target_open(argv[0], &where, &target);
	if (status)
		return status;
	status = watched ? watch(&target.client, json) : show_once(&target.client, json);
	cli_target_free(&target);
	return status;
}
