/* SPDX-License-Identifier: Apache-2.0 */
/* When a tunnel's path MTU is measured again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>

#include "vgw/model/peer_path.h"

/* By a search up to 1500; AT_CEILING: no more than the result will ever be used. */
static void measured(struct peer_path *p, uint32_t mtu, bool at_ceiling, int64_t now)
{
	const struct pmtu_search_result r = {.mtu = mtu, .pmtud = PMTU_WORKING};

	assert_true(path_next(p, now) >= PATH_SEARCH);
	path_search_started(p);
	assert_int_equal(path_next(p, now), PATH_NOTHING);
	path_search_ended(p, &r, 1500, at_ceiling ? mtu : 1500, now);
	assert_int_equal(p->mtu, mtu);
}

static void test_confirmed_regularly(void **state)
{
	struct peer_path p;
	int64_t now = 1000;

	path_init(&p, now);
	measured(&p, 1400, true, now);
	for (uint64_t i = 1; i < 1000; i++) {
		assert_int_equal(path_next(&p, now + PATH_CONFIRM_MS - 1), PATH_NOTHING);
		now += PATH_CONFIRM_MS;
		assert_int_equal(path_next(&p, now), PATH_CONFIRM);
		path_confirm_sent(&p, i, -1, now);
		assert_int_equal(path_next(&p, now), PATH_NOTHING);
		assert_false(path_confirmed(&p, i + 1, now));
		assert_true(path_confirmed(&p, i, now));
		assert_false(path_confirmed(&p, i, now));
	}
}

static void test_two_misses_search_at_once(void **state)
{
	struct peer_path p;
	int64_t now = 0;

	path_init(&p, now);
	measured(&p, 1400, true, now);
	now += PATH_CONFIRM_MS;
	path_confirm_sent(&p, 1, -1, now);
	now += PATH_MISS_MS;
	assert_int_equal(path_next(&p, now), PATH_CONFIRM);
	path_confirm_sent(&p, 2, -1, now);
	now += PATH_MISS_MS;
	measured(&p, 1280, false, now);
	/* One miss and an answer is none. */
	now += PATH_CONFIRM_MS;
	path_confirm_sent(&p, 3, -1, now);
	now += PATH_MISS_MS;
	assert_int_equal(path_next(&p, now), PATH_CONFIRM);
	path_confirm_sent(&p, 4, -1, now);
	assert_true(path_confirmed(&p, 4, now));
	now += PATH_CONFIRM_MS;
	path_confirm_sent(&p, 5, -1, now);
	assert_int_equal(path_next(&p, now + PATH_MISS_MS), PATH_CONFIRM);
}

/* The nearer the peer, the sooner a shrunken path is known. */
static void test_a_miss_by_the_round_trip(void **state)
{
	static const struct {
		double rtt_ms;
		int64_t miss_ms;
	} cases[] = {{-1, 1000}, {0, 300}, {0.4, 301}, {20, 360}, {200, 900}, {240, 1000}, {5000, 1000}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct peer_path p;

		path_init(&p, 0);
		measured(&p, 1400, true, 0);
		assert_int_equal(path_wait(&p, 0), -1);
		path_confirm_sent(&p, 1, cases[i].rtt_ms, 10000);
		assert_int_equal(path_wait(&p, 10000), cases[i].miss_ms);
		assert_int_equal(path_next(&p, 10000 + cases[i].miss_ms - 1), PATH_NOTHING);
		assert_int_equal(path_wait(&p, 10000 + cases[i].miss_ms + 5), 0);
		assert_int_equal(path_next(&p, 10000 + cases[i].miss_ms), PATH_CONFIRM);
		assert_int_equal(path_wait(&p, 10000 + cases[i].miss_ms), -1);
	}
}

static void test_upwards_seldom(void **state)
{
	struct peer_path p;

	path_init(&p, 0);
	measured(&p, 1280, false, 0);
	path_confirm_sent(&p, 1, -1, PATH_RAISE_MS - 10);
	assert_true(path_confirmed(&p, 1, PATH_RAISE_MS - 10));
	assert_int_equal(path_next(&p, PATH_RAISE_MS - 1), PATH_NOTHING);
	assert_int_equal(path_next(&p, PATH_RAISE_MS), PATH_RAISE);
	measured(&p, 1400, true, PATH_RAISE_MS);
	assert_int_equal(path_next(&p, 10 * PATH_RAISE_MS), PATH_CONFIRM);
}

static void test_changes_and_reports(void **state)
{
	struct peer_path p;
	const struct pmtu_search_result none = {0};

	path_init(&p, 0);
	path_search_started(&p);
	assert_false(path_search_ended(&p, &none, 1500, 1500, 100));
	assert_int_equal(path_next(&p, 100 + PATH_RETRY_MS - 1), PATH_NOTHING);
	measured(&p, 1400, true, 10100);
	path_reported(&p, 1500, 20000);
	assert_int_equal(path_next(&p, 12000), PATH_NOTHING);
	path_reported(&p, 1400, 14000);
	measured(&p, 1300, false, 14000);
	/* A second report comes soon after: not a search each. */
	path_reported(&p, 1300, 14100);
	assert_int_equal(path_next(&p, 14100), PATH_NOTHING);
	measured(&p, 1250, false, 14000 + PATH_REPORT_MS);
	path_changed(&p, 17000);
	assert_int_equal(path_next(&p, 17000), PATH_RAISE);
	path_search_started(&p);
	assert_false(path_search_ended(&p, &none, 1500, 1500, 17000));
	assert_int_equal(p.mtu, 1250);
}

/* What is in force is judged by what was tried, whatever routers say; of what was not tried nothing is known.
 */
static void test_what_is_swallowed(void **state)
{
	static const struct {
		uint32_t mtu, tried, in_force;
		enum pmtu_verdict pmtud;
		bool swallowed;
	} cases[] = {
		{1400, 1400, 1400, PMTU_WORKING, false},    {1300, 1400, 1400, PMTU_BLACK_HOLE, true},
		{1300, 1400, 1400, PMTU_WORKING, true},	    {1300, 1400, 1400, PMTU_UNKNOWN, true},
		{1300, 1400, 1300, PMTU_BLACK_HOLE, false}, {1300, 1400, 1500, PMTU_WORKING, true},
		{1400, 1400, 1500, PMTU_WORKING, false},    {0, 1400, 1400, PMTU_UNKNOWN, false},
		{1300, 1400, 0, PMTU_UNKNOWN, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct pmtu_search_result r = {.mtu = cases[i].mtu, .pmtud = cases[i].pmtud};
		struct peer_path p;

		path_init(&p, 0);
		path_search_started(&p);
		path_search_ended(&p, &r, cases[i].tried, 1400, 100);
		assert_int_equal(path_swallows(&p, cases[i].in_force), cases[i].swallowed);
	}
}

/* A hiccup at the start costs a second, a path without answers a search every ten. */
static void test_without_a_result(void **state)
{
	static const int64_t waits[] = {1000, 2000, 4000, 8000, 10000, 10000};
	const struct pmtu_search_result none = {0};
	struct peer_path p;
	int64_t now = 0;

	path_init(&p, now);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
			assert_true(path_next(&p, now) >= PATH_SEARCH);
			path_search_started(&p);
			path_search_ended(&p, &none, 1500, 1500, now);
			assert_true(path_next(&p, now + waits[i] - 1) < PATH_SEARCH);
			now += waits[i];
		}
		measured(&p, 1400, true, now);
		path_changed(&p, now);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confirmed_regularly),
		cmocka_unit_test(test_two_misses_search_at_once),
		cmocka_unit_test(test_a_miss_by_the_round_trip),
		cmocka_unit_test(test_upwards_seldom),
		cmocka_unit_test(test_changes_and_reports),
		cmocka_unit_test(test_what_is_swallowed),
		cmocka_unit_test(test_without_a_result),
	};

	return cmocka_run_group_tests_name("peer path", tests, NULL, NULL);
}
