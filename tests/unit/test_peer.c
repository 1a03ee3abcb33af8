/* SPDX-License-Identifier: Apache-2.0 */
/* The probe packet, and what two ends of a tunnel find out about each other when packets get lost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants those first */
#include <cmocka.h>

#include "netcfg/model/ip.h"
#include "vgw/model/peer.h"

static struct peer_packet request(uint16_t size)
{
	return (struct peer_packet){.type = PEER_REQUEST,
				    .nonce = 0x1122334455667788,
				    .size = size,
				    .mtu = 1400,
				    .heard_ms = 250};
}

static void test_packet_round_trip(void **state)
{
	uint8_t bytes[200] = {0};
	struct peer_packet in = request(228), out;

	peer_packet_write(&in, bytes);
	assert_int_equal(peer_packet_read(bytes, 200, IP_V4, &out), 0);
	assert_int_equal(out.type, PEER_REQUEST);
	assert_true(out.nonce == in.nonce);
	assert_int_equal(out.size, 228);
	assert_int_equal(out.mtu, 1400);
	assert_int_equal(out.heard_ms, 250);
	assert_false(out.sized_reply);
	/* The same bytes over IPv6 are another size than they say. */
	assert_int_equal(peer_packet_read(bytes, 200, IP_V6, &out), -EINVAL);
	in.size = 248;
	peer_packet_write(&in, bytes);
	assert_int_equal(peer_packet_read(bytes, 200, IP_V6, &out), 0);
}

static void test_packet_refused(void **state)
{
	uint8_t good[100] = {0}, bad[100];
	struct peer_packet in = request(128), out;
	const size_t places[] = {0, 3, 4, 5, 6, 7, 16, 17, 24, 31, 32, 99};

	peer_packet_write(&in, good);
	assert_int_equal(peer_packet_read(good, sizeof(good), IP_V4, &out), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		memcpy(bad, good, sizeof(bad));
		bad[places[i]] ^= 0x40;
		assert_int_equal(peer_packet_read(bad, sizeof(bad), IP_V4, &out), -EINVAL);
	}
	for (size_t len = 0; len < sizeof(good); len++)
		assert_int_equal(peer_packet_read(good, len, IP_V4, &out), -EINVAL);
}

/* No amplifier: small, unless the request was as large and asked for it. */
static void test_replies_are_never_larger(void **state)
{
	struct peer_packet in = request(1400), out;
	uint8_t bytes[1500] = {0};

	assert_int_equal(peer_packet_reply_len(&in, IP_V4), PEER_HEADER);
	in.sized_reply = true;
	assert_int_equal(peer_packet_reply_len(&in, IP_V4), 1372);
	in.type = PEER_REPLY;
	peer_packet_write(&in, bytes);
	assert_int_equal(peer_packet_read(bytes, 1372, IP_V4, &out), 0);
	in.sized_reply = false;
	peer_packet_write(&in, bytes);
	assert_int_equal(peer_packet_read(bytes, 1372, IP_V4, &out), -EINVAL);
	assert_int_equal(peer_packet_read(bytes, PEER_HEADER, IP_V4, &out), 0);
	assert_int_equal(out.size, 1400);
}

/* Two agents, or one and a host that answers echoes, and what lies between them. */
struct pair {
	struct peer a, b;
	int64_t now;
	uint64_t nonce;
	bool a_to_b, b_to_a;  /* what passes */
	bool b_agent, b_echo; /* who is there at B */
	bool b_refuses;	      /* its host says that no agent is there */
	int64_t due_a, due_b;
};

enum { DELAY = 10 };

static void pair_init(struct pair *x)
{
	*x = (struct pair){.now = 1000,
			   .nonce = 1,
			   .a_to_b = true,
			   .b_to_a = true,
			   .b_agent = true,
			   .b_echo = true,
			   .b_refuses = true};
	peer_init(&x->a, x->now);
	peer_init(&x->b, x->now);
	x->due_a = x->due_b = x->now;
}

/* FROM asks TO; the answer, if it comes, is there after two delays. */
static void ask(struct pair *x, struct peer *from, struct peer *to, bool there, bool back)
{
	struct peer_packet p = {.type = PEER_REQUEST, .nonce = x->nonce++, .size = 60, .mtu = 1400};

	p.heard_ms = peer_heard_ago(from, x->now);
	peer_sent(from, PEER_AGENT, p.nonce, x->now * 1000);
	if (!there)
		return;
	assert_true(peer_take(to, &p, false, (x->now + DELAY) * 1000));
	p.type = PEER_REPLY;
	p.mtu = 1400;
	p.heard_ms = peer_heard_ago(to, x->now + DELAY);
	if (back)
		assert_true(peer_take(from, &p, false, (x->now + 2 * DELAY) * 1000));
}

static void step(struct pair *x)
{
	if (x->now >= x->due_a) {
		if (x->b_agent)
			ask(x, &x->a, &x->b, x->a_to_b, x->b_to_a);
		else {
			peer_sent(&x->a, PEER_AGENT, x->nonce++, x->now * 1000);
			if (x->a_to_b && x->b_to_a && x->b_echo && x->b_refuses)
				peer_refused(&x->a, x->now + 2 * DELAY);
		}
		if (peer_wants_echo(&x->a, x->now)) {
			peer_sent(&x->a, PEER_ECHO, x->nonce, x->now * 1000);
			if (x->a_to_b && x->b_to_a && x->b_echo)
				assert_true(
					peer_take_echo(&x->a, x->nonce, false, (x->now + 2 * DELAY) * 1000));
			x->nonce++;
		}
		x->due_a += peer_interval(&x->a);
	}
	if (x->b_agent && x->now >= x->due_b) {
		ask(x, &x->b, &x->a, x->b_to_a, x->a_to_b);
		x->due_b += peer_interval(&x->b);
	}
	x->now += 100;
}

static void run(struct pair *x, int64_t ms)
{
	for (int64_t end = x->now + ms; x->now < end;)
		step(x);
}

static void test_both_ways(void **state)
{
	struct pair x;

	pair_init(&x);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UNKNOWN);
	assert_int_equal(peer_loss_percent(&x.a, x.now), -1);
	run(&x, 200);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UP);
	run(&x, 40000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UP);
	assert_int_equal(peer_verdict(&x.b, x.now), PEER_UP);
	assert_int_equal(peer_loss_percent(&x.a, x.now), 0);
	assert_int_equal((int)x.a.rtt_ms, 2 * DELAY);
	assert_int_equal(x.a.reverse_mtu, 1400);
	assert_false(peer_wants_echo(&x.a, x.now));
}

static void test_one_way(void **state)
{
	struct pair x;

	pair_init(&x);
	run(&x, 5000);
	x.b_to_a = false;
	run(&x, 5000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_ONE_WAY_TX);
	assert_int_equal(peer_outbound(&x.a, x.now), PEER_TRUE);
	assert_int_equal(peer_inbound(&x.a, x.now), PEER_FALSE);
	assert_int_equal(peer_verdict(&x.b, x.now), PEER_ONE_WAY_RX);
	assert_int_equal(peer_outbound(&x.b, x.now), PEER_FALSE);
	assert_int_equal(peer_inbound(&x.b, x.now), PEER_TRUE);
	assert_true(peer_loss_percent(&x.a, x.now) > 20);
	/* What A last heard gets too old to be claimed; B goes on knowing. */
	run(&x, PEER_TRUST_MS);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_DOWN);
	assert_int_equal(peer_outbound(&x.a, x.now), PEER_UNSURE);
	run(&x, 100000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_DOWN);
	assert_int_equal(peer_verdict(&x.b, x.now), PEER_ONE_WAY_RX);
	x.b_to_a = true;
	run(&x, 1500);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UP);
	assert_int_equal(peer_verdict(&x.b, x.now), PEER_UP);
}

/* Heard from the start, and never hearing: the one that hears knows it all by itself. */
static void test_one_way_from_the_start(void **state)
{
	struct pair x;

	pair_init(&x);
	x.a_to_b = false;
	run(&x, 2000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UNKNOWN);
	run(&x, 3000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_ONE_WAY_RX);
	assert_int_equal(peer_verdict(&x.b, x.now), PEER_UNKNOWN);
	assert_int_equal(peer_inbound(&x.b, x.now), PEER_FALSE);
}

static void test_last_word_gets_old(void **state)
{
	struct pair x;

	pair_init(&x);
	run(&x, 5000);
	x.a_to_b = x.b_to_a = x.b_echo = false;
	run(&x, 5000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_ONE_WAY_TX);
	assert_int_equal(peer_verdict(&x.b, x.now), PEER_ONE_WAY_TX);
	run(&x, PEER_TRUST_MS - 5000 + 100);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_DOWN);
	assert_int_equal(peer_verdict(&x.b, x.now), PEER_DOWN);
	assert_int_equal(peer_outbound(&x.a, x.now), PEER_UNSURE);
	run(&x, 60000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_DOWN);
	assert_int_equal(peer_loss_percent(&x.a, x.now), 100);
	x.a_to_b = x.b_to_a = x.b_echo = true;
	run(&x, 1500);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UP);
	assert_int_equal(peer_verdict(&x.b, x.now), PEER_UP);
}

/* An agent that falls silent is no tunnel that does: its host is asked by echo, and answers or not. */
static void test_a_silent_agent(void **state)
{
	struct pair x;

	pair_init(&x);
	run(&x, 5000);
	x.b_agent = x.b_refuses = false;
	run(&x, PEER_SILENCE_MS + 1500);
	for (int i = 0; i < 70; i++) {
		assert_int_equal(peer_verdict(&x.a, x.now), PEER_UP);
		run(&x, 1000);
	}
	x.b_echo = false;
	run(&x, 5000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_DOWN);
}

/* After "not heard" the silence of the other direction is no one-way tunnel any more. */
static void test_both_directions_one_after_the_other(void **state)
{
	struct pair x;

	pair_init(&x);
	run(&x, 5000);
	x.a_to_b = false;
	run(&x, 8000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_ONE_WAY_RX);
	x.b_to_a = false;
	run(&x, 8000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_DOWN);
}

static void test_peer_without_agent(void **state)
{
	struct pair x;

	pair_init(&x);
	x.b_agent = false;
	run(&x, 300);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UP);
	assert_false(peer_has_agent(&x.a, x.now));
	run(&x, 40000);
	assert_int_equal(peer_loss_percent(&x.a, x.now), 0);
	assert_int_equal(x.a.reverse_mtu, 0);
	x.b_echo = false;
	run(&x, 5000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_DOWN);
	/* An agent starts there. */
	x.b_agent = x.b_echo = true;
	x.due_b = x.now;
	run(&x, 1500);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UP);
	assert_true(peer_has_agent(&x.a, x.now));
	/* What nobody was there to answer is not lost. */
	run(&x, 3000);
	assert_int_equal(peer_loss_percent(&x.a, x.now), 0);
	/* It ends: the host says so, and answers by itself. */
	x.b_agent = false;
	run(&x, 6000);
	assert_int_equal(peer_verdict(&x.a, x.now), PEER_UP);
	assert_false(peer_has_agent(&x.a, x.now));
	assert_int_equal(x.a.reverse_mtu, 0);
}

static void test_forged_replies_change_nothing(void **state)
{
	struct peer p;
	struct peer_packet r = {.type = PEER_REPLY, .nonce = 77, .size = 60, .mtu = 600};

	peer_init(&p, 1000);
	assert_false(peer_take(&p, &r, false, 1100000));
	assert_false(peer_take_echo(&p, 77, false, 1100000));
	assert_true(peer_last_heard(&p) < 0);
	assert_int_equal(p.reverse_mtu, 0);
	/* The caller's own, of a larger size. */
	assert_false(peer_take(&p, &r, true, 1100000));
	assert_int_equal(peer_last_heard(&p), 1100);
}

static void test_haste_ends(void **state)
{
	struct peer p;

	peer_init(&p, 0);
	for (int i = 0; i < PEER_HASTE; i++) {
		assert_int_equal(peer_interval(&p), PEER_HASTE_MS);
		peer_sent(&p, PEER_AGENT, (uint64_t)i + 1, i);
	}
	assert_int_equal(peer_interval(&p), PEER_INTERVAL_MS);
}

static void test_budget(void **state)
{
	struct peer_budget b = {0};
	int n = 0;

	for (int64_t ms = 5000; ms < 7000; ms++)
		for (int i = 0; i < 10; i++)
			n += peer_budget_take(&b, ms);
	assert_in_range(n, 2 * PEER_RATE, 2 * PEER_RATE + PEER_BURST);
	assert_true(peer_budget_take(&b, 8000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packet_round_trip),
		cmocka_unit_test(test_packet_refused),
		cmocka_unit_test(test_replies_are_never_larger),
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_one_way),
		cmocka_unit_test(test_one_way_from_the_start),
		cmocka_unit_test(test_last_word_gets_old),
		cmocka_unit_test(test_a_silent_agent),
		cmocka_unit_test(test_both_directions_one_after_the_other),
		cmocka_unit_test(test_peer_without_agent),
		cmocka_unit_test(test_forged_replies_change_nothing),
		cmocka_unit_test(test_haste_ends),
		cmocka_unit_test(test_budget),
	};

	return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
