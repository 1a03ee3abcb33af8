/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of slots that frontends may soon have, and what they are for: verdicts that change no rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "netcfg/model/nft_delta.h"
#include "vgw/model/prospects.h"
#include "wanted_fixture.h"

#define ENTRY(name, port, members) "{'name':'" name "','port':" port members "}"
#define WEIGHTED(last, weight)	   "{'address':'192.168.150." last "','port':6443,'weight':" weight "}"

static const struct {
	const char *frontends;
	const char *numbers; /* ascending; r random, s source, u UDP, 6 IPv6; ! not of several backends */
} cases[] = {
	{ENTRY("a", "80", ",'backends':[]"), ""},
	{ENTRY("a", "80", ",'backends':[" BACKEND("11") "]"), "1!"},
	{ENTRY("a", "80", "," THREE_BACKENDS), "1! 2 3"},
	{ENTRY("a", "80", "," THREE_BACKENDS) "," ENTRY("b", "81", "," THREE_BACKENDS), "1! 2 3"},
	{ENTRY("a", "80",
	       ",'backends':[" BACKEND("11") "," BACKEND("12") "," BACKEND("13") "," BACKEND(
		       "14") "," BACKEND("15") "," BACKEND("16") "]"),
	 "3 4 5 6"},
	/* 2:2:4 is 1:1:2; without a heavy one 1:1, without a light one 1:2. */
	{ENTRY("a", "80",
	       ",'backends':[" WEIGHTED("11", "2") "," WEIGHTED("12", "2") "," WEIGHTED("13", "4") "]"),
	 "2 3 4"},
	{ENTRY("a", "80", ",'backends':[" WEIGHTED("11", "0") "," WEIGHTED("12", "7") "]"), "1!"},
	{ENTRY("a", "80",
	       ",'backends':[{'address':'192.168.150.11','port':1,'drain':true}," BACKEND("12") "]"),
	 "1!"},
	{ENTRY("a", "80", ",'balance':'random'," THREE_BACKENDS), "r1! r2 r3"},
	{ENTRY("a", "80", ",'balance':'source'," THREE_BACKENDS), "s512!"},
	{ENTRY("a", "80", ",'protocol':'UDP'," THREE_BACKENDS), "u1! u2 u3"},
	{ENTRY("a", "80", ",'loadBalancerClass':'metallb'," THREE_BACKENDS), ""},
};

static char *print(const struct ns_prospect *v, size_t n)
{
	struct buf text = {0};

	for (size_t i = 0; i < n; i++)
		buf_printf(&text, "%s%s%s%s%u%s", i ? " " : "", v[i].protocol == SPEC_UDP ? "u" : "",
			   v[i].balance == NS_RANDOM   ? "r"
			   : v[i].balance == NS_SOURCE ? "s"
						       : "",
			   v[i].v6 ? "6" : "", v[i].n_slots, v[i].several ? "" : "!");
	return buf_take(&text);
}

static void numbers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf text = {0};
		struct wanted_fixture x;
		char *got;

		buf_printf(&text, PRIVATE(",'frontends':[%s]"), cases[i].frontends);
		wanted_start(&x, buf_str(&text));
		wanted_finish(&x);
		got = print(x.state.prospects, x.state.n_prospects);
		if (strcmp(got ? got : "", cases[i].numbers))
			fail_msg("%s: %s, not %s", cases[i].frontends, got, cases[i].numbers);
		free(got);
		buf_free(&text);
		wanted_free(&x);
	}
}

static void many(struct buf *text, size_t frontends, size_t backends)
{
	buf_printf(text, "{" SPEC_HEAD "," SPEC_NETWORK ",'controlPlaneExposure':'private','frontends':[");
	for (size_t f = 0; f < frontends; f++) {
		buf_printf(text, "%s{'name':'f%zu','port':%zu,'backends':[", f ? "," : "", f, 1000 + f);
		for (size_t b = 0; b < backends + f % 7; b++)
			buf_printf(text, "%s{'address':'192.168.150.%zu','port':80}", b ? "," : "", 2 + b);
		buf_puts(text, "]}");
	}
	buf_puts(text, "]}");
}

static void assert_texts_equal(const struct nft_table *a, const struct nft_table *b)
{
	struct buf x = {0}, y = {0};

	nft_table_print(a, &x);
	nft_table_print(b, &y);
	assert_string_equal(buf_str(&x), buf_str(&y));
	buf_free(&x);
	buf_free(&y);
}

/* Whichever backend goes: all three of them, one after the other. */
static void verdicts_change_elements_only(void **state)
{
	struct wanted_verdict verdicts[3] = {
		{.in_rotation = true}, {.in_rotation = true}, {.in_rotation = true}};
	struct nft_features features = {.retry = true};
	struct buf text = {0};
	struct wanted_fixture x;
	struct nft_table table, anew;

	(void)state;
	many(&text, 100, 3);
	wanted_start(&x, buf_str(&text));
	wanted_finish(&x);
	assert_int_equal(nft_table_build(&x.state, &features, true, x.arena, &table), 0);
	for (size_t dead = 0; dead < 3; dead++) {
		struct ns_service *service = &x.state.services[0], old = *service;
		struct nft_delta delta;

		verdicts[dead] = (struct wanted_verdict){.refuses = true};
		assert_int_equal(wanted_service(&x.spec->frontends[0], &x.host, verdicts, x.arena, service),
				 0);
		assert_int_equal(service->n_slots, 2 - dead);
		assert_int_equal(nft_delta_make(&table, &x.state, &old, service, &features, x.arena, &delta),
				 0);
		assert_int_equal(delta.old.n_chains + delta.new.n_chains, 0);
		assert_int_equal(nft_table_build(&x.state, &features, true, x.arena, &anew), 0);
		assert_texts_equal(&table, &anew);
	}
	buf_free(&text);
	wanted_free(&x);
}

/* New flows have to pass the rules: there are not too many of them, whatever the spec. */
static void not_too_many(void **state)
{
	struct buf text = {0};
	struct wanted_fixture x;

	(void)state;
	buf_printf(&text, "{" SPEC_HEAD "," SPEC_NETWORK ",'controlPlaneExposure':'private','frontends':[");
	for (size_t f = 0; f < 120; f++)
		buf_printf(&text,
			   "%s{'name':'f%zu','port':%zu,'backends':[{'address':'192.168.150.11','port':1,'"
			   "weight':1},"
			   "{'address':'192.168.150.12','port':1,'weight':%zu}]}",
			   f ? "," : "", f, 1000 + f, 1 + f % 100);
	buf_puts(&text, "]}");
	wanted_start(&x, buf_str(&text));
	wanted_finish(&x);
	assert_int_equal(x.state.n_prospects, PROSPECTS_MAX);
	buf_free(&text);
	wanted_free(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(verdicts_change_elements_only),
		cmocka_unit_test(not_too_many),
	};

	return cmocka_run_group_tests_name("prospects", tests, NULL, NULL);
}
