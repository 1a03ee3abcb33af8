/* SPDX-License-Identifier: Apache-2.0 */
/* A delta's table is the one that building anew gives, and its two small tables differ by nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "netcfg/model/nft_delta.h"

enum { ROUNDS = 300, MAX_SERVICES = 80, MAX_BACKENDS = 6 };

static uint32_t random_state;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % below;
}

static void make_slots(struct ns_service *s, struct arena *arena)
{
	size_t n = draw(MAX_BACKENDS + 1);
	struct ip_endpoint *slots = arena_calloc(arena, n, sizeof(*slots));
	bool v6 = s->port.at.addr.family == IP_V6;

	assert_non_null(slots);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(ip_addr_parse(v6 ? "fd00:150::b" : "192.168.150.11", &slots[i].addr), 0);
		slots[i].addr.bytes[v6 ? 15 : 3] = (uint8_t)(11 + draw(4));
		slots[i].port = 6443;
	}
	s->slots = slots;
	s->n_slots = n;
}

static void make_services(struct netstate *s, struct arena *arena)
{
	s->table = true;
	s->n_services = 1 + draw(MAX_SERVICES);
	s->services = arena_calloc(arena, s->n_services, sizeof(*s->services));
	assert_non_null(s->services);
	for (size_t i = 0; i < s->n_services; i++) {
		struct ns_service *v = &s->services[i];

		assert_int_equal(ip_addr_parse(draw(3) ? "192.168.150.1" : "fd00:150::1", &v->port.at.addr),
				 0);
		v->port.at.port = (uint16_t)(1000 + i);
		v->port.protocol = draw(4) ? 6 : 17;
		v->balance = (uint8_t)(draw(3) ? NS_ROUNDROBIN : 1 + draw(2));
		make_slots(v, arena);
	}
	netstate_sort(s);
}

static char *print(const struct nft_table *t)
{
	struct buf text = {0};

	nft_table_print(t, &text);
	return buf_take(&text);
}

struct count {
	size_t changes;
	const struct ns_service *service;
};

/* Each record of a difference begins with the port of the one service. */
static void count_change(void *ctx, bool del, const uint8_t *record)
{
	struct count *c = ctx;

	(void)del;
	c->changes++;
	assert_memory_equal(record, c->service->port.at.addr.bytes, ip_addr_size(&c->service->port.at.addr));
}

static void round_trip(const struct nft_features *features)
{
	struct arena *arena = arena_new();
	struct netstate s = {0};
	struct nft_table table, before, anew;
	struct nft_delta delta;
	struct ns_service old;
	struct count count = {0};
	char *got, *wanted;
	size_t index;

	make_services(&s, arena);
	assert_int_equal(nft_table_build(&s, features, true, arena, &table), 0);
	for (int change = 0; change < 4; change++) {
		assert_int_equal(nft_table_copy(&table, arena, &before), 0);
		index = draw((uint32_t)s.n_services);
		old = s.services[index];
		make_slots(&s.services[index], arena);
		assert_int_equal(
			nft_delta_make(&table, &s, &old, &s.services[index], features, arena, &delta), 0);
		assert_int_equal(nft_table_build(&s, features, true, arena, &anew), 0);
		got = print(&table);
		wanted = print(&anew);
		assert_string_equal(got, wanted);
		free(got);
		free(wanted);
		count.service = &old;
		for (size_t i = 0; i < before.n_sets; i++)
			nft_set_diff(&before.sets[i], &table.sets[i], count_change, &count);
		for (size_t i = 0; i < delta.new.n_sets; i++)
			assert_true(delta.new.sets[i].n <= MAX_BACKENDS &&delta.old.sets[i].n <=
				    MAX_BACKENDS);
	}
	arena_free(arena);
}

static void equals_building_anew(void **state)
{
	const char *seed = getenv("VGW_SEED");

	(void)state;
	random_state = seed ? (uint32_t)strtoul(seed, NULL, 10) : 20261130u;
	print_message("# VGW_SEED=%u\n", random_state);
	for (int i = 0; i < ROUNDS; i++) {
		struct nft_features features = {
			.owner_persist = draw(2), .secpath = draw(2), .retry = draw(2), .log = draw(2)};

		round_trip(&features);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_building_anew),
	};

	return cmocka_run_group_tests_name("nft delta", tests, NULL, NULL);
}
