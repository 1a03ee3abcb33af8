/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: any bytes as a spec. What is refused has a reason; what is accepted passes or fails the rules
 * with a reason, and means the same when its canonical text is decoded again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/model/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

/* What goes to clients must be UTF-8 without control characters, whatever came in. */
static void check_text(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	while (*p) {
		int more = *p < 0x80 ? 0 : *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;

		check(*p >= 0x20 && *p != 0x7f && (*p < 0x80 || *p >= 0xc2));
		for (p++; more; more--, p++)
			check((*p & 0xc0) == 0x80);
	}
}

static void check_err(int rc, const struct vgw_err *err)
{
	check((rc < 0) == (err->reason[0] != '\0'));
	check_text(err->where);
	check_text(err->text);
	check(!err->where[0] || err->where[0] == '/');
}

static void warned(void *ctx, const char *code, const char *message, const char *fix)
{
	(void)ctx;
	check(*code && *message && *fix);
	check_text(message);
}

static void try_rules(const struct spec *s, const struct spec *again)
{
	struct rules_connected connected[] = {{.interface = "eth1"}, {.interface = "wg0"}};
	struct ip_endpoint control;
	struct rules_host no_host = {.control_port = 9443, .probe_port = 9444};
	struct rules_host host = {.connected = connected,
				  .n_connected = 2,
				  .private_interface = "eth1",
				  .control = &control,
				  .n_control = 1};
	struct rules_live live = {.accepted = again, .control_plane_live = true};
	struct vgw_err err = {0};
	int rc;

	ip_endpoint_parse("[::]:9443", &control);
	ip_prefix_parse("192.168.150.0/24", &connected[0].network);
	ip_prefix_parse("192.168.0.0/16", &connected[1].network);
	rc = rules_check(s, &no_host, &live, &err);
	check_err(rc, &err);
	memset(&err, 0, sizeof(err));
	rc = rules_check(s, &host, &live, &err);
	check_err(rc, &err);
	/* The same spec again is never stale. */
	check(rules_check_generation(s, again, &err) == 0);
	rules_warnings(s, warned, NULL);
}

static void round_trip(const struct spec *s)
{
	struct buf text = {0}, text_again = {0};
	struct spec *again = NULL;
	struct vgw_err err = {0};

	spec_encode(s, &text);
	check(!text.failed);
	check(spec_decode(text.data, text.len, &again, &err) == 0);
	spec_encode(again, &text_again);
	check(text.len == text_again.len && !memcmp(text.data, text_again.data, text.len));
	for (size_t i = 0; i < s->n_frontends; i++) {
		check(s->frontends[i].placement == again->frontends[i].placement);
		check(s->frontends[i].control_plane == again->frontends[i].control_plane);
		check(s->frontends[i].family == again->frontends[i].family);
		check(!ip_addr_cmp(&s->frontends[i].gateway, &again->frontends[i].gateway));
	}
	try_rules(s, again);
	buf_free(&text);
	buf_free(&text_again);
	spec_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vgw_err err = {0};
	struct spec *s = NULL;
	int rc = spec_decode((const char *)data, size, &s, &err);

	check_err(rc, &err);
	check((rc == 0) == (s != NULL));
	if (s)
		round_trip(s);
	spec_free(s);
	return 0;
}
