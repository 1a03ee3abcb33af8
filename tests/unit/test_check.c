/* SPDX-License-Identifier: Apache-2.0 */
/* Checks against real servers on loopback: every stage and code of the contract's table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "tests/unit/check_server.h"
#include "vgw/probe/check.h"

/* Where the time-out is not what is tried, it is far away. */
enum {
	FAR_MS = 60000
};

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

static int set_up(void **state)
{
#define SAN(x) .addresses = (x), .addresses_len = sizeof(x)
	(void)state;
	tls = check_tls_new(); /* first: it starts PSA where there is one */
	assert_non_null(tls);
	loop = ev_loop_new(EVFLAG_AUTO);
	assert_non_null(loop);
	mbedtls_entropy_init(&test_entropy);
	mbedtls_ctr_drbg_init(&test_random);
	assert_int_equal(mbedtls_ctr_drbg_seed(&test_random, mbedtls_entropy_func, &test_entropy, NULL, 0),
			 0);

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

static int tear_down(void **state)
{
	struct identity *all[] = {&ca,	   &other_ca, &good,  &as_name,	     &wrong_address,
				  &no_san, &expired,  &early, &hardly_early, &good_v6};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		identity_free(all[i]);
	mbedtls_ctr_drbg_free(&test_random);
	mbedtls_entropy_free(&test_entropy);
	check_tls_free(tls);
	ev_loop_destroy(loop);
	return 0;
}

/* -- running checks -- */

static void aim(struct check_params *p, const struct spec_check *spec, uint16_t port, bool v6)
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

static void on_done(void *ctx, const struct check_result *result)
{
	struct outcome *o = ctx;

	o->calls++;
	o->result = *result;
}

/* Until nothing is left to do, the connections that are being closed included. */
static struct check_result run_check(const struct check_params *p)
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

static void assert_result(const char *name, const struct check_result *r, const struct expectation *want)
{
	if (r->stage != want->stage || r->code != want->code || !strstr(r->detail, want->detail))
		fail_msg("%s: %s %s \"%s\", not %s %s \"%s\"", name, check_stage_name(r->stage),
			 check_code_name(r->code), r->detail, check_stage_name(want->stage),
			 check_code_name(want->code), want->detail);
	assert_true(r->latency_ms >= 0);
}

/* -- what servers answer -- */

struct answer {
	const char *name;
	enum spec_check_type type;
	enum manners manners;
	const char *reply;
	const char *expect; /* a status besides; "" the default */
	int client_auth;
	struct expectation want;
	bool goodbye; /* the server must have seen a proper end */
};

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static const struct answer answers[] = {
	{"https 200", SPEC_CHECK_HTTPS, REPLY, OK_REPLY, "", 0, {CHECK_STAGE_HTTP, CHECK_OK, "200"}, true},
	{"https 200, kept alive against our wish",
	 SPEC_CHECK_HTTPS,
	 REPLY_KEEP,
	 OK_REPLY,
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"body until the end",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.0 200 OK\r\n\r\nok",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"chunks",
	 SPEC_CHECK_HTTPS,
	 REPLY_KEEP,
	 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"no body at all",
	 SPEC_CHECK_HTTPS,
	 REPLY_KEEP,
	 "HTTP/1.1 204 No Content\r\n\r\n",
	 "204",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "204"},
	 true},
	{"interim responses first",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" OK_REPLY,
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"a client certificate asked for, not insisted on",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 OK_REPLY,
	 "",
	 MBEDTLS_SSL_VERIFY_OPTIONAL,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"a client certificate insisted on",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 OK_REPLY,
	 "",
	 MBEDTLS_SSL_VERIFY_REQUIRED,
	 {CHECK_STAGE_TLS, CHECK_TLS_FAILED, ""},
	 false},
	{"an endless body",
	 SPEC_CHECK_HTTPS,
	 REPLY_FOR_EVER,
	 "HTTP/1.1 200 OK\r\n\r\nok",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 false},
	{"500",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_HTTP_STATUS, "500"},
	 true},
	{"200 is not what is expected",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 OK_REPLY,
	 "204",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_HTTP_STATUS, "200"},
	 true},
	{"302",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_HTTP_STATUS, "302"},
	 true},
	{"101",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_HTTP_STATUS, "101"},
	 true},
	{"401",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_AUTH_REQUIRED, "401"},
	 true},
	{"403",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_AUTH_REQUIRED, "403"},
	 true},
	{"401 listed",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n",
	 "401",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "401"},
	 true},
	{"403 while only 401 is listed",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
	 "401",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_AUTH_REQUIRED, "403"},
	 true},
	{"garbage",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "SSH-2.0-OpenSSH_9.2\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "not HTTP"},
	 true},
	{"HTTP/2",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/2.0 200 OK\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "HTTP/2.0"},
	 true},
	{"no answer but the end",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "without an answer"},
	 true},
	{"an end inside the header",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 200 OK\r\nServer: x",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "inside the header"},
	 true},
	{"a reset instead of an answer",
	 SPEC_CHECK_HTTPS,
	 REPLY_AND_RESET,
	 "",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "reset"},
	 false},
	{"an endless header",
	 SPEC_CHECK_HTTPS,
	 REPLY_FOR_EVER,
	 "HTTP/1.1 200 OK\r\nx: ",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, ""},
	 false},
	{"tls", SPEC_CHECK_TLS, HANDSHAKE_ONLY, NULL, "", 0, {CHECK_STAGE_TLS, CHECK_OK, "TLSv1."}, true},
	{"tcp",
	 SPEC_CHECK_TCP,
	 CLOSE_AT_ONCE,
	 NULL,
	 "",
	 0,
	 {CHECK_STAGE_CONNECT, CHECK_OK, "connected"},
	 true},
	{"tcp, a server that speaks first",
	 SPEC_CHECK_TCP,
	 REPLY_PLAIN,
	 "220 hello\r\n",
	 "",
	 0,
	 {CHECK_STAGE_CONNECT, CHECK_OK, "connected"},
	 true},
	{"plain HTTP where TLS is wanted",
	 SPEC_CHECK_HTTPS,
	 REPLY_PLAIN,
	 "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_TLS, CHECK_TLS_FAILED, "SSL - "},
	 false},
	{"an end inside the handshake",
	 SPEC_CHECK_TLS,
	 CLOSE_AT_ONCE,
	 NULL,
	 "",
	 0,
	 {CHECK_STAGE_TLS, CHECK_TLS_FAILED, "closed during the handshake"},
	 false},
	{"a reset inside the handshake",
	 SPEC_CHECK_TLS,
	 RESET_AT_ONCE,
	 NULL,
	 "",
	 0,
	 {CHECK_STAGE_TLS, CHECK_TLS_FAILED, "reset"},
	 false},
};

static void run_answer(const struct answer *a)
{
	struct server s = {
		.manners = a->manners, .reply = a->reply, .identity = &good, .client_auth = a->client_auth};
	int expect = atoi(a->expect);
	struct spec_check spec = {.type = a->type,
				  .path = "/readyz",
				  .expect = &expect,
				  .n_expect = *a->expect ? 1 : 0,
				  .timeout_ms = FAR_MS,
				  .ca = ""};
	struct check_params p;
	struct check_result r;

	server_start(&s);
	aim(&p, &spec, s.port, false);
	r = run_check(&p);
	server_stop(&s);
	assert_result(a->name, &r, &a->want);
	if (a->goodbye && atomic_load(&s.goodbyes) != 1)
		fail_msg("%s: the server saw no proper end", a->name);
}

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		run_answer(&answers[i]);
}

static void test_request(void **state)
{
	struct server s = {.manners = REPLY, .reply = OK_REPLY, .identity = &good, .v6 = true};
	struct spec_check spec = {
		.type = SPEC_CHECK_HTTPS, .path = "/livez?a b\r\nX: y", .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;
	char want[300];

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, true);
	r = run_check(&p);
	server_stop(&s);
	assert_result("IPv6", &r, &(struct expectation){CHECK_STAGE_HTTP, CHECK_OK, "200"});
	snprintf(want, sizeof(want),
		 "GET /livez?a%%20b%%0D%%0AX:%%20y HTTP/1.1\r\nHost: [::1]:%u\r\nUser-Agent: "
		 "vgw-agent/" VGW_VERSION "\r\nAccept: */*\r\nConnection: close\r\n\r\n",
		 s.port);
	assert_string_equal(s.request, want);
}

/* -- certificates -- */

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

/* -- no connection, no answer -- */

static void test_refused(void **state)
{
	struct server s = {.manners = NEVER_ACCEPT};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;

	(void)state;
	server_listen(&s);
	close(s.fd); /* nobody listens on the port now */
	for (int type = SPEC_CHECK_TCP; type <= SPEC_CHECK_HTTPS; type++) {
		struct check_result r;

		spec.type = (enum spec_check_type)type;
		aim(&p, &spec, s.port, false);
		r = run_check(&p);
		assert_result("closed port", &r,
			      &(struct expectation){CHECK_STAGE_CONNECT, CHECK_REFUSED, "refused"});
		assert_false(r.certificate.seen);
	}
}

static void test_no_route(void **state)
{
	struct spec_check spec = {.type = SPEC_CHECK_TCP, .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	/* TCP to a broadcast or multicast address: the kernel answers as for a network without a route,
	 * whatever routes this host has. */
	aim(&p, &spec, 9, false);
	assert_int_equal(ip_addr_parse("255.255.255.255", &p.target.addr), 0);
	r = run_check(&p);
	assert_result("broadcast", &r,
		      &(struct expectation){CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, "unreachable"});
	assert_int_equal(ip_addr_parse("ff01::1", &p.target.addr), 0);
	r = run_check(&p);
	assert_result("multicast", &r, &(struct expectation){CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, ""});
}

static void test_source(void **state)
{
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	assert_int_equal(ip_addr_parse("127.1.2.3", &p.source), 0);
	r = run_check(&p);
	assert_result("source", &r, &(struct expectation){CHECK_STAGE_TLS, CHECK_OK, ""});
	assert_int_equal(ip_addr_parse("192.0.2.77", &p.source), 0);
	r = run_check(&p);
	if (r.code == CHECK_OK || r.code == CHECK_TIMEOUT)
		print_message("# SKIP a foreign source address: ip_nonlocal_bind is on\n");
	else
		assert_result("foreign source", &r,
			      &(struct expectation){CHECK_STAGE_ROUTE, CHECK_NO_ROUTE,
						    "source address 192.0.2.77"});
	server_stop(&s);
}

static void test_timeouts(void **state)
{
	struct server silent = {.manners = NEVER_ACCEPT};
	struct server mute = {.manners = REPLY_KEEP, .reply = "", .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = 100, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	server_start(&silent);
	aim(&p, &spec, silent.port, false);
	r = run_check(&p);
	assert_result("accepts and hangs", &r,
		      &(struct expectation){CHECK_STAGE_TLS, CHECK_TIMEOUT, "100 ms"});
	server_stop(&silent);

	server_start(&mute);
	spec.timeout_ms = 3000; /* enough for a handshake even on a busy machine */
	aim(&p, &spec, mute.port, false);
	r = run_check(&p);
	server_stop(&mute);
	assert_result("reads and hangs", &r,
		      &(struct expectation){CHECK_STAGE_HTTP, CHECK_TIMEOUT, "3000 ms"});
	assert_int_equal(atomic_load(&mute.goodbyes), 1);
}

/* A full accept queue: the kernel drops further SYNs, as a silent host does. */
static void test_timeout_at_connect(void **state)
{
	struct server s = {.manners = NEVER_ACCEPT};
	struct spec_check spec = {.type = SPEC_CHECK_TCP, .timeout_ms = 200, .ca = ""};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct check_params p;
	struct check_result r;
	int fds[8];

	(void)state;
	server_listen(&s);
	assert_int_equal(listen(s.fd, 0), 0);
	in.sin_port = htons(s.port);
	for (int i = 0; i < 8; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		connect(fds[i], (struct sockaddr *)&in, sizeof(in));
	}
	aim(&p, &spec, s.port, false);
	r = run_check(&p);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
	close(s.fd);
	assert_result("silent", &r, &(struct expectation){CHECK_STAGE_CONNECT, CHECK_TIMEOUT, ""});
}

static void test_handshake_alert(void **state)
{
	static const int psk_only[] = {MBEDTLS_TLS_PSK_WITH_AES_128_GCM_SHA256, 0};
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good, .ciphersuites = psk_only};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	r = run_check(&p);
	server_stop(&s);
	assert_result("nothing in common", &r,
		      &(struct expectation){CHECK_STAGE_TLS, CHECK_TLS_FAILED, "alert handshake_failure"});
}

static void test_none(void **state)
{
	struct spec_check spec = {.type = SPEC_CHECK_NONE, .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	aim(&p, &spec, 9, false);
	p.tls = NULL;
	r = run_check(&p);
	assert_result("none", &r, &(struct expectation){CHECK_STAGE_NONE, CHECK_OK, ""});
	assert_string_equal(r.detail, "");
}

/* -- life and death -- */

/* Cancelled after any number of turns of the loop: nothing is called any more, nothing leaks. */
static void test_cancel(void **state)
{
	struct server s = {.manners = REPLY, .reply = OK_REPLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	bool over = false;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	for (int turns = 0; !over; turns++) {
		struct outcome o = {0};
		struct check *c = check_start(loop, &p, on_done, &o);

		assert_non_null(c);
		for (int i = 0; i < turns && !o.calls; i++)
			ev_run(loop, EVRUN_ONCE);
		over = o.calls;
		if (!over)
			check_cancel(c);
		ev_run(loop, 0); /* returns: no watcher is left behind */
		assert_int_equal(o.calls, over);
	}
	check_cancel(NULL);
	server_stop(&s);
}

/* The process goes while connections are still being closed. */
static void test_hang_up(void **state)
{
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS, .ca = ""};
	struct outcome o = {0};
	struct check_params p;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	p.tls = check_tls_new();
	assert_non_null(check_start(loop, &p, on_done, &o));
	while (!o.calls)
		ev_run(loop, EVRUN_ONCE);
	check_tls_free(p.tls);
	ev_run(loop, 0);
	server_stop(&s);
}

struct chain {
	struct check_params *params;
	int left, good;
};

static void on_chain(void *ctx, const struct check_result *result)
{
	struct chain *c = ctx;

	c->good += result->code == CHECK_OK;
	if (--c->left)
		assert_non_null(check_start(loop, c->params, on_chain, c));
}

/* The next check is started from the callback of the last. */
static void test_restart_from_callback(void **state)
{
	struct server s = {.manners = REPLY, .reply = OK_REPLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct chain c = {.params = &p, .left = 10};

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	assert_non_null(check_start(loop, &p, on_chain, &c));
	ev_run(loop, 0);
	server_stop(&s);
	assert_int_equal(c.left, 0);
	assert_int_equal(c.good, 10);
}

static void on_tally(void *ctx, const struct check_result *result)
{
	int *tally = ctx;

	tally[result->code]++;
}

static void test_many_at_once(void **state)
{
	enum {
		MANY = 200
	};
	struct server quick = {.manners = REPLY, .reply = OK_REPLY, .identity = &good};
	struct server slow = {.manners = NEVER_ACCEPT};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = FAR_MS, .ca = ""};
	int tally[CHECK_MALFORMED + 1] = {0};
	struct outcome late = {0};
	struct check_params p;
	struct check *c;

	(void)state;
	server_start(&quick);
	server_start(&slow);
	aim(&p, &spec, slow.port, false);
	c = check_start(loop, &p, on_done, &late);
	assert_non_null(c);
	aim(&p, &spec, quick.port, false);
	for (int i = 0; i < MANY - 1; i++)
		assert_non_null(check_start(loop, &p, on_tally, tally));
	while (tally[CHECK_OK] < MANY - 1) {
		ev_run(loop, EVRUN_ONCE);
		for (int code = CHECK_OK + 1; code <= CHECK_MALFORMED; code++)
			assert_int_equal(tally[code], 0);
		assert_int_equal(late.calls, 0);
	}
	check_cancel(c);
	ev_run(loop, 0);
	assert_int_equal(late.calls, 0);
	server_stop(&quick);
	server_stop(&slow);
}

/* Out of descriptors: the caller is told at once, and nothing is called later. */
static void test_out_of_descriptors(void **state)
{
	struct spec_check spec = {.type = SPEC_CHECK_TCP, .timeout_ms = FAR_MS, .ca = ""};
	struct outcome o = {0};
	struct check_params p;
	static int fds[1 << 16];
	int n = 0;

	(void)state;
	aim(&p, &spec, 9, false);
	while (n < (int)(sizeof(fds) / sizeof(fds[0])) && (fds[n] = dup(2)) >= 0)
		n++;
	if (n == sizeof(fds) / sizeof(fds[0]))
		print_message("# SKIP out of descriptors: the limit is too high\n");
	else
		assert_null(check_start(loop, &p, on_done, &o));
	while (n)
		close(fds[--n]);
	ev_run(loop, 0);
	assert_int_equal(o.calls, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_certificates),
		cmocka_unit_test(test_not_after),
		cmocka_unit_test(test_unreadable_ca),
		cmocka_unit_test(test_many_cas),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_route),
		cmocka_unit_test(test_source),
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_timeout_at_connect),
		cmocka_unit_test(test_handshake_alert),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_hang_up),
		cmocka_unit_test(test_restart_from_callback),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_out_of_descriptors),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
