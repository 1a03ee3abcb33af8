/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel's certificates while it runs: files that change, uploads on probation, other
 * authorities. */
#include "tests/unit/control_fixture.h"

static void certificate_files_change(void **state)
{
	struct control_config config = fx_config();
	struct client_target t;
	struct vgw_err err = {0};
	struct buf log = {0};
	double until = fx_now() + PATIENCE;
	char text[100], name[40];
	int rc;

	(void)state;
	fx_start(&config);
	snprintf(name, sizeof(name), "localhost:%u", fx.port);
	t = fx_remote();
	t.connect = name;
	assert_true(fx_ask(&t, "GET", "/a", NULL, NULL, 0) < 0);
	fx_pki(fx.dir, "localhost", "127.0.0.1");
	while ((rc = fx_ask(&t, "GET", "/a", NULL, NULL, 0)) < 0 && fx_now() < until)
		fx_pause();
	assert_int_equal(rc, 200);
	/* A bad one changes nothing. */
	snprintf(text, sizeof(text), "%s/server.crt", fx.dir);
	assert_int_equal(pem_file_write(text, "nonsense", 8, 0644, &err), 0);
	do {
		fx_pause();
		buf_consume(&log, log.len);
		assert_int_equal(pem_file_read(fx.log, &log, &err), 0);
	} while (!strstr(buf_str(&log), "keeping the old certificate") && fx_now() < until);
	assert_non_null(strstr(buf_str(&log), "keeping the old certificate"));
	assert_int_equal(fx_ask(&t, "GET", "/a", NULL, NULL, 0), 200);
	buf_free(&log);
	fx_pki(fx.dir, NULL, "127.0.0.1");
	fx_stop();
}

/* Certificate and key of DIR's NAME in one text. */
static void read_both(const char *dir, const char *name, struct buf *out)
{
	struct vgw_err err = {0};
	char path[120];

	snprintf(path, sizeof(path), "%s/%s.crt", dir, name);
	assert_int_equal(pem_file_read(path, out, &err), 0);
	snprintf(path, sizeof(path), "%s/%s.key", dir, name);
	assert_int_equal(pem_file_read(path, out, &err), 0);
}

static void certificates_on_probation(void **state)
{
	struct control_config config = fx_config();
	struct client_target local = fx_local(), remote = fx_remote();
	struct buf before = {0}, bad = {0}, good = {0}, after = {0};
	char text[300], staging[120];

	(void)state;
	snprintf(staging, sizeof(staging), "%s/staging", fx.dir);
	fx_pki(staging, NULL, "127.0.0.1");
	read_both(staging, "server", &good);
	read_both(staging, "client", &bad); /* has no name of the server's */
	read_both(fx.dir, "server", &before);
	fx_start(&config);
	assert_int_equal(fx_ask(&local, "PUT", "/stage", bad.data, text, sizeof(text)), 422);
	assert_non_null(strstr(text, "InvalidCertificate"));
	assert_int_equal(fx_ask(&local, "PUT", "/stage", "nonsense", text, sizeof(text)), 422);
	/* Nobody who trusts it comes by: the site's clients do not know its CA. */
	assert_int_equal(fx_ask(&local, "PUT", "/stage?confirm=0.3", good.data, NULL, 0), 200);
	assert_true(fx_ask(&remote, "GET", "/a", NULL, NULL, 0) < 0);
	fx_await("kept=0 back=1");
	assert_int_equal(fx_ask(&remote, "GET", "/a", NULL, NULL, 0), 200);
	read_both(fx.dir, "server", &after);
	assert_string_equal(after.data, before.data);
	/* Another of the same CA proves itself. */
	fx_pki(fx.dir, NULL, "127.0.0.1");
	buf_consume(&good, good.len);
	read_both(fx.dir, "server", &good);
	assert_int_equal(fx_ask(&local, "PUT", "/stage?confirm=60", good.data, NULL, 0), 200);
	assert_int_equal(fx_ask(&remote, "GET", "/a", NULL, NULL, 0), 200);
	fx_await("kept=1 back=1");
	buf_consume(&after, after.len);
	read_both(fx.dir, "server", &after);
	assert_string_equal(after.data, good.data);
	buf_free(&before);
	buf_free(&after);
	buf_free(&bad);
	buf_wipe(&good);
	fx_stop();
}

static void client_authorities_replaced(void **state)
{
	struct control_config config = fx_config();
	struct client_target local = fx_local(), remote = fx_remote(), stranger = fx_remote();
	struct vgw_err err = {0};
	struct buf old = {0}, both = {0};
	char crt[100], key[100], ca[100], copy[100];
	const char *cas[1] = {copy};

	(void)state;
	snprintf(crt, sizeof(crt), "%s/client.crt", fx.other_dir);
	snprintf(key, sizeof(key), "%s/client.key", fx.other_dir);
	snprintf(ca, sizeof(ca), "%s/ca.crt", fx.other_dir);
	snprintf(copy, sizeof(copy), "%s/client-ca.crt", fx.dir);
	assert_int_equal(pem_file_read(fx.ca, &old, &err), 0);
	assert_int_equal(pem_file_write(copy, old.data, old.len, 0644, &err), 0);
	buf_append(&both, old.data, old.len);
	assert_int_equal(pem_file_read(ca, &both, &err), 0);
	config.client_ca = cas;
	fx_start(&config);
	stranger.certificate = crt;
	stranger.key = key;
	assert_true(fx_ask(&stranger, "GET", "/a", NULL, NULL, 0) < 0);
	assert_int_equal(fx_ask(&local, "PUT", "/client-ca", "nonsense", NULL, 0), 422);
	assert_int_equal(fx_ask(&local, "PUT", "/client-ca", both.data, NULL, 0), 200);
	assert_int_equal(fx_ask(&stranger, "GET", "/a", NULL, NULL, 0), 200);
	assert_int_equal(fx_ask(&remote, "GET", "/a", NULL, NULL, 0), 200);
	assert_int_equal(fx_ask(&local, "PUT", "/client-ca", both.data + old.len, NULL, 0), 200);
	assert_int_equal(fx_ask(&stranger, "GET", "/a", NULL, NULL, 0), 200);
	assert_true(fx_ask(&remote, "GET", "/a", NULL, NULL, 0) < 0);
	buf_free(&old);
	buf_free(&both);
	fx_stop();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(certificate_files_change, fx_clean),
		cmocka_unit_test_teardown(certificates_on_probation, fx_clean),
		cmocka_unit_test_teardown(client_authorities_replaced, fx_clean),
	};

	return cmocka_run_group_tests(tests, fx_set_up, fx_tear_down);
}
