/* SPDX-License-Identifier: Apache-2.0 */
/* When to stop putting something back (promise 10): 5 losses in 10 s, then once a minute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "random.h"
#include "vgw/model/fight.h"

/* What happens at AT ms: '!' a loss that is put back, 'x' one that is not, '.' found as it should be. */
struct event {
	int64_t at;
	char what;
	bool contested; /* afterwards */
};

static void play(const char *name, const struct event *events)
{
	struct fight f = {0};
	uint64_t repairs = 0;

	for (size_t i = 0; events[i].what; i++) {
		const struct event *e = &events[i];

		if (e->what == '.')
			fight_quiet(&f, e->at);
		else if (fight_lost(&f, e->at) != (e->what == '!'))
			fail_msg("%s: at %lld ms the loss is %s", name, (long long)e->at,
				 e->what == '!' ? "not put back" : "put back");
		repairs += e->what == '!';
		if (f.contested != e->contested)
			fail_msg("%s: at %lld ms %scontested", name, (long long)e->at,
				 f.contested ? "" : "not ");
		assert_int_equal(f.repairs, repairs);
	}
}

static void five_losses(void **state)
{
	static const struct event quick[] = {{0, '!', false},	 {10, '!', false},   {20, '!', false},
					     {30, '!', false},	 {40, 'x', true},    {50, 'x', true},
					     {59000, 'x', true}, {60039, 'x', true}, {0}};
	static const struct event within[] = {{1000, '!', false}, {3000, '!', false}, {5000, '!', false},
					      {7000, '!', false}, {11000, 'x', true}, {0}};
	static const struct event late[] = {
		{1000, '!', false},  {3000, '!', false}, {5000, '!', false}, {7000, '!', false},
		{11001, '!', false}, {12999, 'x', true}, {13000, 'x', true}, {0}};
	static const struct event bursts[] = {{0, '!', false},	   {1, '!', false},
					      {2, '!', false},	   {3, '!', false},
					      {10004, '!', false}, {10005, '!', false},
					      {10006, '!', false}, {10007, '!', false},
					      {10008, 'x', true},  {0}};

	(void)state;
	play("five at once", quick);
	play("five in 10 s", within);
	play("the fifth after 10 s", late);
	play("two bursts of four", bursts);
}

static void once_a_minute(void **state)
{
	static const struct event e[] = {{0, '!', false},     {0, '!', false},
					 {0, '!', false},     {0, '!', false},
					 {0, 'x', true},      {30000, 'x', true},
					 {59999, 'x', true},  {60000, '!', true},
					 {60010, 'x', true},  {119999, 'x', true},
					 {120500, '!', true}, {180000, 'x', true},
					 {180500, '!', true}, {0}};

	(void)state;
	play("once a minute", e);
}

static void quiet_ends_it(void **state)
{
	static const struct event e[] = {
		{0, '!', false},     {0, '!', false},	  {0, '!', false},     {0, '!', false},
		{0, 'x', true},	     {60000, '!', true},  {60000, '.', true},  {65000, '.', true},
		{70000, '.', true},  {70001, '.', false}, {80000, '!', false}, {80001, '!', false},
		{80002, '!', false}, {80003, '!', false}, {80004, 'x', true},  {0}};
	static const struct event lost[] = {{0, '!', false},	{0, '!', false},     {0, '!', false},
					    {0, '!', false},	{0, 'x', true},	     {60000, '!', true},
					    {60001, '.', true}, {69000, 'x', true},  {70500, '.', true},
					    {79000, '.', true}, {79001, '.', false}, {0}};
	static const struct event calm[] = {
		{0, '!', false}, {1, '!', false},    {2, '!', false},	{3, '!', false},
		{4, '.', false}, {9000, '.', false}, {9001, 'x', true}, {0}};

	(void)state;
	play("left alone for a window", e);
	play("the window counts from the last loss", lost);
	play("a look at it alone ends nothing", calm);
}

static void when_to_look(void **state)
{
	struct fight f = {0};

	(void)state;
	for (int i = 0; i < FIGHT_LOSSES - 1; i++)
		assert_true(fight_lost(&f, 1000));
	assert_false(fight_due(&f, 1000000));
	assert_false(fight_lost(&f, 1000));
	assert_false(fight_due(&f, 11000));
	assert_true(fight_due(&f, 11001)); /* has the other side given up, and left it as it should be? */
	for (int64_t now = 11001; now < 61000; now += 5000) {
		assert_false(fight_lost(&f, now));
		assert_false(fight_due(&f, now));
	}
	assert_true(fight_due(&f, 61000)); /* the next try */
	assert_true(fight_lost(&f, 61000));
	assert_false(fight_due(&f, 71000));
	assert_true(fight_due(&f, 71001));
	fight_quiet(&f, 71001);
	assert_false(fight_due(&f, 1000000));
}

/* However the other side goes about it: never more than 5 puttings back in 10 s before it is contested, nor
 * two in a minute while it is. */
static void never_more(void **state)
{
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 200; round++) {
		uint32_t pace = 1 + random_below(&r, 4000);
		int64_t now = 1000000, put[4] = {-100000, -100000, -100000, -100000}, retried = -100000;
		struct fight f = {0};

		for (int i = 0; i < 400; i++) {
			bool before = f.contested;

			now += random_below(&r, 2 * pace);
			if (random_chance(&r, 50)) {
				fight_quiet(&f, now);
				continue;
			}
			if (!fight_lost(&f, now))
				continue;
			if (before) {
				assert_true(now - retried >= FIGHT_RETRY_MS);
				retried = now;
			} else {
				assert_true(now - put[0] > FIGHT_WINDOW_MS);
				for (int k = 0; k < 3; k++)
					put[k] = put[k + 1];
				put[3] = now;
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(five_losses),	 cmocka_unit_test(once_a_minute),
		cmocka_unit_test(quiet_ends_it), cmocka_unit_test(when_to_look),
		cmocka_unit_test(never_more),
	};

	return cmocka_run_group_tests_name("fight", tests, NULL, NULL);
}
