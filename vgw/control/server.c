/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/control/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* CONTRACT.md 5 */
static struct control_limits effective_limits(struct control_limits l)
{
	if (!l.connections)
		l.connections = 64;
	if (!l.handshakes)
		l.handshakes = 16;
	if (l.handshake_timeout <= 0)
		l.handshake_timeout = 10;
	if (l.request_timeout <= 0)
		l.request_timeout = 10;
	if (l.idle_timeout <= 0)
		l.idle_timeout = 60;
	if (!l.body)
		l.body = 16 << 20;
	if (!l.header)
		l.header = 8 << 10;
	return l;
}

static const char *copy(struct arena *a, const char *text, bool *failed)
{
	char *p = text ? arena_strdup(a, text) : NULL;

	*failed |= text && !p;
	return p;
}

static int copy_config(struct control_server *s, const struct control_config *config, struct vgw_err *err)
{
	struct control_client *clients = arena_calloc(s->arena, config->n_clients, sizeof(*clients));
	const char **ca = arena_calloc(s->arena, config->n_client_ca, sizeof(*ca));
	bool failed = !clients || !ca;
	size_t i;

	if (config->n_client_ca > CREDENTIALS_FILES - 2)
		return vgw_err_set(err, -EINVAL, "InvalidConfiguration", NULL, "too many client CA files");
	for (i = 0; i < config->n_clients && !failed; i++) {
		clients[i].name = copy(s->arena, config->clients[i].name, &failed);
		clients[i].role = config->clients[i].role;
	}
	for (i = 0; i < config->n_client_ca && !failed; i++)
		ca[i] = copy(s->arena, config->client_ca[i], &failed);
	s->clients = clients;
	s->n_clients = config->n_clients;
	s->limits = effective_limits(config->limits);
	s->socket = copy(s->arena, config->socket, &failed);
	s->credentials.certificate = copy(s->arena, config->certificate, &failed);
	s->credentials.key = copy(s->arena, config->key, &failed);
	s->credentials.ca = ca;
	s->credentials.n_ca = config->n_client_ca;
	return failed ? vgw_err_set(err, -ENOMEM, "OutOfMemory", NULL, "no memory for the control channel")
		      : 0;
}

int control_server_new(struct ev_loop *loop, const struct control_config *config, control_handler_fn *handler,
		       void *ctx, struct control_server **out, struct vgw_err *err)
{
	struct control_server *s = calloc(1, sizeof(*s));
	int rc;

	if (s)
		s->arena = arena_new();
	if (!s || !s->arena) {
		free(s);
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", NULL, "no memory for the control channel");
	}
	s->loop = loop;
	s->handler = handler;
	s->ctx = ctx;
	s->queue_end = &s->queue;
	s->turn = ev_iteration(loop) - 1;
	rc = copy_config(s, config, err);
	if (!rc && s->socket)
		rc = listener_unix(s, config->socket_group, err);
	if (!rc)
		rc = control_server_listen(s, config->listen, config->n_listen, err);
	if (rc) {
		control_server_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void control_server_free(struct control_server *s)
{
	if (!s)
		return;
	listener_close_all(s);
	while (s->first)
		conn_destroy(s->first);
	credentials_free(s);
	arena_free(s->arena);
	explicit_bzero(s->scratch, sizeof(s->scratch));
	free(s);
}

int control_server_listen(struct control_server *s, const struct ip_endpoint *listen, size_t n,
			  struct vgw_err *err)
{
	size_t i;
	int rc = 0;

	if (n && !s->credentials.current)
		rc = credentials_load(s, err);
	for (i = 0; i < n && !rc; i++)
		rc = listener_tcp(s, &listen[i], err);
	return rc;
}

void server_accepted(struct control_server *s, int fd, const struct ip_addr *peer, bool local)
{
	if (!admission_room(s, peer, local)) {
		close(fd);
		return;
	}
	conn_new(s, fd, peer, local);
}

void server_count(struct control_server *s, unsigned code)
{
	size_t i;

	for (i = 0; i < CONTROL_CODES; i++) {
		if (s->counts[i].code && s->counts[i].code != code)
			continue;
		s->counts[i].code = code;
		s->counts[i].n++;
		return;
	}
}

const char *server_date(struct control_server *s)
{
	int64_t now = time(NULL);

	if (now != s->date_at) {
		s->date_at = now;
		http_date_print(now, s->date);
	}
	return s->date;
}

unsigned control_server_connections(const struct control_server *s)
{
	return s->n_network + s->n_local;
}

int64_t control_server_not_after(const struct control_server *s)
{
	return s->credentials.current ? tls_context_not_after(s->credentials.current) : 0;
}

bool control_server_skew(const struct control_server *s, double *seconds)
{
	*seconds = s->skew;
	return s->has_skew;
}

void control_server_counts(const struct control_server *s, void (*fn)(void *ctx, unsigned code, uint64_t n),
			   void *ctx)
{
	size_t i;

	for (i = 0; i < CONTROL_CODES && s->counts[i].code; i++)
		fn(ctx, s->counts[i].code, s->counts[i].n);
}
