/* SPDX-License-Identifier: Apache-2.0 */
/* The ground floor: errors, buffers, arenas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/arena.h"
#include "netcfg/base/buf.h"
#include "netcfg/base/err.h"

static void err_filled(void **state)
{
	struct vgw_err err;
	char out[64];

	(void)state;
	memset(&err, 'x', sizeof(err));
	assert_int_equal(vgw_err_set(&err, -ERANGE, "InvalidSpec", "/a/b", "is %d of %s", 7, "9"), -ERANGE);
	assert_string_equal(err.reason, "InvalidSpec");
	assert_string_equal(err.where, "/a/b");
	assert_string_equal(err.text, "is 7 of 9");
	assert_ptr_equal(vgw_err_print(&err, out, sizeof(out)), out);
	assert_string_equal(out, "InvalidSpec: is 7 of 9 (at /a/b)");
	assert_int_equal(vgw_err_set(&err, -1, "Other", NULL, "text"), -1);
	assert_string_equal(err.where, "");
	assert_string_equal(vgw_err_print(&err, out, sizeof(out)), "Other: text");
	assert_int_equal(vgw_err_set(NULL, -5, "Other", "/a", "%s", "x"), -5);
}

static void err_cut(void **state)
{
	char *text = malloc(5000), out[10];
	struct vgw_err err;

	(void)state;
	assert_non_null(text);
	memset(text, 'a', 4999);
	text[4999] = '\0';
	vgw_err_set(&err, 0, text, text, "%s", text);
	assert_int_equal(strlen(err.reason), sizeof(err.reason) - 1);
	assert_int_equal(strlen(err.where), sizeof(err.where) - 1);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_int_equal(strlen(vgw_err_print(&err, out, sizeof(out))), sizeof(out) - 1);
	free(text);
}

static void buf_grows(void **state)
{
	struct buf b = {0};
	char *expected = malloc(40001), *taken;

	(void)state;
	assert_non_null(expected);
	assert_string_equal(buf_str(&b), "");
	for (size_t i = 0; i < 40000; i++) {
		expected[i] = (char)('a' + i % 26);
		if (i % 3)
			buf_printf(&b, "%c", expected[i]);
		else
			buf_append(&b, &expected[i], 1);
		assert_int_equal(b.len, i + 1);
		assert_int_equal(b.data[b.len], '\0');
	}
	expected[40000] = '\0';
	assert_false(b.failed);
	assert_string_equal(buf_str(&b), expected);
	taken = buf_take(&b);
	assert_string_equal(taken, expected);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	assert_null(buf_take(&b));
	free(taken);
	free(expected);
	buf_free(&b);
}

static void buf_contents(void **state)
{
	struct buf b = {0};

	(void)state;
	buf_append(&b, NULL, 0);
	assert_string_equal(buf_str(&b), "");
	buf_append(&b, "a\0b", 3);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 4);
	buf_puts(&b, "cd");
	buf_puts(&b, "");
	buf_printf(&b, "%s-%04d", "ef", 7);
	assert_int_equal(b.len, 12);
	assert_memory_equal(b.data, "a\0bcdef-0007", 13);
	buf_consume(&b, 0);
	assert_int_equal(b.len, 12);
	buf_consume(&b, 2);
	assert_string_equal(buf_str(&b), "bcdef-0007");
	buf_consume(&b, 9);
	assert_string_equal(buf_str(&b), "7");
	buf_puts(&b, "8");
	assert_string_equal(buf_str(&b), "78");
	buf_consume(&b, 3);
	assert_int_equal(b.len, 0);
	assert_string_equal(buf_str(&b), "");
	buf_puts(&b, "x");
	assert_string_equal(buf_str(&b), "x");
	buf_wipe(&b);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	buf_consume(&b, 1);
	buf_wipe(&b);
	buf_free(&b);
}

/* Longer than any first guess of a buffer. */
static void buf_long_print(void **state)
{
	struct buf b = {0};

	(void)state;
	buf_printf(&b, "%5000d", 1);
	assert_int_equal(b.len, 5000);
	assert_int_equal(b.data[4999], '1');
	assert_int_equal(b.data[4998], ' ');
	assert_int_equal(b.data[5000], '\0');
	buf_free(&b);
}

static void buf_fails_for_good(void **state)
{
	struct buf b = {0};

	(void)state;
	buf_puts(&b, "kept");
	/* No room for that much anywhere, so nothing is read. */
	buf_append(&b, "x", SIZE_MAX - 1);
	assert_string_equal(buf_str(&b), "kept");
	b.failed = true;
	buf_puts(&b, "lost");
	buf_printf(&b, "%d", 1);
	assert_true(b.failed);
	assert_string_equal(buf_str(&b), "kept");
	buf_free(&b);
	assert_false(b.failed);
}

static void arena_gives(void **state)
{
	static const size_t sizes[] = {0, 1, 7, 16, 17, 1000, 1024, 16384, 16385, 100000, 3};
	enum { ROUNDS = 20, SIZES = sizeof(sizes) / sizeof(sizes[0]) };
	struct arena *a = arena_new();
	unsigned char *p[ROUNDS * SIZES];

	(void)state;
	assert_non_null(a);
	for (size_t i = 0; i < ROUNDS * SIZES; i++) {
		size_t size = sizes[i % SIZES];

		p[i] = arena_alloc(a, size);
		assert_non_null(p[i]);
		assert_int_equal((uintptr_t)p[i] % alignof(max_align_t), 0);
		for (size_t j = 0; j < size; j++)
			assert_int_equal(p[i][j], 0);
		memset(p[i], (int)(i % 255 + 1), size);
	}
	/* Nothing was given twice. */
	for (size_t i = 0; i < ROUNDS * SIZES; i++)
		for (size_t j = 0; j < sizes[i % SIZES]; j++)
			assert_int_equal(p[i][j], i % 255 + 1);
	arena_free(a);
	arena_free(NULL);
}

static void arena_kinds(void **state)
{
	struct arena *a = arena_new();
	char source[] = "text";
	char *copy;

	(void)state;
	assert_non_null(a);
	copy = arena_strdup(a, source);
	source[0] = 'x';
	assert_string_equal(copy, "text");
	assert_string_equal(arena_strdup(a, ""), "");
	assert_non_null(arena_calloc(a, 0, 8));
	assert_non_null(arena_calloc(a, 8, 0));
	assert_non_null(arena_calloc(a, 100, 8));
	/* The product does not fit. */
	assert_null(arena_calloc(a, SIZE_MAX / 4, 8));
	assert_null(arena_calloc(a, SIZE_MAX, SIZE_MAX));
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_filled),	  cmocka_unit_test(err_cut),
		cmocka_unit_test(buf_grows),	  cmocka_unit_test(buf_contents),
		cmocka_unit_test(buf_long_print), cmocka_unit_test(buf_fails_for_good),
		cmocka_unit_test(arena_gives),	  cmocka_unit_test(arena_kinds),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
