/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/config.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "netcfg/model/netstate.h"
#include "vgw/file.h"
#include "vgw/model/json_reader.h"

enum { MAX_LIST = 64, MAX_CLIENTS = 256 };

struct loader {
	struct config *c;
	const char *directory; /* of the file */
};

static const char *copy(struct loader *l, struct json_reader *r, const char *s)
{
	char *p = arena_strdup(l->c->arena, s);

	if (!p)
		json_fail_memory(r);
	return p ? p : "";
}

static const char *copy_path(struct loader *l, const struct json_value *v, const char *fallback)
{
	const char *path = json_string(v, fallback);
	char joined[4096];

	if (!path || !json_given(v))
		return path;
	if (!*path) {
		json_fail(v, "an empty path");
		return fallback;
	}
	if (*path == '/')
		return copy(l, v->reader, path);
	if (snprintf(joined, sizeof(joined), "%s/%s", l->directory, path) >= (int)sizeof(joined))
		json_fail(v, "the path is too long");
	return copy(l, v->reader, joined);
}

static const char *load_interface(struct loader *l, const struct json_value *v)
{
	const char *name = json_string(v, "");

	if (json_given(v) && (!*name || strlen(name) >= NS_IFNAME || strpbrk(name, "/ \t")))
		json_fail(v, "not an interface's name");
	return copy(l, v->reader, name);
}

static void load_interfaces(struct loader *l, const struct json_value *v)
{
	enum { PRIVATE, EXTERNAL, TRUSTED, N };
	static const char *const names[N] = {"private", "external", "trusted"};
	struct json_value m[N];
	const char **list;
	size_t n, i = 0;

	json_members(v, names, N, m);
	l->c->private_if = load_interface(l, &m[PRIVATE]);
	l->c->external_if = load_interface(l, &m[EXTERNAL]);
	n = json_array(&m[TRUSTED], MAX_LIST);
	list = arena_calloc(l->c->arena, n, sizeof(*list));
	for (struct json_value e = json_elements(&m[TRUSTED]); list && e.item; json_next(&e))
		list[i++] = load_interface(l, &e);
	l->c->trusted = list;
	l->c->n_trusted = i;
}

static void load_clients(struct loader *l, const struct json_value *v)
{
	enum { NAME, ROLE, N };
	static const char *const names[N] = {"name", "role"};
	static const char *const roles[] = {"reader", "writer"};
	size_t n = json_array(v, MAX_CLIENTS), i = 0;
	struct json_value m[N];

	l->c->clients = arena_calloc(l->c->arena, n, sizeof(*l->c->clients));
	for (struct json_value e = json_elements(v); l->c->clients && e.item; json_next(&e)) {
		json_members(&e, names, N, m);
		json_require(&m[NAME]);
		json_require(&m[ROLE]);
		l->c->clients[i].name = copy(l, v->reader, json_string(&m[NAME], ""));
		if (json_given(&m[NAME]) && !*l->c->clients[i].name)
			json_fail(&m[NAME], "an empty name");
		l->c->clients[i].role =
			json_enum(&m[ROLE], roles, 2, 0) ? CONTROL_ROLE_WRITER : CONTROL_ROLE_READER;
		i++;
	}
	l->c->n_clients = i;
}

static void load_control(struct loader *l, const struct json_value *v)
{
	enum { LISTEN, CERTIFICATE, KEY, CLIENT_CA, CLIENTS, N };
	static const char *const names[N] = {"listen", "certificate", "key", "clientCA", "clients"};
	struct json_value m[N];
	const char **ca;
	size_t i = 0, n;

	json_members(v, names, N, m);
	n = json_array(&m[LISTEN], MAX_LIST);
	l->c->listen = arena_calloc(l->c->arena, n, sizeof(*l->c->listen));
	for (struct json_value e = json_elements(&m[LISTEN]); l->c->listen && e.item; json_next(&e))
		if (ip_endpoint_parse(json_string(&e, ""), &l->c->listen[i++]) < 0)
			json_fail(&e, "not ADDRESS:PORT or [ADDRESS]:PORT");
	l->c->n_listen = i;
	l->c->certificate = copy_path(l, &m[CERTIFICATE], NULL);
	l->c->key = copy_path(l, &m[KEY], NULL);
	if (json_given(&m[CERTIFICATE]) != json_given(&m[KEY]))
		json_fail(v, "certificate and key go together");
	n = json_array(&m[CLIENT_CA], 2);
	ca = arena_calloc(l->c->arena, n, sizeof(*ca));
	i = 0;
	for (struct json_value e = json_elements(&m[CLIENT_CA]); ca && e.item; json_next(&e))
		ca[i++] = copy_path(l, &e, "");
	l->c->client_ca = ca;
	l->c->n_client_ca = i;
	load_clients(l, &m[CLIENTS]);
	l->c->has_control = json_given(&m[CERTIFICATE]);
	if (l->c->has_control && !l->c->n_client_ca)
		json_fail(&m[CLIENT_CA], "a certificate without client CAs: nobody could connect");
	if (l->c->n_listen && !l->c->has_control)
		json_fail(&m[LISTEN], "listening needs certificate and key");
}

static void load_root(struct loader *l, struct json_reader *r)
{
	enum { INTERFACES, CONTROL, SOCKET, STATE, PROBE_PORT, PROTECT, LOG_LEVEL, N };
	static const char *const names[N] = {"interfaces", "control", "socket",	 "stateDirectory",
					     "probePort",  "protect", "logLevel"};
	static const char *const protect[] = {"auto", "off"};
	struct json_value root = json_root(r), m[N];

	json_members(&root, names, N, m);
	load_interfaces(l, &m[INTERFACES]);
	load_control(l, &m[CONTROL]);
	l->c->socket = copy_path(l, &m[SOCKET], CONFIG_DEFAULT_SOCKET);
	l->c->state_directory = copy_path(l, &m[STATE], CONFIG_DEFAULT_STATE);
	l->c->probe_port = (uint16_t)json_int(&m[PROBE_PORT], 1, 65535, CONFIG_PROBE_PORT);
	l->c->protect = json_enum(&m[PROTECT], protect, 2, 0) == 0;
	if (json_given(&m[LOG_LEVEL]) &&
	    log_level_parse(json_string(&m[LOG_LEVEL], ""), &l->c->log_level) < 0)
		json_fail(&m[LOG_LEVEL], "not one of error, warning, info, debug");
}

static void set_defaults(struct config *c)
{
	c->private_if = c->external_if = "";
	c->socket = CONFIG_DEFAULT_SOCKET;
	c->state_directory = CONFIG_DEFAULT_STATE;
	c->probe_port = CONFIG_PROBE_PORT;
	c->protect = true;
	c->log_level = LOG_LEVEL_INFO;
}

static int load_text(struct config *c, const char *path, const struct buf *text, struct vgw_err *err)
{
	char directory[4096], file[4096];
	struct loader l = {.c = c, .directory = directory};
	struct json_reader r;
	int rc;

	snprintf(file, sizeof(file), "%s", path);
	snprintf(directory, sizeof(directory), "%s", dirname(file));
	json_open(&r, "InvalidConfig", buf_str(text), text->len, CONFIG_MAX_BYTES, err);
	load_root(&l, &r);
	rc = r.rc;
	json_close(&r);
	return rc;
}

int config_load(const char *path, struct config **out, struct vgw_err *err)
{
	struct arena *arena = arena_new();
	struct config *c = arena ? arena_alloc(arena, sizeof(*c)) : NULL;
	struct buf text = {0};
	int rc;

	*out = NULL;
	if (!c) {
		arena_free(arena);
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", path, "no memory");
	}
	c->arena = arena;
	set_defaults(c);
	rc = file_read(path ? path : CONFIG_DEFAULT_PATH, CONFIG_MAX_BYTES, &text, err);
	if (rc == -ENOENT && !path)
		rc = 0;
	else if (!rc)
		rc = load_text(c, path ? path : CONFIG_DEFAULT_PATH, &text, err);
	buf_free(&text);
	if (rc) {
		arena_free(arena);
		return rc;
	}
	*out = c;
	return 0;
}

void config_free(struct config *c)
{
	if (c)
		arena_free(c->arena);
}
