/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as it is written: commas, escapes, numbers and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "vgw/model/json_scan.h"
#include "vgw/model/json_writer.h"

static void commas(void **state)
{
	struct buf b = {0};

	(void)state;
	json_put_open(&b, NULL, "{");
	json_put_open(&b, "empty", "[");
	buf_puts(&b, "]");
	json_put_open(&b, "list", "[");
	json_put_int(&b, NULL, 1);
	json_put_open(&b, NULL, "{");
	buf_puts(&b, "}");
	json_put_string(&b, NULL, "{");
	json_put_string(&b, NULL, "[");
	json_put_null(&b, NULL);
	buf_puts(&b, "]");
	json_put_bool(&b, "yes", true);
	json_put_bool(&b, "no", false);
	json_put_text(&b, "left out", "");
	json_put_text(&b, "text", "t");
	json_put_string(&b, "nothing", "");
	buf_puts(&b, "}");
	assert_string_equal(buf_str(&b), "{\"empty\":[],\"list\":[1,{},\"{\",\"[\",null],\"yes\":true,"
					 "\"no\":false,\"text\":\"t\",\"nothing\":\"\"}");
	buf_free(&b);
}

static void numbers(void **state)
{
	struct buf b = {0};

	(void)state;
	json_put_open(&b, NULL, "[");
	json_put_int(&b, NULL, INT64_MIN);
	json_put_int(&b, NULL, INT64_MAX);
	json_put_tenths(&b, NULL, 3.14159);
	json_put_tenths(&b, NULL, -0.25);
	json_put_tenths(&b, NULL, 0);
	json_put_tenths(&b, NULL, (double)NAN);
	json_put_tenths(&b, NULL, (double)INFINITY);
	buf_puts(&b, "]");
	assert_string_equal(buf_str(&b), "[-9223372036854775808,9223372036854775807,3.1,-0.2,0.0,null,null]");
	buf_free(&b);
}

static void times(void **state)
{
	static const struct {
		int64_t ms;
		const char *text;
	} cases[] = {
		{0, "\"1970-01-01T00:00:00Z\""},
		{999, "\"1970-01-01T00:00:00Z\""},
		{1796032800000, "\"2026-11-30T10:00:00Z\""},
		{1709164800000, "\"2024-02-29T00:00:00Z\""},
		{253402300799000, "\"9999-12-31T23:59:59Z\""},
		{-1, "null"},
		{INT64_MIN, "null"},
		{INT64_MAX, "null"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b = {0};

		json_put_open(&b, NULL, "[");
		json_put_time(&b, NULL, cases[i].ms);
		assert_string_equal(buf_str(&b) + 1, cases[i].text);
		buf_free(&b);
	}
}

/* Any bytes become a JSON string; what is UTF-8 reads back as it was. */
static void any_bytes(void **state)
{
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 3000; round++) {
		size_t n = random_below(&r, 24);
		bool ascii = round % 2;
		struct json_scan scan;
		char text[32] = "";
		struct buf b = {0};
		cJSON *root;

		for (size_t i = 0; i < n; i++)
			text[i] = (char)(1 + random_below(&r, ascii ? 127 : 255));
		json_put_open(&b, NULL, "[");
		json_put_string(&b, NULL, text);
		buf_puts(&b, "]");
		assert_int_equal(json_scan(buf_str(&b), b.len, 2, &scan), 0);
		root = cJSON_Parse(buf_str(&b));
		assert_non_null(root);
		if (ascii)
			assert_string_equal(cJSON_GetArrayItem(root, 0)->valuestring, text);
		cJSON_Delete(root);
		buf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commas),
		cmocka_unit_test(numbers),
		cmocka_unit_test(times),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests_name("JSON writer", tests, NULL, NULL);
}
