/* SPDX-License-Identifier: Apache-2.0 */
/* From weights to slots: the turns of round-robin, and which clients a change moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "random.h"
#include "vgw/model/slots.h"

enum { MAX_TARGETS = 256 };

static struct slot_target target(uint8_t name, uint32_t weight, bool enabled)
{
	struct slot_target t = {.weight = weight, .enabled = enabled};

	t.at.addr = (struct ip_addr){.family = IP_V4, .bytes = {192, 168, 150, name}};
	t.at.port = 6443;
	return t;
}

static char letter_of(const struct ip_endpoint *e)
{
	return (char)e->addr.bytes[3];
}

/* Targets are "a5 b1 c0 D3": a name and a weight; a capital is not enabled. */
static size_t parse(const char *text, struct slot_target *out)
{
	size_t n = 0;
	char name;
	unsigned weight;
	int used;

	for (; sscanf(text, " %c%u%n", &name, &weight, &used) == 2; text += used)
		out[n++] = target((uint8_t)(name | 0x20), weight, name >= 'a');
	return n;
}

static void turns(void **state)
{
	static const struct {
		const char *targets, *slots;
	} cases[] = {
		{"", ""},
		{"a1", "a"},
		{"a100", "a"},
		{"a1 b1 c1", "abc"},
		{"a7 b7", "ab"},
		{"a2 b1", "aba"},
		{"a1 b2", "bab"},
		{"a5 b1 c1", "aabacaa"}, /* not five in a row */
		{"a100 b50 c50", "abca"},
		{"a4 b6", "babab"},
		{"a0 b1", "b"},
		{"a0 b0", ""},
		{"A1 b1", "b"},
		{"A3 B1", ""},
		{"A3 b2 c4", "cbc"}, /* the divisor is that of those that take flows */
		{"a0 b3 C5 d3", "bd"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint8_t balance = NS_ROUNDROBIN; balance <= NS_RANDOM; balance++) {
			struct slot_target targets[8];
			size_t n = parse(cases[i].targets, targets), n_slots = 99;
			struct arena *arena = arena_new();
			struct ip_endpoint *slots;
			char text[512] = "";

			assert_int_equal(slots_make(targets, n, balance, arena, &slots, &n_slots), 0);
			for (size_t j = 0; j < n_slots; j++)
				text[j] = letter_of(&slots[j]);
			if (strcmp(text, cases[i].slots))
				fail_msg("%s: %s, not %s", cases[i].targets, text, cases[i].slots);
			arena_free(arena);
		}
	}
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
	return b ? gcd(b, a % b) : a;
}

static size_t random_targets(struct random *r, size_t max, struct slot_target *out)
{
	size_t n = 1 + random_below(r, (uint32_t)max);
	uint8_t first = (uint8_t)random_u32(r);

	for (size_t i = 0; i < n; i++)
		out[i] = target((uint8_t)(first + i), random_below(r, 10) ? random_below(r, 101) : 0,
				random_chance(r, 80));
	return n;
}

static bool takes(const struct slot_target *t)
{
	return t->enabled && t->weight;
}

/* Each as often as its weight over the common divisor, and never more than one turn ahead of its share. */
static void turns_are_even(void **state)
{
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 500; round++) {
		struct slot_target t[MAX_TARGETS];
		size_t n = random_targets(&r, round % 10 ? 8 : MAX_TARGETS, t), n_slots;
		uint32_t divisor = 0, total = 0, seen[256] = {0};
		struct arena *arena = arena_new();
		struct ip_endpoint *slots;

		for (size_t i = 0; i < n; i++)
			divisor = takes(&t[i]) ? gcd(divisor, t[i].weight) : divisor;
		for (size_t i = 0; i < n && divisor; i++)
			total += takes(&t[i]) ? t[i].weight / divisor : 0;
		assert_int_equal(slots_make(t, n, NS_ROUNDROBIN, arena, &slots, &n_slots), 0);
		assert_int_equal(n_slots, total);
		for (size_t j = 0; j < n_slots; j++) {
			seen[slots[j].addr.bytes[3]]++;
			for (size_t i = 0; i < n; i++) {
				double share =
					takes(&t[i]) ? (double)t[i].weight / divisor / total * (double)(j + 1)
						     : 0;

				if (seen[t[i].at.addr.bytes[3]] > share + 1)
					fail_msg("round %d: a turn too early at slot %zu", round, j);
			}
		}
		for (size_t i = 0; i < n && divisor; i++)
			assert_int_equal(seen[t[i].at.addr.bytes[3]],
					 takes(&t[i]) ? t[i].weight / divisor : 0);
		arena_free(arena);
	}
}

struct table {
	struct ip_endpoint *slots;
	size_t n;
};

static struct table source(const struct slot_target *t, size_t n, struct arena *arena)
{
	struct table out;

	assert_int_equal(slots_make(t, n, NS_SOURCE, arena, &out.slots, &out.n), 0);
	return out;
}

/* Between two tables of one size only slots from or to CHANGED differ; returns how many. */
static size_t moved_only(const struct table *a, const struct table *b, const struct ip_endpoint *changed)
{
	size_t moved = 0;

	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		if (!ip_endpoint_cmp(&a->slots[i], &b->slots[i]))
			continue;
		moved++;
		if (ip_endpoint_cmp(&a->slots[i], changed) && ip_endpoint_cmp(&b->slots[i], changed))
			fail_msg("slot %zu moved between two targets that did not change", i);
	}
	return moved;
}

static void change_one(struct random *r, const struct slot_target *t, size_t n)
{
	struct arena *arena = arena_new();
	size_t which = random_below(r, (uint32_t)n);
	struct slot_target other[MAX_TARGETS];
	struct table before = source(t, n, arena), after;

	memcpy(other, t, n * sizeof(*t));
	other[which].enabled = !other[which].enabled;
	after = source(other, n, arena);
	if (before.n && after.n)
		moved_only(&before, &after, &t[which].at);
	other[which] = t[which];
	other[which].weight = random_below(r, 101);
	after = source(other, n, arena);
	if (before.n && after.n)
		moved_only(&before, &after, &t[which].at);
	/* The order of the targets is nothing. */
	other[which] = t[0];
	other[0] = t[which];
	after = source(other, n, arena);
	assert_int_equal(before.n, after.n);
	for (size_t i = 0; i < before.n; i++)
		assert_int_equal(ip_endpoint_cmp(&before.slots[i], &after.slots[i]), 0);
	arena_free(arena);
}

static void source_moves_its_own(void **state)
{
	struct random r = random_start();
	struct slot_target t[MAX_TARGETS];

	(void)state;
	for (int round = 0; round < 300; round++)
		change_one(&r, t, random_targets(&r, round % 20 ? 12 : 70, t));
}

/* A target that the spec takes out, while the number of slots stays. */
static void source_taken_out(void **state)
{
	struct random r = random_start();

	(void)state;
	for (size_t n = 3; n <= 16; n++) {
		struct arena *arena = arena_new();
		struct slot_target t[16];
		struct table before, after;
		size_t last = n - 1, own = 0;

		for (size_t i = 0; i < n; i++)
			t[i] = target((uint8_t)(10 + i), 1 + random_below(&r, 100), true);
		before = source(t, n, arena);
		after = source(t, last, arena);
		for (size_t i = 0; i < before.n; i++)
			own += !ip_endpoint_cmp(&before.slots[i], &t[last].at);
		assert_int_equal(moved_only(&before, &after, &t[last].at), own);
		arena_free(arena);
	}
}

static void source_size(void **state)
{
	static const size_t counts[] = {2, 3, 16, 17, 64, 65, 256};

	(void)state;
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		struct slot_target t[MAX_TARGETS];
		struct arena *arena = arena_new();
		size_t n = counts[c], size;

		for (size_t i = 0; i < n; i++)
			t[i] = target((uint8_t)i, 1, true);
		size = source(t, n, arena).n;
		/* Whatever their number: one backend more moves only what it gets. */
		assert_int_equal(size, SLOTS_SOURCE);
		for (size_t i = 0; i + 1 < n; i += 3 + n / 8) {
			t[i].enabled = false;
			t[i + 1].weight = 0;
			assert_int_equal(source(t, n, arena).n, n > 2 ? size : 0);
		}
		for (size_t i = 0; i < n; i++)
			t[i].enabled = false;
		assert_int_equal(source(t, n, arena).n, 0);
		arena_free(arena);
	}
}

/* Over many sets the slots are as the weights. */
static void source_shares(void **state)
{
	static const uint32_t weights[] = {1, 1, 2, 4, 8};
	double count[5] = {0}, total = 0;
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct arena *arena = arena_new();
		struct slot_target t[5];
		struct table out;

		for (size_t i = 0; i < 5; i++) {
			t[i] = target((uint8_t)(20 + i), weights[i], true);
			t[i].at.addr.bytes[2] = (uint8_t)random_u32(&r);
			t[i].at.port = (uint16_t)random_u32(&r);
		}
		out = source(t, 5, arena);
		for (size_t j = 0; j < out.n; j++)
			for (size_t i = 0; i < 5; i++)
				count[i] += !ip_endpoint_cmp(&out.slots[j], &t[i].at);
		total += (double)out.n;
		arena_free(arena);
	}
	for (size_t i = 0; i < 5; i++) {
		double p = weights[i] / 16.0, expected = total * p;

		if (fabs(count[i] - expected) > 5 * sqrt(expected * (1 - p)))
			fail_msg("weight %u has %.0f slots of %.0f, not %.0f", weights[i], count[i], total,
				 expected);
	}
}

/* The same targets have the same slots on every gateway and after every restart: a changed hash shows. */
static void source_stays(void **state)
{
	struct slot_target t[3] = {target('a', 1, true), target('b', 1, true), target('c', 1, true)};
	struct arena *arena = arena_new();
	struct table out = source(t, 3, arena);
	char text[33] = "";

	(void)state;
	for (size_t i = 0; i < 32; i++)
		text[i] = letter_of(&out.slots[i]);
	assert_string_equal(text, "aacbbacbbbacccbbccbccbbacbcacccc");
	arena_free(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns),
		cmocka_unit_test(turns_are_even),
		cmocka_unit_test(source_moves_its_own),
		cmocka_unit_test(source_taken_out),
		cmocka_unit_test(source_size),
		cmocka_unit_test(source_shares),
		cmocka_unit_test(source_stays),
	};

	return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
