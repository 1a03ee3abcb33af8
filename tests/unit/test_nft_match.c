/* SPDX-License-Identifier: Apache-2.0 */
/* Which rules stay when a chain is changed. A chain is written as one letter per rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "netcfg/model/nft_table.h"

enum { MAX_RULES = 32 };

struct letters {
	struct nx x[MAX_RULES];
	struct nft_rule rules[MAX_RULES];
	struct nft_chain chain;
};

static void spell(const char *text, struct letters *out)
{
	memset(out, 0, sizeof(*out));
	out->chain.rules = out->rules;
	for (; text[out->chain.n_rules]; out->chain.n_rules++) {
		size_t i = out->chain.n_rules;

		out->x[i].kind = NX_META;
		out->x[i].a = (uint32_t)text[i];
		out->rules[i].x = &out->x[i];
		out->rules[i].n = 1;
	}
}

static void keeps_what_it_can(void **state)
{
	static const struct {
		const char *old, *new;
		size_t kept;
	} cases[] = {
		{"", "", 0},
		{"", "abc", 0},
		{"abc", "", 0},
		{"abc", "abc", 3},
		{"abc", "axc", 2},
		{"abcdef", "abXdefY", 5},   /* one service of many changes, and a group comes */
		{"abcdefGH", "abXdefH", 6}, /* and one goes */
		{"abc", "cab", 2},	    /* order counts */
		{"aab", "aaab", 3},	    /* equal rules are not mixed up */
		{"xay", "a", 1},
		{"aXbYc", "aZbWc", 3},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct letters old, new;
		size_t match[MAX_RULES], kept = 0, last = NFT_NO_MATCH;

		spell(cases[i].old, &old);
		spell(cases[i].new, &new);
		assert_int_equal(nft_chain_match(&old.chain, &new.chain, match), 0);
		for (size_t j = 0; j < new.chain.n_rules; j++) {
			if (match[j] == NFT_NO_MATCH)
				continue;
			assert_true(match[j] < old.chain.n_rules);
			assert_true(last == NFT_NO_MATCH || match[j] > last);
			assert_int_equal(cases[i].old[match[j]], cases[i].new[j]);
			last = match[j];
			kept++;
		}
		if (kept != cases[i].kept)
			fail_msg("%s to %s keeps %zu, not %zu", cases[i].old, cases[i].new, kept,
				 cases[i].kept);
	}
}

/* What is wanted as 0 is the kernel's; what is not wanted does no harm. */
static void time_outs(void **state)
{
	struct nft_table wanted = {.retry_object = true, .retry_timeouts = {1, 0, 3600}};
	struct nft_table there = {.retry_object = true, .retry_timeouts = {1, 60, 3600}}, none = {0};

	(void)state;
	assert_true(nft_table_retry_equal(&wanted, &there));
	assert_false(nft_table_retry_equal(&wanted, &none));
	assert_true(nft_table_retry_equal(&none, &there));
	there.retry_timeouts[2] = 432000;
	assert_false(nft_table_retry_equal(&wanted, &there));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_what_it_can),
		cmocka_unit_test(time_outs),
	};

	return cmocka_run_group_tests_name("nft match", tests, NULL, NULL);
}
