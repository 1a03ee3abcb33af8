/* SPDX-License-Identifier: Apache-2.0 */
/* check: the refusals of a spec that need no host. */
#include "vgw/cli/cli.h"

#include <stdio.h>

#include "vgw/cli/text.h"
#include "vgw/config.h"
#include "vgw/model/rules.h"
#include "vgw/model/spec.h"

static void warn(void *ctx, const char *code, const char *message, const char *fix)
{
	struct buf line = {0};

	text_clean(&line, message);
	fprintf(stderr, "warning: %s: %s (%s)\n", code, buf_str(&line), fix);
	buf_free(&line);
}

static void add_count(struct buf *b, size_t n, const char *what)
{
	if (n)
		buf_printf(b, ", %zu %s%s", n, what, n == 1 ? "" : "s");
}

static void add_control_plane(struct buf *b, const struct spec *s)
{
	const struct spec_frontend *f = spec_control_plane(s);
	struct ip_endpoint where = {0};
	char text[IP_ENDPOINT_STRLEN];

	if (!f)
		return;
	buf_printf(b, ", %s control plane", spec_exposure_name(s->exposure));
	if (f->placement != SPEC_INTERNAL)
		return;
	where.addr = f->gateway;
	where.port = f->port;
	buf_printf(b, " on %s", ip_endpoint_print(&where, text));
}

static void print_summary(const struct spec *s)
{
	struct buf line = {0}, clean = {0};

	buf_printf(&line, "ok: cluster %s, generation %lld, role %s", s->cluster, (long long)s->generation,
		   spec_role_name(s->role));
	add_control_plane(&line, s);
	add_count(&line, s->n_frontends, "frontend");
	add_count(&line, spec_count_backends(s), "backend");
	add_count(&line, s->n_tunnels, "tunnel");
	add_count(&line, s->n_probes, "probe");
	text_clean(&clean, buf_str(&line));
	puts(buf_str(&clean));
	buf_free(&line);
	buf_free(&clean);
}

static int check_text(const struct buf *text)
{
	const struct rules_host host = {.control_port = CONFIG_CONTROL_PORT, .probe_port = CONFIG_PROBE_PORT};
	const struct rules_live live = {0};
	struct spec *spec = NULL;
	struct vgw_err err = {0};
	int rc = spec_decode(buf_str(text), text->len, &spec, &err);

	if (!rc)
		rc = rules_check(spec, &host, &live, &err);
	if (!rc) {
		print_summary(spec);
		rules_warnings(spec, warn, NULL);
	}
	spec_free(spec);
	return rc ? cli_error(CLI_REFUSED, &err) : CLI_DONE;
}

int cli_check(int argc, char **argv)
{
	struct buf text = {0};
	char **arguments;
	int rc;

	if (cli_options(argc, argv, NULL, 0, 1, 1, &arguments) < 0)
		return CLI_USAGE;
	rc = cli_read(arguments[0], &text);
	if (rc == CLI_DONE)
		rc = check_text(&text);
	buf_free(&text);
	return rc;
}
