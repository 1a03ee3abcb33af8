/* SPDX-License-Identifier: Apache-2.0 */
/* The strict reader of JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/model/json_reader.h"

#define MAX_BYTES 1000

static struct vgw_err err;

static int open_text(struct json_reader *r, const char *text, size_t len)
{
	/* An allocation of its own: reading beyond the end shows under a sanitizer. */
	char *copy = malloc(len + !len);
	int rc;

	assert_non_null(copy);
	memcpy(copy, text, len);
	memset(&err, 0, sizeof(err));
	rc = json_open(r, "InvalidConfig", copy, len, MAX_BYTES, &err);
	free(copy);
	return rc;
}

static struct json_value open_root(struct json_reader *r, const char *text)
{
	if (open_text(r, text, strlen(text)) < 0)
		fail_msg("%s: %s", text, err.text);
	return json_root(r);
}

static void syntax(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *what; /* NULL: accepted */
	} rows[] = {
#define ROW(text, what) {text, sizeof(text) - 1, what}
		ROW("{}", NULL),
		ROW(" [ 1 , -0 , 1.5e+10 , true , false , null , \"\" ] \r\n\t", NULL),
		ROW("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\"", NULL),
		ROW("\"\x7f \xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 "
		    "\xf4\x8f\xbf\xbf\"",
		    NULL),
		ROW("123456789012345678901234567890123456789012345678901234567890123", NULL), /* 63 digits */
		ROW("", "an empty document at line 1, column 1"),
		ROW("[1 2]", "a syntax error at line 1, column 4"),
		ROW("{\n \"a\":1,\n}", "a syntax error at line 3, column 1"),
		ROW("[1] [", "text behind its end at line 1, column 5"),
		ROW("1 2", "text behind its end at line 1, column 3"),
		ROW("]", "a closing bracket without an opening one at line 1, column 1"),
		ROW("{'a':1}", "an unexpected character at line 1, column 2"),
		ROW("[TRUE]", "an unexpected character"),
		ROW("[tru]", "an unexpected character"),
		ROW("[NaN]", "an unexpected character"),
		ROW("[Infinity]", "an unexpected character"),
		ROW("[+1]", "an unexpected character"),
		ROW("[.5]", "an unexpected character"),
		ROW("[1] // x", "an unexpected character"),
		ROW("[1]\0", "an unexpected character at line 1, column 4"),
		ROW("[1\v]", "an unexpected character"),
		ROW("\xef\xbb\xbf[]", "an unexpected character at line 1, column 1"),
		ROW("[01]", "a number with leading zeros"),
		ROW("[-01]", "a number with leading zeros"),
		ROW("[-]", "an invalid number"),
		ROW("[1.]", "an invalid number"),
		ROW("[1e]", "an invalid number"),
		ROW("[1e+]", "an invalid number"),
		ROW("1234567890123456789012345678901234567890123456789012345678901234",
		    "a number that is too long"),
		ROW("\"abc", "a string without end at line 1, column 1"),
		ROW("\"abc\\\"", "a string without end"),
		ROW("\"a\nb\"", "a control character in a string at line 1, column 3"),
		ROW("\"\0\"", "a control character in a string"),
		ROW("\"\\u0000\"", "U+0000 in a string"),
		ROW("\"\\x\"", "an invalid escape"),
		ROW("\"\\\0\"", "an invalid escape"),
		ROW("\"\\u12G4\"", "an invalid escape"),
		ROW("\"\\u12\"", "an invalid escape"),
		ROW("\"\\", "an invalid escape"),
		ROW("\"\\uD800\"", "a syntax error"), /* half a pair */
		ROW("\"\\uDC00\\uD800\"", "a syntax error"),
		ROW("\"\x80\"", "invalid UTF-8"),
		ROW("\"\xc1\xbf\"", "invalid UTF-8"),
		ROW("\"\xe0\x9f\xbf\"", "invalid UTF-8"),
		ROW("\"\xed\xa0\x80\"", "invalid UTF-8"),
		ROW("\"\xf0\x8f\xbf\xbf\"", "invalid UTF-8"),
		ROW("\"\xf4\x90\x80\x80\"", "invalid UTF-8"),
		ROW("\"\xf5\x80\x80\x80\"", "invalid UTF-8"),
		ROW("\"\xc3\"", "invalid UTF-8"),
		ROW("\"\xe2\x82", "invalid UTF-8"),
	};
	struct json_reader r;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc = open_text(&r, rows[i].text, rows[i].len);

		if (rc != (rows[i].what ? -EINVAL : 0) || rc != r.rc)
			fail_msg("%s: %d %s", rows[i].text, rc, err.text);
		if (rc < 0) {
			assert_string_equal(err.reason, "InvalidConfig");
			assert_string_equal(err.where, "");
			if (!strstr(err.text, rows[i].what))
				fail_msg("%s: %s, not %s", rows[i].text, err.text, rows[i].what);
		}
		json_close(&r);
	}
}

static void sizes(void **state)
{
	char text[MAX_BYTES + 1];
	struct json_reader r;

	(void)state;
	memset(text, ' ', sizeof(text));
	text[0] = '7';
	assert_int_equal(open_text(&r, text, MAX_BYTES), 0);
	json_close(&r);
	assert_int_equal(open_text(&r, text, MAX_BYTES + 1), -E2BIG);
	assert_string_equal(err.reason, "TooLarge");
	json_close(&r);
	/* Brackets side by side or in strings are not deep. */
	memset(text, '[', 32);
	strcpy(text + 32, "[]");
	assert_int_equal(open_text(&r, text, 34), -E2BIG);
	assert_string_equal(err.reason, "TooLarge");
	json_close(&r);
	strcpy(text, "[[],[],\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\",{},{},[],[],[],[],[],[],[],[],[],[],[]"
		     ",[],[],[],"
		     "[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]");
	assert_int_equal(open_text(&r, text, strlen(text)), 0);
	json_close(&r);
	assert_int_equal(json_open(&r, "x", NULL, 0, MAX_BYTES, NULL), -EINVAL);
	json_close(&r);
}

static void integers(void **state)
{
	static const struct {
		const char *text;
		int64_t min, max, value; /* -77: refused */
	} rows[] = {
		{"0", 0, 10, 0},
		{"-0", 0, 10, 0},
		{"10", 0, 10, 10},
		{"11", 0, 10, -77},
		{"-1", 0, 10, -77},
		{"-5", -5, 5, -5},
		{"999999999999999", 0, INT64_MAX, 999999999999999},
		{"9007199254740993", 0, INT64_MAX, 9007199254740993},
		{"-9007199254740993", INT64_MIN, 0, -9007199254740993},
		{"9223372036854775807", 0, INT64_MAX, INT64_MAX},
		{"-9223372036854775808", INT64_MIN, 0, INT64_MIN},
		{"9223372036854775808", 0, INT64_MAX, -77},
		{"-9223372036854775809", INT64_MIN, 0, -77},
		{"99999999999999999999999999", 0, INT64_MAX, -77},
		{"1.0", 0, 10, -77},
		{"0.99999999999999999999", 0, 10, -77},
		{"1e1", 0, 10, -77},
		{"1E400", 0, INT64_MAX, -77},
		{"\"1\"", 0, 10, -77},
		{"true", 0, 10, -77},
		{"[1]", 0, 10, -77},
		{"null", 0, 10, -77},
	};
	struct json_reader r;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct json_value v = open_root(&r, rows[i].text);
		int64_t n = json_int(&v, rows[i].min, rows[i].max, -77);

		if (n != rows[i].value || r.rc != (n == -77 ? -EINVAL : 0))
			fail_msg("%s is %lld", rows[i].text, (long long)n);
		json_close(&r);
	}
}

/* Digits are kept for the right one of many numbers, past strings that look like some. */
static void integers_in_order(void **state)
{
	static const int64_t expected[] = {1, 9007199254740993, -3, 9007199254740995, 9007199254740997, 6};
	struct json_reader r;
	struct json_value root =
		open_root(&r, "[1,\"2 \\\" -2\",9007199254740993,[-3,{\"7\":9007199254740995,"
			      "\"a\\\\\":\"8\"},[9007199254740997]],6]");
	struct json_value inner, pair, members[2];
	static const char *const names[] = {"7", "a\\"};
	size_t i = 0;

	(void)state;
	for (struct json_value e = json_elements(&root); e.item; json_next(&e), i++) {
		if (i == 0 || i == 2)
			assert_int_equal(json_int(&e, INT64_MIN, INT64_MAX, 0), expected[i ? 1 : 0]);
		if (i == 4)
			assert_int_equal(json_int(&e, INT64_MIN, INT64_MAX, 0), expected[5]);
		if (i != 3)
			continue;
		inner = json_elements(&e);
		assert_int_equal(json_int(&inner, INT64_MIN, INT64_MAX, 0), expected[2]);
		json_next(&inner);
		json_members(&inner, names, 2, members);
		assert_int_equal(json_int(&members[0], INT64_MIN, INT64_MAX, 0), expected[3]);
		assert_string_equal(json_string(&members[1], ""), "8");
		json_next(&inner);
		pair = json_elements(&inner);
		assert_int_equal(json_int(&pair, INT64_MIN, INT64_MAX, 0), expected[4]);
	}
	assert_int_equal(i, 5);
	assert_int_equal(r.rc, 0);
	json_close(&r);
}

static void types(void **state)
{
	static const char *const words[] = {"red", "green", "blue"};
	static const char *const one[] = {"red"};
	struct json_reader r;
	struct json_value v;

	(void)state;
	v = open_root(&r, "\"text\"");
	assert_string_equal(json_string(&v, "x"), "text");
	assert_true(json_is_string(&v));
	assert_true(json_bool(&v, true));
	assert_string_equal(err.text, "must be true or false, not a string");
	/* The first failure stays. */
	assert_int_equal(json_int(&v, 0, 1, 9), 9);
	assert_string_equal(err.text, "must be true or false, not a string");
	assert_string_equal(json_string(&v, "x"), "x");
	assert_false(json_is_string(&v));
	assert_false(json_given(&v));
	json_close(&r);

	v = open_root(&r, "false");
	assert_false(json_bool(&v, true));
	assert_false(json_is_string(&v));
	assert_string_equal(json_string(&v, "x"), "x");
	assert_string_equal(err.text, "must be a string, not a boolean");
	json_close(&r);

	v = open_root(&r, "\"blue\"");
	assert_int_equal(json_enum(&v, words, 3, -1), 2);
	assert_int_equal(json_enum(&v, words, 2, -1), -1);
	assert_string_equal(err.text, "must be \"red\" or \"green\", not \"blue\"");
	json_close(&r);
	v = open_root(&r, "\"Red\"");
	assert_int_equal(json_enum(&v, words, 3, -1), -1);
	assert_string_equal(err.text, "must be \"red\", \"green\" or \"blue\", not \"Red\"");
	json_close(&r);
	v = open_root(&r, "\"x\"");
	assert_int_equal(json_enum(&v, one, 1, 5), 5);
	assert_string_equal(err.text, "must be \"red\", not \"x\"");
	json_close(&r);

	v = open_root(&r, "[1,2]");
	assert_int_equal(json_array(&v, 2), 2);
	assert_int_equal(json_array(&v, 1), 0);
	assert_int_equal(r.rc, -E2BIG);
	assert_string_equal(err.reason, "TooLarge");
	assert_string_equal(err.text, "has 2 elements; at most 1 are allowed");
	assert_null(json_elements(&v).item);
	json_close(&r);
}

static void left_out(void **state)
{
	static const char *const names[] = {"a"}, *const inner_names[] = {"b"};
	struct json_value root, a, b;
	struct json_reader r;

	(void)state;
	root = open_root(&r, "{}");
	json_members(&root, names, 1, &a);
	json_members(&a, inner_names, 1, &b);
	assert_false(json_given(&b));
	assert_int_equal(json_int(&b, 1, 2, 77), 77);
	assert_true(json_bool(&b, true));
	assert_string_equal(json_string(&b, "x"), "x");
	assert_int_equal(json_enum(&b, names, 1, 4), 4);
	assert_int_equal(json_array(&b, 1), 0);
	assert_null(json_elements(&b).item);
	assert_int_equal(r.rc, 0);
	json_require(&b);
	assert_int_equal(r.rc, -EINVAL);
	assert_string_equal(err.reason, "InvalidConfig");
	assert_string_equal(err.where, "/a/b");
	assert_string_equal(err.text, "is required");
	assert_int_equal(json_fail_memory(&r), -EINVAL); /* too late */
	json_close(&r);
	root = open_root(&r, "{}");
	assert_int_equal(json_fail_memory(&r), -ENOMEM);
	json_close(&r);
}

static void members(void **state)
{
	static const struct {
		const char *text, *where, *message;
	} rows[] = {
		{"{\"a\":1,\"c\":2}", "/c", "unknown member \"c\""},
		{"{\"A\":1}", "/A", "unknown member \"A\""},
		{"{\"a\":1,\"b\":2,\"a\":3}", "/a", "duplicate member \"a\""},
		{"{\"~/\\n\":1}", "/~0~1?", "unknown member \"~/?\""},
		{"{\"\\u0080\\u009b\\u00a0\":1}", "/????\xc2\xa0", "unknown member \"????\xc2\xa0\""},
		{"[]", "", "must be an object, not an array"},
	};
	static const char *const names[] = {"a", "b"};
	struct json_value root, m[2];
	struct json_reader r;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		root = open_root(&r, rows[i].text);
		json_members(&root, names, 2, m);
		assert_int_equal(r.rc, -EINVAL);
		assert_string_equal(err.where, rows[i].where);
		assert_string_equal(err.text, rows[i].message);
		assert_false(json_given(&m[0]));
		json_close(&r);
	}
	root = open_root(&r, "{\"b\":1}");
	json_members(&root, names, 2, m);
	assert_false(json_given(&m[0]));
	assert_int_equal(json_int(&m[1], 0, 9, 0), 1);
	json_close(&r);
}

static void pointers(void **state)
{
	struct json_reader r;
	struct json_value root = open_root(&r, "[]");
	struct json_value list = json_member_at(&root, "a/b"), third = json_element_at(&list, 3);
	struct json_value last = json_member_at(&third, "\xc3\xa9~"), empty = json_member_at(&last, "");
	char out[64];

	(void)state;
	assert_string_equal(json_pointer(&root, out, sizeof(out)), "");
	assert_string_equal(json_pointer(&empty, out, sizeof(out)), "/a~1b/3/\xc3\xa9~0/");
	/* Cut between characters, and never in an escape. */
	assert_string_equal(json_pointer(&last, out, 13), "/a~1b/3/\xc3\xa9~0");
	assert_string_equal(json_pointer(&last, out, 12), "/a~1b/3/\xc3\xa9");
	assert_string_equal(json_pointer(&last, out, 11), "/a~1b/3/\xc3\xa9");
	assert_string_equal(json_pointer(&last, out, 10), "/a~1b/3/");
	assert_string_equal(json_pointer(&last, out, 4), "/a");
	assert_string_equal(json_pointer(&last, out, 1), "");
	json_close(&r);
}

static void quotes(void **state)
{
	char text[200];
	struct json_quoted q;

	(void)state;
	assert_string_equal(json_quote("", &q), "");
	assert_string_equal(json_quote("a\x1b[31m\x7f\xc3\xa9", &q), "a?[31m?\xc3\xa9");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(strlen(json_quote(text, &q)), sizeof(q.s) - 1);
	/* A character that would be cut stays out. */
	memcpy(text + sizeof(q.s) - 2, "\xe2\x82\xac", 3);
	assert_int_equal(strlen(json_quote(text, &q)), sizeof(q.s) - 2);
}

/* A name of a megabyte must not hide what is wrong. */
static void long_names(void **state)
{
	static const char *const names[] = {"a"};
	char text[900];
	struct json_value root, m;
	struct json_reader r;

	(void)state;
	snprintf(text, sizeof(text), "{\"%0800d\":1}", 7);
	root = open_root(&r, text);
	json_members(&root, names, 1, &m);
	assert_int_equal(r.rc, -EINVAL);
	assert_int_equal(strlen(err.where), sizeof(err.where) - 1);
	assert_non_null(strstr(err.text, "unknown member \"0000"));
	json_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(syntax),     cmocka_unit_test(sizes),	  cmocka_unit_test(integers),
		cmocka_unit_test(types),      cmocka_unit_test(left_out), cmocka_unit_test(integers_in_order),
		cmocka_unit_test(members),    cmocka_unit_test(pointers), cmocka_unit_test(quotes),
		cmocka_unit_test(long_names),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
