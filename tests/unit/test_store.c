/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are replaced whole, and the record of what was there before us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "directory.h"
#include "netcfg/base/log.h"
#include "vgw/file.h"
#include "vgw/store.h"

static struct directory dir;
static struct store store;
static struct vgw_err err;

static int set_up(void **state)
{
	(void)state;
	directory_make(&dir);
	return store_open(&store, dir.path, &err);
}

static int tear_down(void **state)
{
	(void)state;
	store_close(&store);
	directory_remove(&dir);
	return 0;
}

static void assert_file(const char *name, const char *expected)
{
	struct buf text = {0};
	char path[256];

	assert_int_equal(file_read(directory_file(&dir, name, path), 1 << 20, &text, &err), 0);
	assert_string_equal(buf_str(&text), expected);
	buf_free(&text);
}

/* Who has the old file open keeps it whole: the new one is another file. */
static void replaced_whole(void **state)
{
	char path[256], old[16] = "";
	struct stat st;
	int fd;

	(void)state;
	directory_file(&dir, "f", path);
	assert_int_equal(file_replace(path, "old", 3, 0640, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777 & ~0640, 0); /* no more than asked for */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(file_replace(path, "newer", 5, 0640, &err), 0);
	assert_int_equal(read(fd, old, sizeof(old)), 3);
	assert_string_equal(old, "old");
	close(fd);
	assert_file("f", "newer");
	assert_false(directory_has(&dir, "f.new"));
	/* What an agent left that was killed while it wrote is in nobody's way. */
	directory_write(&dir, "f.new", "half a document that is longer", 30);
	assert_int_equal(file_replace(path, "last", 4, 0640, &err), 0);
	assert_file("f", "last");
	assert_false(directory_has(&dir, "f.new"));
}

static void replacing_fails(void **state)
{
	char path[256];

	(void)state;
	directory_file(&dir, "none/f", path);
	assert_int_equal(file_replace(path, "x", 1, 0640, &err), -ENOENT);
	assert_string_equal(err.reason, "FileError");
	/* The target cannot be replaced: it stays, and nothing is left beside it. */
	directory_file(&dir, "d", path);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(file_replace(path, "x", 1, 0640, &err), -EISDIR);
	assert_string_equal(err.where, path);
	assert_true(directory_has(&dir, "d"));
	assert_false(directory_has(&dir, "d.new"));
}

static void bounded(void **state)
{
	struct buf text = {0};
	char path[256];

	(void)state;
	directory_write(&dir, "f", "12345", 5);
	directory_file(&dir, "f", path);
	assert_int_equal(file_read(path, 5, &text, &err), 0);
	assert_int_equal(text.len, 5);
	buf_free(&text);
	memset(&text, 0, sizeof(text));
	assert_int_equal(file_read(path, 4, &text, &err), -EFBIG);
	assert_string_equal(err.reason, "FileError");
	assert_string_equal(err.where, path);
	buf_free(&text);
	assert_int_equal(file_remove(path, &err), 0);
	assert_int_equal(file_remove(path, &err), 0); /* gone is gone */
	assert_int_equal(file_read(path, 5, &text, &err), -ENOENT);
	buf_free(&text);
}

static void spec_file(void **state)
{
	struct buf text = {0};

	(void)state;
	assert_int_equal(store_read_spec(&store, &text, &err), -ENOENT);
	assert_int_equal(store_write_spec(&store, "{\"a\":1}", 7, &err), 0);
	assert_true(directory_has(&dir, "spec.json"));
	assert_int_equal(store_read_spec(&store, &text, &err), 0);
	assert_string_equal(buf_str(&text), "{\"a\":1}");
	buf_free(&text);
}

static struct plan_was_link was_link(const char *name, uint32_t original, uint32_t set)
{
	struct plan_was_link l = {.original = original, .set = set};

	strcpy(l.name, name);
	return l;
}

static struct plan_was_sysctl was_sysctl(const char *name, const char *original, const char *set)
{
	struct plan_was_sysctl s = {0};

	strcpy(s.name, name);
	strcpy(s.original, original);
	strcpy(s.set, set);
	return s;
}

static void record_comes_back(void **state)
{
	struct plan_was_link links[2] = {was_link("wg0", 1420, 1400), was_link("fifteen-letters", 9000, 0)};
	struct plan_was_sysctl sysctls[2] = {
		was_sysctl("net/netfilter/nf_conntrack_tcp_be_liberal", "0", "1"),
		was_sysctl("net/test/quotes", "a \"b\"\\\t", "fifteen-letters")};
	struct plan_recorded r = {.links = links, .n_links = 2, .sysctls = sysctls, .n_sysctls = 2}, back;

	(void)state;
	assert_int_equal(store_read_record(&store, &back, &err), 0);
	assert_int_equal(back.n_links + back.n_sysctls, 0);
	assert_int_equal(store_write_record(&store, &r, &err), 0);
	assert_true(directory_has(&dir, "applied.json"));
	assert_int_equal(store_read_record(&store, &back, &err), 0);
	assert_int_equal(back.n_links, 2);
	assert_memory_equal(back.links, links, sizeof(links));
	assert_int_equal(back.n_sysctls, 2);
	assert_memory_equal(back.sysctls, sysctls, sizeof(sysctls));
	store_record_free(&back);
	assert_int_equal(back.n_links + back.n_sysctls, 0);
}

/* A record that is no record is kept for people, and is none for us. */
static void broken_record(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"null",
		"{\"links\":[{\"name\":\"wg0\",\"originalMtu\":1420}]}",
		"{\"links\":[{\"name\":\"wg0\",\"originalMtu\":1420,\"mtu\":1400}],\"x\":1}",
		"{\"links\":[{\"name\":\"wg0\",\"originalMtu\":-1,\"mtu\":1400}]}",
		"{\"links\":[{\"name\":\"wg0\",\"originalMtu\":1420,\"mtu\":1400}],\"sysctls\":[1]}",
		"{\"sysctls\":[{\"name\":\"a\",\"originalValue\":0,\"value\":\"1\"}]}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct plan_recorded r;

		directory_write(&dir, "applied.json", texts[i], strlen(texts[i]));
		if (store_read_record(&store, &r, &err) != 0)
			fail_msg("%s: %s", texts[i], err.text);
		assert_int_equal(r.n_links + r.n_sysctls, 0);
		store_record_free(&r);
		assert_false(directory_has(&dir, "applied.json"));
		assert_file("applied.json.broken", texts[i]);
	}
}

static void members_left_out(void **state)
{
	struct plan_recorded r;

	(void)state;
	directory_write(&dir, "applied.json", "{}", 2);
	assert_int_equal(store_read_record(&store, &r, &err), 0);
	assert_int_equal(r.n_links + r.n_sysctls, 0);
	assert_true(directory_has(&dir, "applied.json"));
	store_record_free(&r);
}

/* What was there before the first of ours stays noted; of another object under the same name it is new. */
static void originals(void **state)
{
	struct plan_was_link first = was_link("wg0", 1420, 1400), second = was_link("wg0", 1400, 1380);
	struct plan_was_link other = was_link("wg1", 1500, 1400), again = was_link("wg0", 1360, 1300);
	struct plan_was_sysctl s1 = was_sysctl("net/a", "0", "1"), s2 = was_sysctl("net/a", "1", "2");
	struct plan_recorded r = {0};

	(void)state;
	assert_int_equal(store_record_link(&r, &first, false), 0);
	assert_int_equal(store_record_link(&r, &other, true), 0);
	assert_int_equal(store_record_link(&r, &second, false), 0);
	assert_int_equal(r.n_links, 2);
	assert_int_equal(r.links[0].original, 1420);
	assert_int_equal(r.links[0].set, 1380);
	assert_int_equal(r.links[1].original, 1500);
	assert_int_equal(store_record_link(&r, &again, true), 0);
	assert_int_equal(r.n_links, 2);
	assert_int_equal(r.links[0].original, 1360);
	assert_int_equal(r.links[0].set, 1300);
	assert_int_equal(store_record_sysctl(&r, &s1), 0);
	assert_int_equal(store_record_sysctl(&r, &s2), 0);
	assert_int_equal(r.n_sysctls, 1);
	assert_string_equal(r.sysctls[0].original, "0");
	assert_string_equal(r.sysctls[0].set, "2");
	store_record_free(&r);
}

static void dropped(void **state)
{
	struct plan_recorded r = {0};
	struct plan_was_sysctl s;

	(void)state;
	for (int i = 0; i < 4; i++) {
		char name[NS_IFNAME];
		struct plan_was_link l;

		snprintf(name, sizeof(name), "wg%d", i);
		l = was_link(name, 1420, 1400);
		assert_int_equal(store_record_link(&r, &l, false), 0);
	}
	store_drop_link(&r, "wg1");
	store_drop_link(&r, "wg3");
	store_drop_link(&r, "wg");
	assert_int_equal(r.n_links, 2);
	for (size_t i = 0; i < r.n_links; i++)
		assert_true(!strcmp(r.links[i].name, "wg0") || !strcmp(r.links[i].name, "wg2"));
	store_drop_link(&r, "wg0");
	store_drop_link(&r, "wg2");
	assert_int_equal(r.n_links, 0);
	s = was_sysctl("net/a", "0", "1");
	assert_int_equal(store_record_sysctl(&r, &s), 0);
	store_drop_sysctl(&r, "net/b");
	assert_int_equal(r.n_sysctls, 1);
	store_drop_sysctl(&r, "net/a");
	assert_int_equal(r.n_sysctls, 0);
	store_record_free(&r);
}

static void cleared(void **state)
{
	struct plan_recorded none = {0};
	struct buf text = {0};

	(void)state;
	assert_int_equal(store_clear(&store, &err), 0); /* nothing there */
	assert_int_equal(store_write_spec(&store, "{}", 2, &err), 0);
	assert_int_equal(store_write_record(&store, &none, &err), 0);
	assert_int_equal(store_clear(&store, &err), 0);
	assert_int_equal(store_read_spec(&store, &text, &err), -ENOENT);
	assert_false(directory_has(&dir, "applied.json"));
	assert_true(directory_has(&dir, "."));
	buf_free(&text);
}

static void locked(void **state)
{
	struct store other;

	(void)state;
	assert_int_equal(store_lock(&store, &err), 0);
	assert_int_equal(store_open(&other, dir.path, &err), 0);
	assert_int_equal(store_lock(&other, &err), -EBUSY);
	assert_string_equal(err.reason, "AlreadyRunning");
	assert_string_equal(err.where, dir.path);
	/* Replacing and clearing the files leaves the lock. */
	assert_int_equal(store_write_spec(&store, "{}", 2, &err), 0);
	assert_int_equal(store_clear(&store, &err), 0);
	assert_int_equal(store_lock(&other, &err), -EBUSY);
	store_close(&other);
	store_close(&store);
	assert_int_equal(store_lock(&other, &err), 0);
	store_close(&other);
	store_close(&other);
}

static void directory_is_made(void **state)
{
	struct store s;
	char path[256];

	(void)state;
	assert_int_equal(store_open(&s, directory_file(&dir, "state", path), &err), 0);
	assert_true(directory_has(&dir, "state"));
	assert_int_equal(store_open(&s, path, &err), 0);
	assert_int_equal(store_open(&s, directory_file(&dir, "a/b", path), &err), -ENOENT);
	assert_string_equal(err.reason, "FileError");
	assert_string_equal(err.where, path);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(replaced_whole),
		IN_DIRECTORY(replacing_fails),
		IN_DIRECTORY(bounded),
		IN_DIRECTORY(spec_file),
		IN_DIRECTORY(record_comes_back),
		IN_DIRECTORY(broken_record),
		IN_DIRECTORY(members_left_out),
		IN_DIRECTORY(originals),
		IN_DIRECTORY(dropped),
		IN_DIRECTORY(cleared),
		IN_DIRECTORY(locked),
		IN_DIRECTORY(directory_is_made),
	};

	log_set_level((enum log_level)0); /* broken records are what is tried here */
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
