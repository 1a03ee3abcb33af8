/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/cli/status_table.h"

#include <cjson/cJSON.h>
#include <stdint.h>

#include "vgw/cli/status_value.h"
#include "vgw/cli/text.h"

enum { CERTIFICATE_SOON = 30 }; /* days left that deserve a colour */

struct view {
	struct table_page page;
	const struct cJSON *root;
	int64_t now; /* the document's time; 0 when it has none */
};

static void put_title(const struct view *v, const char *title)
{
	struct table_line line = {.page = &v->page};

	if (v->page.out->len)
		buf_append(v->page.out, "\n", 1);
	table_line_put(&line, TABLE_BOLD, title);
	table_line_end(&line);
}

/* The rows with their title, and nothing where there are none. */
static void put_section(const struct view *v, const char *title, struct table *t)
{
	if (t->n) {
		put_title(v, title);
		table_print(t, &v->page);
	}
	if (t->failed)
		v->page.out->failed = true;
	table_free(t);
}

static void cell_word(struct table *t, const char *word)
{
	table_cell(t, value_style(word), "%s", word);
}

static void cell_text(struct table *t, const char *text)
{
	table_cell(t, TABLE_PLAIN, "%s", text);
}

static void cell_age(const struct view *v, struct table *t, const struct cJSON *o, const char *name)
{
	struct value_text text;

	cell_text(t, value_age(o, name, v->now, &text));
}

static void cell_count(struct table *t, const struct cJSON *o, const char *name, const char *unit)
{
	struct value_text text;

	cell_text(t, value_count(o, name, unit, &text));
}

/* -- the first line -- */

static void put_field(struct buf *b, const char *before, const char *text)
{
	if (*text)
		buf_printf(b, "%s%s%s", b->len ? "  " : "", before, text);
}

static void put_generation(const struct view *v, struct buf *b)
{
	const struct cJSON *generation = value_member(v->root, "generation");
	struct value_text accepted, applied;

	value_count(generation, "accepted", "", &accepted);
	value_count(generation, "applied", "", &applied);
	put_field(b, "generation ", accepted.s);
	if (*applied.s)
		buf_printf(b, "%s %s", *accepted.s ? ", applied" : "  applied generation", applied.s);
}

static void put_header(const struct view *v)
{
	const struct cJSON *certificate = value_member(v->root, "certificate");
	struct table_line line = {.page = &v->page};
	struct buf raw = {0}, clean = {0};
	struct value_text text;

	put_field(&raw, "", value_string(v->root, "cluster"));
	put_field(&raw, "", value_endpoint(value_member(v->root, "endpoint"), "host", "port", &text));
	put_field(&raw, "vgw-agent ", value_string(value_member(v->root, "agent"), "version"));
	put_field(&raw, "revision ", value_count(v->root, "revision", "", &text));
	put_generation(v, &raw);
	put_field(&raw, "age ", value_latency(v->root, "ageMs", &text));
	put_field(&raw, "certificate ", value_count(certificate, "daysLeft", "d", &text));
	put_field(&raw, "", value_string(v->root, "time"));
	text_clean(&clean, buf_str(&raw));
	if (clean.len) {
		table_line_put(&line, TABLE_BOLD, buf_str(&clean));
		table_line_end(&line);
	}
	v->page.out->failed |= raw.failed || clean.failed;
	buf_free(&raw);
	buf_free(&clean);
}

/* -- the sections -- */

static void put_conditions(const struct view *v)
{
	static const char *const headings[] = {"TYPE", "STATUS", "REASON", ">SINCE", "MESSAGE"};
	const struct cJSON *c;
	struct table t;

	table_init(&t, headings, sizeof(headings) / sizeof(headings[0]));
	for (c = value_first(v->root, "conditions"); c; c = value_next(c)) {
		cell_text(&t, value_string(c, "type"));
		cell_word(&t, value_string(c, "status"));
		cell_text(&t, value_string(c, "reason"));
		cell_age(v, &t, c, "lastTransitionTime");
		cell_text(&t, value_string(c, "message"));
	}
	put_section(v, "CONDITIONS", &t);
}

/* "http OK 200" */
static void cell_check(struct table *t, const struct cJSON *check)
{
	const char *stage = value_string(check, "stage"), *code = value_string(check, "code");
	const char *detail = value_string(check, "detail");

	table_cell(t, value_style(code), "%s%s%s%s%s", stage, *stage && *code ? " " : "", code,
		   (*stage || *code) && *detail ? " " : "", detail);
}

static void cell_latency(struct table *t, const struct cJSON *o, const char *name)
{
	struct value_text text;

	cell_text(t, value_latency(o, name, &text));
}

/* What a server showed: the days it has left, and what is wrong with it. */
static void cell_certificate(const struct view *v, struct table *t, const struct cJSON *c)
{
	bool stranger = value_is_false(c, "hasGatewayAddress");
	const char *note = stranger ? " no gateway SAN" : "";
	long days;

	if (!value_days_until(c, "notAfter", v->now, &days))
		table_cell(t, TABLE_PLAIN, "%s%s", value_string(c, "notAfter"), note);
	else if (days < 0)
		table_cell(t, TABLE_BAD, "expired%s", note);
	else
		table_cell(t, days < CERTIFICATE_SOON || stranger ? TABLE_WARN : TABLE_PLAIN, "%ldd%s", days,
			   note);
}

static void put_backend(const struct view *v, struct table *t, const struct cJSON *b)
{
	const struct cJSON *check = value_member(b, "check");
	struct value_text text;

	table_cell(t, TABLE_PLAIN, "  %s", value_endpoint(b, "address", "port", &text));
	cell_word(t, value_string(b, "state"));
	cell_check(t, check);
	cell_latency(t, check, "latencyMs");
	cell_age(v, t, b, "since");
	cell_certificate(v, t, value_member(b, "certificate"));
	cell_count(t, b, "flows", "");
	cell_count(t, b, "flowsReaped", "");
	table_end_row(t);
}

static void put_frontend(struct table *t, const struct cJSON *f)
{
	const char *protocol = value_string(f, "protocol"), *name = value_string(f, "name");
	struct value_text where, healthy, total;

	value_endpoint(f, "address", "port", &where);
	table_cell(t, TABLE_BOLD, "%s%s%s%s%s", name, *name && *where.s ? " " : "", where.s,
		   *protocol ? "/" : "", protocol);
	cell_word(t, value_string(f, "state"));
	value_count(f, "healthy", "", &healthy);
	value_count(f, "total", "", &total);
	if (*healthy.s && *total.s)
		table_cell(t, TABLE_PLAIN, "%s of %s healthy", healthy.s, total.s);
	table_end_row(t);
}

static void put_frontends(const struct view *v)
{
	static const char *const headings[] = {"FRONTEND/BACKEND", "STATE",	  "CHECK",  ">LATENCY",
					       ">SINCE",	   "CERTIFICATE", ">FLOWS", ">REAPED"};
	const struct cJSON *f, *b;
	struct table t;

	table_init(&t, headings, sizeof(headings) / sizeof(headings[0]));
	for (f = value_first(v->root, "frontends"); f; f = value_next(f)) {
		put_frontend(&t, f);
		for (b = value_first(f, "backends"); b; b = value_next(b)) {
			put_backend(v, &t, b);
		}
	}
	put_section(v, "FRONTENDS", &t);
}

static void put_tunnels(const struct view *v)
{
	static const char *const headings[] = {"TUNNEL",  "INTERFACE", "STATE", "MTU",	 ">WANTED",
					       ">ACTUAL", ">ORIGINAL", ">PATH", "PMTUD", ">MAXPODMTU",
					       "PEER",	  ">RTT",      ">LOSS", ">HEARD"};
	const struct cJSON *x;
	struct table t;

	table_init(&t, headings, sizeof(headings) / sizeof(headings[0]));
	for (x = value_first(v->root, "tunnels"); x; x = value_next(x)) {
		const struct cJSON *mtu = value_member(x, "mtu"), *path = value_member(x, "path");
		const struct cJSON *peer = value_member(x, "peer");

		table_cell(&t, TABLE_BOLD, "%s", value_string(x, "name"));
		cell_text(&t, value_string(x, "interface"));
		cell_word(&t, value_string(x, "state"));
		cell_word(&t, value_string(mtu, "state"));
		cell_count(&t, mtu, "wanted", "");
		cell_count(&t, mtu, "actual", "");
		cell_count(&t, mtu, "original", "");
		cell_count(&t, path, "mtu", "");
		cell_word(&t, value_string(path, "pmtud"));
		cell_count(&t, x, "maxPodMTU", "");
		cell_text(&t, value_string(peer, "address"));
		cell_latency(&t, peer, "rttMs");
		cell_count(&t, peer, "lossPercent", "%");
		cell_age(v, &t, peer, "lastHeard");
	}
	put_section(v, "TUNNELS", &t);
}

static void put_connections(const struct view *v)
{
	static const char *const headings[] = {"CLOUDSPACE", "TUNNEL", "OUTBOUND", "INBOUND"};
	const struct cJSON *c;
	struct table t;

	table_init(&t, headings, sizeof(headings) / sizeof(headings[0]));
	for (c = value_first(v->root, "managementConnections"); c; c = value_next(c)) {
		cell_text(&t, value_string(c, "cloudspaceId"));
		cell_text(&t, value_string(c, "tunnel"));
		cell_word(&t, value_string(c, "outbound"));
		cell_word(&t, value_string(c, "inbound"));
	}
	put_section(v, "MANAGEMENT CONNECTIONS", &t);
}

static void put_probes(const struct view *v)
{
	static const char *const headings[] = {"PROBE", "STATE", "CHECK", ">LATENCY", ">CHECKED"};
	const struct cJSON *p;
	struct table t;

	table_init(&t, headings, sizeof(headings) / sizeof(headings[0]));
	for (p = value_first(v->root, "probes"); p; p = value_next(p)) {
		const struct cJSON *check = value_member(p, "check");

		table_cell(&t, TABLE_BOLD, "%s", value_string(p, "name"));
		cell_word(&t, value_string(p, "state"));
		cell_check(&t, check);
		cell_latency(&t, check, "latencyMs");
		cell_age(v, &t, check, "time");
	}
	put_section(v, "PROBES", &t);
}

static void put_drift(const struct view *v)
{
	static const char *const headings[] = {">AGO", "OBJECT", "BY", ">REPAIRED AFTER"};
	const struct cJSON *d;
	struct table t;

	table_init(&t, headings, sizeof(headings) / sizeof(headings[0]));
	for (d = value_first(v->root, "drift"); d; d = value_next(d)) {
		cell_age(v, &t, d, "time");
		cell_text(&t, value_string(d, "object"));
		cell_text(&t, value_string(d, "by"));
		cell_latency(&t, d, "repairedAfterMs");
	}
	put_section(v, "DRIFT", &t);
}

static void put_warnings(const struct view *v)
{
	static const char *const headings[] = {"WARNING", "MESSAGE"};
	const struct cJSON *w;
	struct table t;

	table_init(&t, headings, sizeof(headings) / sizeof(headings[0]));
	for (w = value_first(v->root, "warnings"); w; w = value_next(w)) {
		const char *fix = value_string(w, "fix");

		table_cell(&t, TABLE_WARN, "%s", value_string(w, "code"));
		cell_text(&t, value_string(w, "message"));
		if (*fix) {
			cell_text(&t, "");
			table_cell(&t, TABLE_PLAIN, "fix: %s", fix);
		}
	}
	put_section(v, "WARNINGS", &t);
}

void status_table_render(const char *json, size_t len, bool colour, unsigned width, struct buf *out)
{
	struct view v = {.page = {.out = out, .colour = colour, .width = width}};
	struct cJSON *root = cJSON_ParseWithLength(json, len);

	if (!cJSON_IsObject(root)) {
		struct table_line line = {.page = &v.page};

		table_line_put(&line, TABLE_BAD, "the agent's answer is not a status document");
		table_line_end(&line);
		cJSON_Delete(root);
		return;
	}
	v.root = root;
	if (!value_time(root, "time", &v.now))
		v.now = 0;
	put_header(&v);
	put_conditions(&v);
	put_frontends(&v);
	put_tunnels(&v);
	put_connections(&v);
	put_probes(&v);
	put_drift(&v);
	put_warnings(&v);
	cJSON_Delete(root);
}
