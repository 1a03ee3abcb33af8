/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and the certificates that servers show. */
#include "tests/unit/check_harness.h"

struct certificate_case {
	const char *name;
	struct identity *identity, *ca; /* ca NULL: none given */
	const char *gateway;
	struct expectation want;
	bool has_gateway_address, verified;
};

#define GW "192.168.150.1"
static const struct certificate_case certificate_cases[] = {
	{"reported without a CA", &good, NULL, GW, {CHECK_STAGE_HTTP, CHECK_OK, ""}, true, false},
	{"nothing decided without a CA", &expired, NULL, GW, {CHECK_STAGE_HTTP, CHECK_OK, ""}, true, false},
	{"no SAN, without a CA", &no_san, NULL, GW, {CHECK_STAGE_HTTP, CHECK_OK, ""}, false, false},
	{"verified", &good, &ca, GW, {CHECK_STAGE_HTTP, CHECK_OK, ""}, true, true},
	{"IPv6 address in the SANs", &good_v6, &ca, "fd00::1", {CHECK_STAGE_HTTP, CHECK_OK, ""}, true, true},
	{"no gateway address to look for", &no_san, &ca, "", {CHECK_STAGE_HTTP, CHECK_OK, ""}, false, true},
	{"a wrong CA",
	 &good,
	 &other_ca,
	 GW,
	 {CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "not trusted"},
	 true,
	 false},
	{"expired", &expired, &ca, GW, {CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "expired "}, true, false},
	{"not yet valid",
	 &early,
	 &ca,
	 GW,
	 {CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "not yet valid until "},
	 true,
	 false},
	{"hardly not yet valid", &hardly_early, &ca, GW, {CHECK_STAGE_HTTP, CHECK_OK, ""}, true, true},
	{"no SAN",
	 &no_san,
	 &ca,
	 GW,
	 {CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "gateway address 192.168.150.1 not in SANs"},
	 false,
	 false},
	{"another address",
	 &wrong_address,
	 &ca,
	 GW,
	 {CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "not in SANs"},
	 false,
	 false},
	{"the address as a name",
	 &as_name,
	 &ca,
	 GW,
	 {CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "not in SANs"},
	 false,
	 false},
	{"everything wrong",
	 &expired,
	 &other_ca,
	 "192.168.150.9",
	 {CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "not trusted by the CA given, expired "},
	 false,
	 false},
};

static void run_certificate_case(const struct certificate_case *c)
{
	struct server s = {.manners = REPLY, .reply = OK_REPLY, .identity = c->identity};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS,
				  .path = "/readyz",
				  .timeout_ms = FAR_MS,
				  .ca = c->ca ? c->ca->pem : ""};
	struct check_params p;
	struct check_result r;

	server_start(&s);
	aim(&p, &spec, s.port, false);
	if (*c->gateway)
		assert_int_equal(ip_addr_parse(c->gateway, &p.gateway), 0);
	else
		p.gateway.family = IP_NONE;
	r = run_check(&p);
	server_stop(&s);
	assert_result(c->name, &r, &c->want);
	assert_true(r.certificate.seen);
	if (r.certificate.has_gateway_address != c->has_gateway_address ||
	    r.certificate.verified != c->verified)
		fail_msg("%s: hasGatewayAddress %d, verified %d", c->name, r.certificate.has_gateway_address,
			 r.certificate.verified);
	/* The server has seen a whole handshake and a proper end, whatever we think of its certificate. */
	assert_int_equal(atomic_load(&s.handshakes), 1);
	assert_int_equal(atomic_load(&s.goodbyes), 1);
}

static void test_certificates(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(certificate_cases) / sizeof(certificate_cases[0]); i++)
		run_certificate_case(&certificate_cases[i]);
}

static void test_not_after(void **state)
{
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS, .ca = ""};
	const mbedtls_x509_time *t = &good.crt.valid_to;
	struct check_params p;
	struct check_result r;
	struct tm tm;
	time_t at;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	r = run_check(&p);
	server_stop(&s);
	at = (time_t)r.certificate.not_after;
	gmtime_r(&at, &tm);
	assert_int_equal(tm.tm_year + 1900, t->year);
	assert_int_equal(tm.tm_mon + 1, t->mon);
	assert_int_equal(tm.tm_mday, t->day);
	assert_int_equal(tm.tm_hour, t->hour);
	assert_int_equal(tm.tm_min, t->min);
	assert_int_equal(tm.tm_sec, t->sec);
}

static void test_unreadable_ca(void **state)
{
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS};
	static const char *const texts[] = {"no PEM",
					    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"};
	struct check_params p;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	for (size_t i = 0; i < 2; i++) {
		struct check_result r;

		spec.ca = texts[i];
		r = run_check(&p);
		assert_result(
			texts[i], &r,
			&(struct expectation){CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "cannot be read"});
	}
	server_stop(&s);
}

/* More CA texts than are kept parsed: the oldest go, and come back. */
static void test_many_cas(void **state)
{
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS};
	static char text[sizeof(ca.pem) + 100];
	struct check_params p;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	for (int i = 0; i < 80; i++) {
		struct check_result r;

		/* The same buffer with other contents, as after a new spec. */
		snprintf(text, sizeof(text), "# %d\n%s", i % 40, i % 3 ? ca.pem : other_ca.pem);
		spec.ca = text;
		r = run_check(&p);
		assert_int_equal(r.code, i % 3 ? CHECK_OK : CHECK_CERTIFICATE_INVALID);
	}
	server_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_certificates),
		cmocka_unit_test(test_not_after),
		cmocka_unit_test(test_unreadable_ca),
		cmocka_unit_test(test_many_cas),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
