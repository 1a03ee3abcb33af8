/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/store.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netcfg/base/log.h"
#include "vgw/file.h"
#include "vgw/model/json_reader.h"

enum { RECORD_MAX_BYTES = 1 << 20, RECORD_MAX_ENTRIES = 4096 };

int store_open(struct store *s, const char *directory, struct vgw_err *err)
{
	s->lock = -1;
	if (snprintf(s->spec_path, sizeof(s->spec_path), "%s/spec.json", directory) >=
	    (int)sizeof(s->spec_path) - 16)
		return vgw_err_set(err, -ENAMETOOLONG, "FileError", directory, "the path is too long");
	snprintf(s->applied_path, sizeof(s->applied_path), "%s/applied.json", directory);
	snprintf(s->directory, sizeof(s->directory), "%s", directory);
	if (mkdir(directory, 0750) < 0 && errno != EEXIST)
		return vgw_err_set(err, -errno, "FileError", directory, "cannot make it: %s",
				   strerror(errno));
	return 0;
}

void store_close(struct store *s)
{
	if (s->lock >= 0)
		close(s->lock);
	s->lock = -1;
}

int store_lock(struct store *s, struct vgw_err *err)
{
	int fd = open(s->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd < 0)
		return vgw_err_set(err, -errno, "FileError", s->directory, "cannot open it: %s",
				   strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
		close(fd);
		return vgw_err_set(err, rc, rc == -EBUSY ? "AlreadyRunning" : "FileError", s->directory, "%s",
				   rc == -EBUSY ? "another vgw-agent uses this state directory"
						: strerror(-rc));
	}
	s->lock = fd;
	return 0;
}

int store_read_spec(const struct store *s, struct buf *out, struct vgw_err *err)
{
	return file_read(s->spec_path, SPEC_MAX_BYTES, out, err);
}

int store_write_spec(const struct store *s, const char *text, size_t len, struct vgw_err *err)
{
	return file_replace(s->spec_path, text, len, 0640, err);
}

void store_record_free(struct plan_recorded *r)
{
	free(r->links);
	free(r->sysctls);
	memset(r, 0, sizeof(*r));
}

int store_record_link(struct plan_recorded *r, const struct plan_was_link *was, bool fresh)
{
	struct plan_was_link *links;

	for (size_t i = 0; i < r->n_links; i++) {
		if (strcmp(r->links[i].name, was->name))
			continue;
		r->links[i].set = was->set;
		if (fresh)
			r->links[i].original = was->original;
		return 0;
	}
	links = realloc(r->links, (r->n_links + 1) * sizeof(*links));
	if (!links)
		return -ENOMEM;
	r->links = links;
	r->links[r->n_links++] = *was;
	return 0;
}

int store_record_sysctl(struct plan_recorded *r, const struct plan_was_sysctl *was)
{
	struct plan_was_sysctl *sysctls;

	for (size_t i = 0; i < r->n_sysctls; i++) {
		if (strcmp(r->sysctls[i].name, was->name))
			continue;
		memcpy(r->sysctls[i].set, was->set, sizeof(was->set));
		return 0;
	}
	sysctls = realloc(r->sysctls, (r->n_sysctls + 1) * sizeof(*sysctls));
	if (!sysctls)
		return -ENOMEM;
	r->sysctls = sysctls;
	r->sysctls[r->n_sysctls++] = *was;
	return 0;
}

void store_drop_link(struct plan_recorded *r, const char *name)
{
	for (size_t i = 0; i < r->n_links; i++)
		if (!strcmp(r->links[i].name, name))
			r->links[i--] = r->links[--r->n_links];
}

void store_drop_sysctl(struct plan_recorded *r, const char *name)
{
	for (size_t i = 0; i < r->n_sysctls; i++)
		if (!strcmp(r->sysctls[i].name, name))
			r->sysctls[i--] = r->sysctls[--r->n_sysctls];
}

static int read_links(const struct json_value *list, struct plan_recorded *out)
{
	enum { NAME, ORIGINAL, SET, N };
	static const char *const names[N] = {"name", "originalMtu", "mtu"};
	struct json_value m[N];
	int rc = 0;

	json_array(list, RECORD_MAX_ENTRIES);
	for (struct json_value e = json_elements(list); e.item && !rc; json_next(&e)) {
		struct plan_was_link l = {0};

		json_members(&e, names, N, m);
		json_require(&m[NAME]);
		json_require(&m[ORIGINAL]);
		json_require(&m[SET]);
		strncpy(l.name, json_string(&m[NAME], ""), NS_IFNAME - 1);
		l.original = (uint32_t)json_int(&m[ORIGINAL], 0, INT32_MAX, 0);
		l.set = (uint32_t)json_int(&m[SET], 0, INT32_MAX, 0);
		rc = store_record_link(out, &l, false);
	}
	return rc;
}

static int read_sysctls(const struct json_value *list, struct plan_recorded *out)
{
	enum { NAME, ORIGINAL, SET, N };
	static const char *const names[N] = {"name", "originalValue", "value"};
	struct json_value m[N];
	int rc = 0;

	json_array(list, RECORD_MAX_ENTRIES);
	for (struct json_value e = json_elements(list); e.item && !rc; json_next(&e)) {
		struct plan_was_sysctl s = {0};

		json_members(&e, names, N, m);
		json_require(&m[NAME]);
		json_require(&m[ORIGINAL]);
		json_require(&m[SET]);
		snprintf(s.name, sizeof(s.name), "%s", json_string(&m[NAME], ""));
		snprintf(s.original, sizeof(s.original), "%s", json_string(&m[ORIGINAL], ""));
		snprintf(s.set, sizeof(s.set), "%s", json_string(&m[SET], ""));
		rc = store_record_sysctl(out, &s);
	}
	return rc;
}

static void set_aside(const struct store *s, const struct vgw_err *err)
{
	char broken[4112];

	snprintf(broken, sizeof(broken), "%s.broken", s->applied_path);
	if (rename(s->applied_path, broken) < 0)
		broken[0] = '\0';
	log_error("record: %s: %s; kept as %s: the values of before are not known", s->applied_path,
		  err->text, broken);
}

int store_read_record(const struct store *s, struct plan_recorded *out, struct vgw_err *err)
{
	enum { LINKS, SYSCTLS, N };
	static const char *const names[N] = {"links", "sysctls"};
	struct json_value root, m[N];
	struct json_reader r;
	struct buf text = {0};
	int rc = file_read(s->applied_path, RECORD_MAX_BYTES, &text, err);

	memset(out, 0, sizeof(*out));
	if (rc == -EFBIG) {
		buf_free(&text);
		set_aside(s, err);
		return 0;
	}
	if (rc) {
		buf_free(&text);
		return rc == -ENOENT ? 0 : rc;
	}
	json_open(&r, "InvalidRecord", buf_str(&text), text.len, RECORD_MAX_BYTES, err);
	root = json_root(&r);
	json_members(&root, names, N, m);
	rc = read_links(&m[LINKS], out);
	if (!rc)
		rc = read_sysctls(&m[SYSCTLS], out);
	if (r.rc)
		rc = r.rc;
	json_close(&r);
	buf_free(&text);
	if (!rc)
		return 0;
	/* The data plane must come up all the same; what can be known of the old values is kept for people.
	 */
	store_record_free(out);
	set_aside(s, err);
	return rc == -ENOMEM ? rc : 0;
}

static cJSON *record_json(const struct plan_recorded *r)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *links = cJSON_AddArrayToObject(root, "links"),
	      *sysctls = cJSON_AddArrayToObject(root, "sysctls");

	for (size_t i = 0; i < r->n_links; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "name", r->links[i].name);
		cJSON_AddNumberToObject(o, "originalMtu", r->links[i].original);
		cJSON_AddNumberToObject(o, "mtu", r->links[i].set);
		cJSON_AddItemToArray(links, o);
	}
	for (size_t i = 0; i < r->n_sysctls; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "name", r->sysctls[i].name);
		cJSON_AddStringToObject(o, "originalValue", r->sysctls[i].original);
		cJSON_AddStringToObject(o, "value", r->sysctls[i].set);
		cJSON_AddItemToArray(sysctls, o);
	}
	return root;
}

int store_write_record(const struct store *s, const struct plan_recorded *r, struct vgw_err *err)
{
	cJSON *root = record_json(r);
	char *text = root ? cJSON_Print(root) : NULL;
	int rc;

	cJSON_Delete(root);
	if (!text)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", s->applied_path, "no memory");
	rc = file_replace(s->applied_path, text, strlen(text), 0640, err);
	cJSON_free(text);
	return rc;
}

static void path_of(const struct store *s, const char *name, char out[4352])
{
	snprintf(out, 4352, "%s/%s", s->directory, name);
}

int64_t store_read_revision(const struct store *s)
{
	struct buf text = {0};
	char path[4352];
	int64_t revision = 0;

	path_of(s, "revision", path);
	if (file_read(path, 64, &text, NULL) == 0)
		revision = strtoll(buf_str(&text), NULL, 10);
	buf_free(&text);
	return revision > 0 ? revision : 0;
}

void store_write_revision(const struct store *s, int64_t revision)
{
	char path[4352], text[32];

	path_of(s, "revision", path);
	snprintf(text, sizeof(text), "%lld\n", (long long)revision);
	file_replace(path, text, strlen(text), 0640, NULL);
}

int store_mark_unconfirmed(const struct store *s, bool unconfirmed)
{
	char path[4352];

	path_of(s, "unconfirmed", path);
	if (!unconfirmed)
		return access(path, F_OK) ? 0 : file_remove(path, NULL);
	return file_replace(path, "", 0, 0640, NULL);
}

bool store_is_unconfirmed(const struct store *s)
{
	char path[4352];

	path_of(s, "unconfirmed", path);
	return access(path, F_OK) == 0;
}

int store_clear(const struct store *s, struct vgw_err *err)
{
	int rc = file_remove(s->spec_path, err), rc2 = file_remove(s->applied_path, rc ? NULL : err);

	store_mark_unconfirmed(s, false);
	return rc ? rc : rc2;
}
