/* SPDX-License-Identifier: Apache-2.0 */
/* What pki_make() leaves behind, read again and verified. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <mbedtls/oid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "vgw/control/pem_file.h"
#include "vgw/control/pki.h"
#include "vgw/control/tls.h"
#include "vgw/control/tls_compat.h"

static char dir[64];

static void load(const char *stem, mbedtls_x509_crt *out)
{
	struct buf pem = {0};
	struct vgw_err err = {0};
	char path[100];

	snprintf(path, sizeof(path), "%s/%s.crt", dir, stem);
	assert_int_equal(pem_file_read(path, &pem, &err), 0);
	mbedtls_x509_crt_init(out);
	assert_int_equal(mbedtls_x509_crt_parse(out, (const unsigned char *)pem.data, pem.len + 1), 0);
	buf_free(&pem);
}

static void make(const char *name, const char *const *addresses, size_t n)
{
	struct vgw_err err = {0};

	if (pki_make(dir, name, addresses, n, &err))
		fail_msg("%s: %s", err.reason, err.text);
}

static uint32_t verify(mbedtls_x509_crt *leaf, mbedtls_x509_crt *ca, const char *name)
{
	uint32_t flags = 0;

	mbedtls_x509_crt_verify(leaf, ca, NULL, name, &flags, NULL, NULL);
	return flags;
}

static bool has_address(const mbedtls_x509_crt *crt, const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_addr_parse(text, &a), 0);
	return tls_compat_san_has_addr(crt, &a);
}

static void certificates(void **state)
{
	static const char *const addresses[] = {"192.168.150.1", "2001:db8::1"};
	mbedtls_x509_crt ca, server, client;
	time_t now = time(NULL);

	(void)state;
	make("vgw.example.org", addresses, 2);
	load("ca", &ca);
	load("server", &server);
	load("client", &client);
	assert_int_equal(verify(&server, &ca, "vgw.example.org"), 0);
	assert_int_equal(verify(&server, &ca, "other.example.org"), MBEDTLS_X509_BADCERT_CN_MISMATCH);
	assert_int_equal(verify(&client, &ca, "controller"), 0);
	assert_true(tls_compat_is_ca(&ca));
	assert_false(tls_compat_is_ca(&server));
	assert_true(has_address(&server, "192.168.150.1"));
	assert_true(has_address(&server, "2001:db8::1"));
	assert_false(has_address(&server, "192.168.150.2"));
	assert_int_equal(mbedtls_x509_crt_check_extended_key_usage(&server, MBEDTLS_OID_SERVER_AUTH,
								   MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)),
			 0);
	assert_int_not_equal(
		mbedtls_x509_crt_check_extended_key_usage(&client, MBEDTLS_OID_SERVER_AUTH,
							  MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)),
		0);
	assert_int_equal(server.serial.len, 16);
	assert_true(server.serial.p[0] < 0x80);
	assert_memory_not_equal(server.serial.p, client.serial.p, 16);
	assert_true(tls_compat_time(&server.valid_from) <= now - 3600 + 60);
	assert_true(tls_compat_time(&server.valid_to) > now + 824 * 86400L);
	assert_true(tls_compat_time(&server.valid_to) <= now + 825 * 86400L + 60);
	assert_true(tls_compat_time(&ca.valid_to) > now + 3650 * 86400L);
	mbedtls_x509_crt_free(&ca);
	mbedtls_x509_crt_free(&server);
	mbedtls_x509_crt_free(&client);
}

static void modes_and_leftovers(void **state)
{
	static const char *const keys[] = {"ca.key", "server.key", "client.key",
					   "ca.crt", "server.crt", "client.crt"};
	struct stat st;
	char path[100];
	size_t i;

	(void)state;
	make(NULL, NULL, 0);
	for (i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, keys[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, i < 3 ? 0600 : 0644);
		strcat(path, ".new");
		assert_int_not_equal(access(path, F_OK), 0);
	}
}

static void second_run_keeps_the_authority(void **state)
{
	static const char *const address = "10.0.0.1";
	mbedtls_x509_crt ca, again, server;

	(void)state;
	make(NULL, NULL, 0);
	load("ca", &ca);
	make(NULL, &address, 1);
	load("ca", &again);
	load("server", &server);
	assert_int_equal(ca.raw.len, again.raw.len);
	assert_memory_equal(ca.raw.p, again.raw.p, ca.raw.len);
	assert_int_equal(verify(&server, &ca, NULL), 0);
	assert_true(has_address(&server, address));
	assert_int_equal(verify(&server, &ca, "vgw-agent"), MBEDTLS_X509_BADCERT_CN_MISMATCH);
	mbedtls_x509_crt_free(&ca);
	mbedtls_x509_crt_free(&again);
	mbedtls_x509_crt_free(&server);
}

static void refusals(void **state)
{
	static const struct {
		const char *name, *address;
	} cases[] = {
		{"a,CN=b", NULL},      {"", NULL},	     {"a b", NULL}, {NULL, "10.0.0"},
		{NULL, "example.org"}, {NULL, "10.0.0.1/8"},
	};
	struct vgw_err err;
	char path[100];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		memset(&err, 0, sizeof(err));
		assert_int_equal(
			pki_make(dir, cases[i].name, &cases[i].address, cases[i].address ? 1 : 0, &err),
			-EINVAL);
		assert_string_equal(err.reason, "InvalidArgument");
	}
	assert_true(pki_make("/proc/nowhere", NULL, NULL, 0, &err) < 0);
	make(NULL, NULL, 0);
	snprintf(path, sizeof(path), "%s/ca.key", dir);
	assert_int_equal(unlink(path), 0); /* the CA is out there: never replaced behind its users' backs */
	assert_int_equal(pki_make(dir, NULL, NULL, 0, &err), -EEXIST);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/vgw-pki-XXXXXX");
	return mkdtemp(dir) && !tls_compat_init() ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command) == 0 ? 0 : -1;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(certificates, set_up, tear_down),
		cmocka_unit_test_setup_teardown(modes_and_leftovers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(second_run_keeps_the_authority, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refusals, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
