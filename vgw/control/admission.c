/* SPDX-License-Identifier: Apache-2.0 */
/* Who may connect while connections are scarce, and as whom. */
#include "vgw/control/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* The least recently used connection of a kind. PEER: only from there; NULL: from anywhere. */
static struct conn *oldest(const struct control_server *s, bool local, enum conn_state state,
			   const struct ip_addr *peer, unsigned *count)
{
	struct conn *c, *found = NULL;

	*count = 0;
	for (c = s->first; c; c = c->next) {
		if (c->local != local || c->state != state || (peer && ip_addr_cmp(&c->peer, peer) != 0))
			continue;
		if (!found)
			found = c;
		++*count;
	}
	return found;
}

bool admission_room(struct control_server *s, const struct ip_addr *peer, bool local)
{
	/* What is only waiting for the client to hang up costs least; then as CONTRACT.md 5 says. */
	static const enum conn_state order[] = {CONN_LINGER, CONN_HANDSHAKE, CONN_IDLE};
	struct conn *victim;
	unsigned n;
	size_t i;

	if (!local) {
		victim = oldest(s, false, CONN_HANDSHAKE, peer, &n);
		if (n >= s->limits.handshakes)
			conn_destroy(victim);
	}
	if (local ? s->n_local < CONTROL_LOCAL_CONNECTIONS : s->n_network < s->limits.connections)
		return true;
	for (i = 0; i < sizeof(order) / sizeof(*order); i++) {
		victim = oldest(s, local, order[i], NULL, &n);
		if (victim) {
			conn_destroy(victim);
			return true;
		}
	}
	return false;
}

static void match_name(void *ctx, const char *name, size_t len, bool dns)
{
	struct conn *c = ctx;
	const struct control_server *s = c->server;
	size_t i;

	if (!c->client[0])
		snprintf(c->client, sizeof(c->client), "%.*s", (int)(len < 100 ? len : 100), name);
	for (i = 0; i < s->n_clients; i++) {
		const struct control_client *known = &s->clients[i];

		if (strlen(known->name) != len ||
		    (dns ? strncasecmp(known->name, name, len) : memcmp(known->name, name, len)) != 0)
			continue;
		/* A certificate with several names has the rights of all of them. */
		if (known->role > c->role) {
			c->role = known->role;
			snprintf(c->client, sizeof(c->client), "%s", known->name);
		}
	}
}

void admission_certificate(struct conn *c)
{
	c->client[0] = '\0';
	c->role = CONTROL_ROLE_NONE;
	tls_stream_peer_names(c->tls, match_name, c);
	if (!c->client[0])
		snprintf(c->client, sizeof(c->client), "a nameless certificate");
}

/* The groups the peer's process is in: what the socket file's mode went by, and no name service to wait for.
 */
static bool in_group(int fd, gid_t group)
{
	gid_t *groups = NULL;
	socklen_t len = 0;
	bool found = false;
	size_t i;

#ifdef SO_PEERGROUPS
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) && errno != ERANGE)
		return false;
	groups = malloc(len ? len : 1);
	if (groups && !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len))
		for (i = 0; i < len / sizeof(*groups) && !found; i++)
			found = groups[i] == group;
	free(groups);
#endif
	return found;
}

void admission_peer_credentials(struct conn *c)
{
	const struct control_server *s = c->server;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	c->role = CONTROL_ROLE_NONE;
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len)) {
		snprintf(c->client, sizeof(c->client), "nobody");
		return;
	}
	snprintf(c->client, sizeof(c->client), "uid %u", (unsigned)cred.uid);
	if (cred.uid == 0 || cred.uid == geteuid() ||
	    (s->has_group && (cred.gid == s->group || in_group(c->fd, s->group))))
		c->role = CONTROL_ROLE_WRITER;
}
