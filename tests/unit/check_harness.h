/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of checks share: certificates, a loop, and running one check to its end. */
#ifndef TESTS_UNIT_CHECK_HARNESS_H
#define TESTS_UNIT_CHECK_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "tests/unit/check_server.h"
#include "vgw/probe/check.h"

/* Where the time-out is not what is tried, it is far away. */
enum { FAR_MS = 60000 };

/* SubjectAltName values: iPAddress entries (context tag 7), RFC 5280 4.2.1.6. */
static const unsigned char san_gateway[] = {0x30, 12, 0x87, 4, 127, 0, 0, 1, 0x87, 4, 192, 168, 150, 1};
static const unsigned char san_other[] = {0x30, 12, 0x87, 4, 127, 0, 0, 1, 0x87, 4, 192, 168, 150, 2};
/* The gateway address as text in a dNSName (tag 2) does not count. */
static const unsigned char san_as_name[] = {0x30, 15,  0x82, 13,  '1', '9', '2', '.', '1',
					    '6',  '8', '.',  '1', '5', '0', '.', '1'};
static const unsigned char san_v6[] = {0x30, 18, 0x87, 16, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

static struct identity ca, other_ca, good, as_name, wrong_address, no_san, expired, early, hardly_early,
	good_v6;
static struct check_tls *tls;
static struct ev_loop *loop;

static const long DAY = 86400;

static inline int set_up(void **state)
{
#define SAN(x) .addresses = (x), .addresses_len = sizeof(x)
	(void)state;
	tls = check_tls_new(); /* first: it starts PSA where there is one */
	assert_non_null(tls);
	loop = ev_loop_new(EVFLAG_AUTO);
	assert_non_null(loop);

#define MAKE(id, ...) identity_make(&(id), &(struct identity_wish){__VA_ARGS__})
	MAKE(ca, .subject = "CN=ca", .ca = true, .from = -DAY, .until = DAY);
	MAKE(other_ca, .subject = "CN=other ca", .ca = true, .from = -DAY, .until = DAY);
	MAKE(good, .subject = "CN=s", .issuer = &ca, .from = -DAY, .until = DAY, SAN(san_gateway));
	MAKE(as_name, .subject = "CN=s", .issuer = &ca, .from = -DAY, .until = DAY, SAN(san_as_name));
	MAKE(wrong_address, .subject = "CN=s", .issuer = &ca, .from = -DAY, .until = DAY, SAN(san_other));
	MAKE(no_san, .subject = "CN=s", .issuer = &ca, .from = -DAY, .until = DAY);
	MAKE(expired, .subject = "CN=s", .issuer = &ca, .from = -2 * DAY, .until = -DAY, SAN(san_gateway));
	MAKE(early, .subject = "CN=s", .issuer = &ca, .from = 3600, .until = DAY, SAN(san_gateway));
	MAKE(hardly_early, .subject = "CN=s", .issuer = &ca, .from = 240, .until = DAY, SAN(san_gateway));
	MAKE(good_v6, .subject = "CN=s", .issuer = &ca, .from = -DAY, .until = DAY, SAN(san_v6));
	return 0;
}

static inline int tear_down(void **state)
{
	struct identity *all[] = {&ca,	   &other_ca, &good,  &as_name,	     &wrong_address,
				  &no_san, &expired,  &early, &hardly_early, &good_v6};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		identity_free(all[i]);
	check_tls_free(tls);
	ev_loop_destroy(loop);
	return 0;
}

/* -- running checks -- */

static inline void aim(struct check_params *p, const struct spec_check *spec, uint16_t port, bool v6)
{
	memset(p, 0, sizeof(*p));
	p->spec = spec;
	p->tls = tls;
	p->target.port = port;
	assert_int_equal(ip_addr_parse(v6 ? "::1" : "127.0.0.1", &p->target.addr), 0);
	assert_int_equal(ip_addr_parse("192.168.150.1", &p->gateway), 0);
}

struct outcome {
	int calls;
	struct check_result result;
};

static inline void on_done(void *ctx, const struct check_result *result)
{
	struct outcome *o = ctx;

	o->calls++;
	o->result = *result;
}

/* Until nothing is left to do, the connections that are being closed included. */
static inline struct check_result run_check(const struct check_params *p)
{
	struct outcome o = {0};

	assert_non_null(check_start(loop, p, on_done, &o));
	assert_int_equal(o.calls, 0); /* never from check_start */
	ev_run(loop, 0);
	assert_int_equal(o.calls, 1);
	return o.result;
}

struct expectation {
	enum check_stage stage;
	enum check_code code;
	const char *detail; /* contained in it */
};

static inline void assert_result(const char *name, const struct check_result *r,
				 const struct expectation *want)
{
	if (r->stage != want->stage || r->code != want->code || !strstr(r->detail, want->detail))
		fail_msg("%s: %s %s \"%s\", not %s %s \"%s\"", name, check_stage_name(r->stage),
			 check_code_name(r->code), r->detail, check_stage_name(want->stage),
			 check_code_name(want->code), want->detail);
	assert_true(r->latency_ms >= 0);
}

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

#endif
