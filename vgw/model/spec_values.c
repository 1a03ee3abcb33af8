/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to spec: the kinds of values that occur all over it. */
#include "vgw/model/spec_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *spec_alloc(struct spec_decoder *d, size_t n, size_t size)
{
	void *p = d->reader.rc ? NULL : arena_calloc(d->spec->arena, n, size);

	if (!p)
		json_fail_memory(&d->reader);
	return p;
}

const char *spec_copy(struct spec_decoder *d, const char *s)
{
	const char *copy;

	if (!*s || d->reader.rc)
		return "";
	copy = arena_strdup(d->spec->arena, s);
	if (copy)
		return copy;
	json_fail_memory(&d->reader);
	return "";
}

static bool has_control(const char *s)
{
	for (const unsigned char *p = (const unsigned char *)s; *p; p++)
		if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0)) /* C0, DEL, C1 */
			return true;
	return false;
}

const char *spec_read_text(struct spec_decoder *d, const struct json_value *v)
{
	const char *s = json_string(v, "");

	if (strlen(s) > SPEC_NAME_MAX)
		json_fail(v, "must be at most %d bytes long", SPEC_NAME_MAX);
	else if (has_control(s))
		json_fail(v, "must not contain control characters");
	return spec_copy(d, s);
}

const char *spec_read_name(struct spec_decoder *d, const struct json_value *v)
{
	const char *s;

	json_require(v);
	s = spec_read_text(d, v);
	if (!*s)
		json_fail(v, "must not be empty");
	return s;
}

static const char *unusable_v4(const uint8_t *b, bool link_local)
{
	if (b[0] == 0)
		return "an unspecified";
	if (b[0] == 127)
		return "a loopback";
	if (b[0] >= 224 && b[0] <= 239)
		return "a multicast";
	if (b[0] == 255 && b[1] == 255 && b[2] == 255 && b[3] == 255)
		return "a broadcast";
	if (b[0] == 169 && b[1] == 254 && !link_local)
		return "a link-local";
	return NULL;
}

static const char *unusable_v6(const uint8_t *b)
{
	static const uint8_t zero[16], mapped[12] = {[10] = 0xff, 0xff};

	if (b[0] == 0xff)
		return "a multicast";
	if (b[0] == 0xfe && (b[1] & 0xc0) == 0x80)
		return "a link-local"; /* useless without a zone */
	if (!memcmp(b, mapped, sizeof(mapped)))
		return "an IPv4-mapped";
	if (memcmp(b, zero, 15) != 0 || b[15] > 1)
		return NULL;
	return b[15] ? "a loopback" : "an unspecified";
}

const char *spec_unusable(const struct ip_addr *a, bool link_local)
{
	return a->family == IP_V6 ? unusable_v6(a->bytes) : unusable_v4(a->bytes, link_local);
}

void spec_read_address(const struct json_value *v, bool link_local, struct ip_addr *out)
{
	const char *s = json_string(v, NULL), *why;
	struct json_quoted q;

	memset(out, 0, sizeof(*out));
	if (!s)
		return;
	if (ip_addr_parse(s, out) < 0) {
		json_fail(v, "must be an IP address, not \"%s\"", json_quote(s, &q));
		return;
	}
	why = spec_unusable(out, link_local);
	if (why)
		json_fail(v, "%s is %s address", s, why);
}

void spec_read_network(const struct json_value *v, bool any_length, struct ip_prefix *out)
{
	const char *s = json_string(v, NULL), *why;
	struct ip_addr first, last;
	struct json_quoted q;
	int rc;

	memset(out, 0, sizeof(*out));
	if (!s)
		return;
	rc = ip_prefix_parse(s, out);
	if (rc == -ERANGE) {
		json_fail(v, "%s has host bits set", s);
		return;
	}
	if (rc < 0) {
		json_fail(v, "must be a network in CIDR notation, not \"%s\"", json_quote(s, &q));
		return;
	}
	if (!any_length && ip_prefix_first_host(out, &first) < 0)
		json_fail(v, "%s has no room for hosts", s);
	ip_prefix_range(out, &first, &last);
	why = spec_unusable(&first, true);
	/* One that merely contains such addresses may be refused for a better reason. */
	if (why && why == spec_unusable(&last, true))
		json_fail(v, "%s is %s network", s, why);
}

void spec_read_dual(struct spec_decoder *d, const struct json_value *v, struct spec_prefixes *out)
{
	out->v = spec_alloc(d, json_array(v, SPEC_NETWORKS_MAX), sizeof(*out->v));
	if (!out->v)
		return;
	for (struct json_value e = json_elements(v); e.item; json_next(&e)) {
		struct ip_prefix *p = &out->v[out->n];

		spec_read_network(&e, false, p);
		for (size_t i = 0; i < out->n; i++)
			if (out->v[i].addr.family == p->addr.family)
				json_fail(
					&e,
					"is a second network of its family; at most one of each is allowed");
		out->n++;
	}
}

/* Elements of one array by value; equal ones in the array's order. */
static int compare_elements(const void *a, const void *b, void *arg)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	const struct spec_order *order = arg;
	int c = order->cmp(x, y);

	return c ? c : (x > y) - (x < y);
}

void spec_read_unique(struct spec_decoder *d, const struct json_value *array, const void *v, size_t n,
		      size_t size, const struct spec_order *order)
{
	const char *base = v, *second = NULL, **sorted;

	if (n < 2 || d->reader.rc)
		return;
	sorted = malloc(n * sizeof(*sorted));
	if (!sorted) {
		json_fail_memory(&d->reader);
		return;
	}
	for (size_t i = 0; i < n; i++)
		sorted[i] = base + i * size;
	qsort_r(sorted, n, sizeof(*sorted), compare_elements, (void *)order);
	for (size_t i = 1; i < n; i++)
		if (!order->cmp(sorted[i - 1], sorted[i]) && (!second || sorted[i] < second))
			second = sorted[i];
	free(sorted);
	if (second) {
		struct json_value e = json_element_at(array, (size_t)(second - base) / size);
		struct json_value m = json_member_at(&e, order->key);

		json_fail(order->key ? &m : &e, "%s", order->message);
	}
}
