/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/json_scan.h"

#include <errno.h>
#include <string.h>

enum {
	NUMBER_MAX = 63,      /* what cJSON's parser takes in one piece */
	EXACT_MAX_DIGITS = 15 /* any 15 decimal digits fit a double's 53 bits */
};

struct cursor {
	const unsigned char *p, *end;
	const char *what;
};

static int bad(struct cursor *c, const char *what)
{
	c->what = what;
	return -EINVAL;
}

static bool is_digit(unsigned char ch)
{
	return ch >= '0' && ch <= '9';
}

static int hex_value(unsigned char ch)
{
	if (is_digit(ch))
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	if (ch >= 'A' && ch <= 'F')
		return ch - 'A' + 10;
	return -1;
}

size_t json_scan_utf8(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned char lead = len ? *p : 0, low = 0x80, high = 0xbf;
	size_t more;

	if (lead >= 0xc2 && lead <= 0xdf)
		more = 1;
	else if (lead >= 0xe0 && lead <= 0xef)
		more = 2;
	else if (lead >= 0xf0 && lead <= 0xf4)
		more = 3;
	else
		return 0;
	if (lead == 0xe0)
		low = 0xa0;
	else if (lead == 0xed)
		high = 0x9f;
	else if (lead == 0xf0)
		low = 0x90;
	else if (lead == 0xf4)
		high = 0x8f;
	if (len <= more)
		return 0;
	for (size_t i = 1; i <= more; i++) {
		if (p[i] < low || p[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return more + 1;
}

static int scan_utf8(struct cursor *c)
{
	size_t n = json_scan_utf8((const char *)c->p, (size_t)(c->end - c->p));

	if (!n)
		return bad(c, "invalid UTF-8");
	c->p += n;
	return 0;
}

/* At a backslash. cJSON takes digits that are none for U+0000; pairs of surrogates it checks itself. */
static int scan_escape(struct cursor *c)
{
	unsigned code = 0;

	if (c->end - c->p < 2 || !c->p[1] || !strchr("\"\\/bfnrtu", c->p[1]))
		return bad(c, "an invalid escape");
	if (c->p[1] != 'u') {
		c->p += 2;
		return 0;
	}
	if (c->end - c->p < 6)
		return bad(c, "an invalid escape");
	for (int i = 2; i < 6; i++) {
		int v = hex_value(c->p[i]);

		if (v < 0)
			return bad(c, "an invalid escape");
		code = code * 16 + (unsigned)v;
	}
	if (!code)
		return bad(c, "U+0000 in a string");
	c->p += 6;
	return 0;
}

static int scan_string(struct cursor *c)
{
	const unsigned char *start = c->p++;
	int rc;

	while (c->p < c->end) {
		if (*c->p == '"') {
			c->p++;
			return 0;
		}
		if (*c->p < 0x20)
			return bad(c, "a control character in a string");
		if (*c->p == '\\')
			rc = scan_escape(c);
		else if (*c->p >= 0x80)
			rc = scan_utf8(c);
		else
			rc = (c->p++, 0);
		if (rc < 0)
			return rc;
	}
	c->p = start;
	return bad(c, "a string without end");
}

static size_t skip_digits(struct cursor *c)
{
	const unsigned char *start = c->p;

	while (c->p < c->end && is_digit(*c->p))
		c->p++;
	return (size_t)(c->p - start);
}

static int scan_number(struct cursor *c)
{
	const unsigned char *start = c->p;
	bool zero;

	if (*c->p == '-')
		c->p++;
	zero = c->p < c->end && *c->p == '0';
	switch (skip_digits(c)) {
	case 0:
		return bad(c, "an invalid number");
	case 1:
		break;
	default:
		if (zero)
			return bad(c, "a number with leading zeros");
	}
	if (c->p < c->end && *c->p == '.') {
		c->p++;
		if (!skip_digits(c))
			return bad(c, "an invalid number");
	}
	if (c->p < c->end && (*c->p == 'e' || *c->p == 'E')) {
		c->p++;
		if (c->p < c->end && (*c->p == '+' || *c->p == '-'))
			c->p++;
		if (!skip_digits(c))
			return bad(c, "an invalid number");
	}
	if (c->p - start > NUMBER_MAX)
		return bad(c, "a number that is too long");
	return 0;
}

static int scan_word(struct cursor *c)
{
	static const char *const words[] = {"true", "false", "null"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(c->end - c->p) >= n && !memcmp(c->p, words[i], n)) {
			c->p += n;
			return 0;
		}
	}
	return bad(c, "an unexpected character");
}

bool json_scan_is_exact(const char *token, size_t len)
{
	size_t i = token[0] == '-';

	if (len - i > EXACT_MAX_DIGITS)
		return false;
	for (; i < len; i++)
		if (!is_digit((unsigned char)token[i]))
			return false;
	return true;
}

/* One token, white space or bracket; moves DEPTH. */
static int scan_token(struct cursor *c, unsigned max_depth, unsigned *depth, bool *inexact)
{
	const unsigned char *start = c->p;
	int rc;

	switch (*c->p) {
	case '"':
		return scan_string(c);
	case '[':
	case '{':
		if (++*depth > max_depth) {
			c->what = "nested too deeply";
			return -E2BIG;
		}
		break;
	case ']':
	case '}':
		if (!*depth)
			return bad(c, "a closing bracket without an opening one");
		--*depth;
		break;
	case ' ':
	case '\t':
	case '\n':
	case '\r':
	case ',':
	case ':':
		break;
	default:
		if (*c->p != '-' && !is_digit(*c->p))
			return scan_word(c);
		rc = scan_number(c);
		if (!rc && !json_scan_is_exact((const char *)start, (size_t)(c->p - start)))
			*inexact = true;
		return rc;
	}
	c->p++;
	return 0;
}

int json_scan(const char *text, size_t len, unsigned max_depth, struct json_scan *out)
{
	const unsigned char *start = (const unsigned char *)text;
	struct cursor c = {.p = start, .end = start + len};
	unsigned depth = 0;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	while (!rc && c.p < c.end)
		rc = scan_token(&c, max_depth, &depth, &out->inexact_number);
	out->what = c.what;
	out->offset = (size_t)(c.p - start);
	return rc;
}

const char *json_scan_number(const char *text, size_t len, size_t *pos, size_t *token_len)
{
	size_t i = *pos, start;

	while (i < len && text[i] != '-' && !is_digit((unsigned char)text[i])) {
		if (text[i++] != '"')
			continue;
		while (i < len && text[i] != '"')
			i += text[i] == '\\' ? 2 : 1;
		i++;
	}
	if (i >= len)
		return NULL;
	start = i;
	while (i < len && text[i] && strchr("+-.eE0123456789", text[i]))
		i++;
	*pos = i;
	*token_len = i - start;
	return text + start;
}
