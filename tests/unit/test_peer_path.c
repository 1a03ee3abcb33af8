/* SPDX-License-Identifier: Apache-2.0 */
/* When a tunnel's path MTU is measured again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>

#include "vgw/model/peer_path.h"

static void measured(struct peer_path *p, uint32_t mtu, bool at_ceiling, int64_t now)
{
	const struct pmtu_search_result r = {.mtu = mtu, .pmtud = PMTU_WORKING, .at_ceiling = at_ceiling};

	assert_true(path_next(p, now) >= PATH_SEARCH);
	path_search_started(p);
	assert_int_equal(path_next(p, now), PATH_NOTHING);
	path_search_ended(p, &r, now);
	assert_int_equal(p->mtu, mtu);
}

static void test_confirmed_every_five_seconds(void **state)
{
	struct peer_path p;
	int64_t now = 1000;

	path_init(&p, now);
	measured(&p, 1400, true, now);
	for (uint64_t i = 1; i < 1000; i++) {
		assert_int_equal(path_next(&p, now + PATH_CONFIRM_MS - 1), PATH_NOTHING);
		now += PATH_CONFIRM_MS;
		assert_int_equal(path_next(&p, now), PATH_CONFIRM);
		path_confirm_sent(&p, i, now);
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
	path_confirm_sent(&p, 1, now);
	now += PATH_MISS_MS;
	assert_int_equal(path_next(&p, now), PATH_CONFIRM);
	path_confirm_sent(&p, 2, now);
	now += PATH_MISS_MS;
	measured(&p, 1280, false, now);
	/* One miss and an answer is none. */
	now += PATH_CONFIRM_MS;
	path_confirm_sent(&p, 3, now);
	now += PATH_MISS_MS;
	assert_int_equal(path_next(&p, now), PATH_CONFIRM);
	path_confirm_sent(&p, 4, now);
	assert_true(path_confirmed(&p, 4, now));
	now += PATH_CONFIRM_MS;
	path_confirm_sent(&p, 5, now);
	assert_int_equal(path_next(&p, now + PATH_MISS_MS), PATH_CONFIRM);
}

static void test_upwards_seldom(void **state)
{
	struct peer_path p;

	path_init(&p, 0);
	measured(&p, 1280, false, 0);
	path_confirm_sent(&p, 1, PATH_RAISE_MS - 10);
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
	assert_false(path_search_ended(&p, &none, 100));
	assert_int_equal(path_next(&p, 100 + PATH_RETRY_MS - 1), PATH_NOTHING);
	measured(&p, 1400, true, 100 + PATH_RETRY_MS);
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
	assert_false(path_search_ended(&p, &none, 17000));
	assert_int_equal(p.mtu, 1250);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confirmed_every_five_seconds),
		cmocka_unit_test(test_two_misses_search_at_once),
		cmocka_unit_test(test_upwards_seldom),
		cmocka_unit_test(test_changes_and_reports),
	};

	return cmocka_run_group_tests_name("peer path", tests, NULL, NULL);
}
