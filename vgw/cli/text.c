/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/cli/text.h"

#include <stdbool.h>
#include <stdint.h>

struct range {
	uint32_t first, last;
};

/* What a terminal may obey, and what hides or reorders text (Unicode TR 36, "bidirectional text spoofing").
 */
static const struct range harmful[] = {
	{0x00, 0x1f},	  {0x7f, 0x9f},	    {0x61c, 0x61c},   {0x200e, 0x200f},
	{0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
};

/* Drawn over the character before. */
static const struct range combining[] = {
	{0x300, 0x36f},	  {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
	{0x64b, 0x65f},	  {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200d},
	{0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef},
};

/* Two columns each (Unicode TR 11, the large blocks). */
static const struct range wide[] = {
	{0x1100, 0x115f},   {0x2e80, 0x303e},	{0x3041, 0xa4cf},   {0xac00, 0xd7a3},
	{0xf900, 0xfaff},   {0xfe30, 0xfe6f},	{0xff00, 0xff60},   {0xffe0, 0xffe6},
	{0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

static bool within(const struct range *ranges, size_t n, uint32_t c)
{
	for (size_t i = 0; i < n; i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

#define WITHIN(ranges, c) within(ranges, sizeof(ranges) / sizeof((ranges)[0]), c)

/* One character of NUL-terminated text (RFC 3629); its length, or 0 when the next byte belongs to none. */
static unsigned decode(const char *s, uint32_t *out)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *u = (const unsigned char *)s;
	unsigned n = u[0] < 0x80 ? 1 : u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0xc0 ? 2 : 0;
	uint32_t c;

	if (!n || u[0] > 0xf4)
		return 0;
	c = n == 1 ? u[0] : u[0] & (0x7fu >> n);
	for (unsigned i = 1; i < n; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (u[i] & 0x3f);
	}
	if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*out = c;
	return n;
}

void text_clean(struct buf *out, const char *s)
{
	uint32_t c;

	while (*s) {
		unsigned n = decode(s, &c);

		if (n == 1 && (c == '\t' || c == '\n' || c == '\r'))
			buf_append(out, " ", 1);
		else if (!n || WITHIN(harmful, c))
			buf_append(out, "?", 1);
		else
			buf_append(out, s, n);
		s += n ? n : 1;
	}
}

size_t text_fit(const char *s, size_t columns, size_t *width)
{
	size_t used = 0, bytes = 0;
	uint32_t c = 0;

	while (s[bytes]) {
		unsigned n = decode(s + bytes, &c);
		size_t w = !n ? 1 : WITHIN(combining, c) ? 0 : WITHIN(wide, c) ? 2 : 1;

		if (w > columns - used)
			break;
		used += w;
		bytes += n ? n : 1;
	}
	*width = used;
	return bytes;
}

size_t text_width(const char *s)
{
	size_t width;

	text_fit(s, SIZE_MAX, &width);
	return width;
}
