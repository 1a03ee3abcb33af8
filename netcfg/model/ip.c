/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/model/ip.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

size_t ip_addr_size(const struct ip_addr *a)
{
	return a->family == IP_V4 ? 4 : a->family == IP_V6 ? 16 : 0;
}

int ip_addr_parse(const char *text, struct ip_addr *out)
{
	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, out->bytes) == 1) {
		out->family = IP_V4;
		return 0;
	}
	if (inet_pton(AF_INET6, text, out->bytes) == 1) {
		out->family = IP_V6;
		return 0;
	}
	memset(out, 0, sizeof(*out));
	return -EINVAL;
}

/* Decimal without sign, blanks or leading zeros, at most MAX. */
static int parse_decimal(const char *s, unsigned max, unsigned *out)
{
	unsigned v = 0;

	if (!*s || (s[0] == '0' && s[1]))
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		v = v * 10 + (unsigned)(*s - '0');
		if (v > max)
			return -EINVAL;
	}
	*out = v;
	return 0;
}

static void mask_bits(struct ip_addr *a, unsigned len)
{
	for (unsigned i = 0; i < ip_addr_size(a); i++) {
		unsigned keep = len > i * 8 ? len - i * 8 : 0;

		if (keep < 8)
			a->bytes[i] &= (uint8_t)(0xff00u >> keep);
	}
}

int ip_prefix_parse(const char *text, struct ip_prefix *out)
{
	char addr[IP_ADDR_STRLEN];
	const char *slash = strchr(text, '/');
	struct ip_addr masked;
	unsigned len;

	memset(out, 0, sizeof(*out));
	if (!slash || (size_t)(slash - text) >= sizeof(addr))
		return -EINVAL;
	memcpy(addr, text, (size_t)(slash - text));
	addr[slash - text] = '\0';
	if (ip_addr_parse(addr, &out->addr) < 0)
		return -EINVAL;
	if (parse_decimal(slash + 1, (unsigned)ip_addr_size(&out->addr) * 8, &len) < 0) {
		memset(out, 0, sizeof(*out));
		return -EINVAL;
	}
	out->len = (uint8_t)len;
	masked = out->addr;
	mask_bits(&masked, len);
	return memcmp(&masked, &out->addr, sizeof(masked)) ? -ERANGE : 0;
}

void ip_prefix_of(const struct ip_addr *address, uint8_t len, struct ip_prefix *out)
{
	size_t bits = ip_addr_size(address) * 8;

	memset(out, 0, sizeof(*out));
	out->addr = *address;
	out->len = len > bits ? (uint8_t)bits : len;
	mask_bits(&out->addr, out->len);
}

int ip_endpoint_parse(const char *text, struct ip_endpoint *out)
{
	char addr[IP_ADDR_STRLEN];
	const char *start = text, *end, *port;
	unsigned v;

	memset(out, 0, sizeof(*out));
	if (*text == '[') {
		start = text + 1;
		end = strchr(start, ']');
		if (!end || end[1] != ':')
			return -EINVAL;
		port = end + 2;
	} else {
		end = strchr(text, ':');
		if (!end)
			return -EINVAL;
		port = end + 1;
	}
	if ((size_t)(end - start) >= sizeof(addr))
		return -EINVAL;
	memcpy(addr, start, (size_t)(end - start));
	addr[end - start] = '\0';
	if (ip_addr_parse(addr, &out->addr) < 0 || (out->addr.family == IP_V6) != (*text == '[') ||
	    parse_decimal(port, 65535, &v) < 0 || v == 0) {
		memset(out, 0, sizeof(*out));
		return -EINVAL;
	}
	out->port = (uint16_t)v;
	return 0;
}

const char *ip_addr_print(const struct ip_addr *a, char *out)
{
	out[0] = '\0';
	if (a->family == IP_V4)
		inet_ntop(AF_INET, a->bytes, out, IP_ADDR_STRLEN);
	else if (a->family == IP_V6)
		inet_ntop(AF_INET6, a->bytes, out, IP_ADDR_STRLEN);
	return out;
}

const char *ip_prefix_print(const struct ip_prefix *p, char *out)
{
	char addr[IP_ADDR_STRLEN];

	snprintf(out, IP_PREFIX_STRLEN, "%s/%u", ip_addr_print(&p->addr, addr), p->len);
	return out;
}

const char *ip_endpoint_print(const struct ip_endpoint *e, char *out)
{
	char addr[IP_ADDR_STRLEN];

	snprintf(out, IP_ENDPOINT_STRLEN, e->addr.family == IP_V6 ? "[%s]:%u" : "%s:%u",
		 ip_addr_print(&e->addr, addr), e->port);
	return out;
}

int ip_addr_cmp(const struct ip_addr *a, const struct ip_addr *b)
{
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

int ip_prefix_cmp(const struct ip_prefix *a, const struct ip_prefix *b)
{
	int c = ip_addr_cmp(&a->addr, &b->addr);

	return c ? c : (int)a->len - (int)b->len;
}

int ip_endpoint_cmp(const struct ip_endpoint *a, const struct ip_endpoint *b)
{
	int c = ip_addr_cmp(&a->addr, &b->addr);

	return c ? c : (int)a->port - (int)b->port;
}

bool ip_prefix_contains_addr(const struct ip_prefix *p, const struct ip_addr *a)
{
	struct ip_addr masked = *a;

	if (p->addr.family != a->family || !a->family)
		return false;
	mask_bits(&masked, p->len);
	return !memcmp(&masked, &p->addr, sizeof(masked));
}

bool ip_prefix_contains(const struct ip_prefix *outer, const struct ip_prefix *inner)
{
	return outer->len <= inner->len && ip_prefix_contains_addr(outer, &inner->addr);
}

bool ip_prefix_overlaps(const struct ip_prefix *a, const struct ip_prefix *b)
{
	return ip_prefix_contains(a, b) || ip_prefix_contains(b, a);
}

int ip_prefix_first_host(const struct ip_prefix *p, struct ip_addr *out)
{
	size_t size = ip_addr_size(&p->addr);

	if (!size || p->len > size * 8 - 2)
		return -ERANGE;
	*out = p->addr;
	out->bytes[size - 1] |= 1;
	return 0;
}

void ip_prefix_range(const struct ip_prefix *p, struct ip_addr *first, struct ip_addr *last)
{
	*first = p->addr;
	*last = p->addr;
	for (unsigned i = 0; i < ip_addr_size(&p->addr); i++) {
		unsigned keep = p->len > i * 8 ? p->len - i * 8 : 0;

		if (keep < 8)
			last->bytes[i] |= (uint8_t)(0xffu >> keep);
	}
}
