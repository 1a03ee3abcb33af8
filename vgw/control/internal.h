/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the control channel's server share; server.h is what others see. */
#ifndef VGW_CONTROL_INTERNAL_H
#define VGW_CONTROL_INTERNAL_H

#include <sys/types.h>

#include "netcfg/base/arena.h"
#include "vgw/control/http.h"
#include "vgw/control/server.h"
#include "vgw/control/tls.h"

enum {
	CONTROL_LOCAL_CONNECTIONS = 16, /* the Unix socket's own allowance beside limits.connections */
	CONTROL_TURN_BYTES = 65536,	/* read or written for one connection per turn of the loop … */
	CONTROL_TURN_WRITE = 262144,
	CONTROL_TURN_REQUESTS = 16, /* … and answered */
	CONTROL_SCRATCH = 16384,    /* a whole TLS record fits: nothing stays behind in mbedTLS */
	CONTROL_READ_AHEAD = 16384, /* of pipelined requests while one is being handled */
	CONTROL_LINGER = 2,	    /* seconds for the client to read an answer that ends the connection */
	CONTROL_CODES = 24,	    /* different status codes that are counted */
};

struct control_request {
	struct http_message message;
	void (*gone)(void *ctx, struct control_request *req);
	void *gone_ctx;
	bool deferred;
};

enum conn_state {
	CONN_HANDSHAKE,
	CONN_IDLE,     /* between requests */
	CONN_READING,  /* a request has begun */
	CONN_HANDLING, /* it is the handler's */
	CONN_WRITING,  /* its answer is not all written */
	CONN_LINGER,   /* all said; the client may still be sending */
};

struct conn {
	struct conn *prev, *next;   /* of the server, least recently used first */
	struct conn *next_in_queue; /* of handshakes with something to do */
	bool queued;
	struct control_server *server;
	ev_io io;
	ev_timer timer;
	ev_tstamp deadline;	  /* 0: none */
	ev_tstamp write_deadline; /* for the whole answer */
	int fd;
	enum conn_state state;
	bool local;   /* over the Unix socket */
	bool running; /* inside conn_pump(): answers are sent by it */
	bool closing; /* after what is in `out` */
	struct ip_addr peer;
	struct tls_stream *tls; /* NULL on the Unix socket, and until the first byte */
	size_t budget;		/* bytes that may still be read in this turn */
	enum control_role role;
	char client[128];
	struct buf in; /* behind the request at hand */
	struct buf out;
	size_t out_pos;
	struct control_request request;
};

struct listener {
	struct listener *next;
	struct control_server *server;
	ev_io io;
	int fd;
	struct ip_endpoint endpoint; /* family IP_NONE: the Unix socket */
};

/* Which file it is, and in which state: what changes when it is replaced or written to. */
struct file_id {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

enum {
	CREDENTIALS_FILES = 8 /* certificate, key and up to six CA files */
};

struct credentials {
	const char *certificate, *key;
	const char *const *ca;
	size_t n_ca;
	struct tls_context *current, *staged;
	struct file_id loaded[CREDENTIALS_FILES], seen[CREDENTIALS_FILES], refused[CREDENTIALS_FILES];
	ev_timer watch;
	/* The staged pair, until a handshake has proved it. */
	struct tls_pem staged_pem;
	ev_timer confirm;
	control_staged_fn *done;
	void *done_ctx;
};

struct control_server {
	struct ev_loop *loop;
	control_handler_fn *handler;
	void *ctx;
	struct arena *arena; /* the copy of the configuration */
	struct control_limits limits;
	const struct control_client *clients;
	size_t n_clients;
	struct credentials credentials;
	const char *socket;
	bool has_group;
	gid_t group;
	dev_t socket_dev;
	ino_t socket_ino;
	struct listener *listeners;
	ev_timer resume; /* accepting again after the descriptors ran out */
	bool starved;	 /* they have, and it is said */
	struct conn *first, *last;
	unsigned n_network, n_local;
	unsigned peak; /* of TLS streams since memory was last given back */
	struct conn *queue, **queue_end;
	unsigned turn; /* the loop's iteration in which a handshake was last served */
	bool has_skew;
	double skew;
	struct {
		unsigned code;
		uint64_t n;
	} counts[CONTROL_CODES];
	int64_t date_at;
	char date[30];
	char scratch[CONTROL_SCRATCH];
};

/* listener.c */
int listener_tcp(struct control_server *s, const struct ip_endpoint *endpoint, struct vgw_err *err);
int listener_unix(struct control_server *s, const char *group, struct vgw_err *err);
void listener_close_all(struct control_server *s);

/* server.c */
void server_accepted(struct control_server *s, int fd, const struct ip_addr *peer, bool local);
void server_count(struct control_server *s, unsigned code);
const char *server_date(struct control_server *s);

/* admission.c: who may connect, and as whom */
/* Makes room for one more connection from PEER; false when there is none to be had. */
bool admission_room(struct control_server *s, const struct ip_addr *peer, bool local);
void admission_certificate(struct conn *c);
void admission_peer_credentials(struct conn *c);

/* connection.c */
/* Takes FD. */
int conn_new(struct control_server *s, int fd, const struct ip_addr *peer, bool local);
void conn_destroy(struct conn *c);
/* Wait for what the connection's state needs next. */
void conn_arm(struct conn *c);
/* An answer was given outside the connection's own turn: it is sent in the next one. */
void conn_wake(struct conn *c);

/* request.c */
/* The complete request goes to the handler, or is refused. */
void request_dispatch(struct conn *c);
void request_on_head(void *ctx, struct http_problem *problem);
/* The connection ends with this answer. */
void request_refuse(struct conn *c, const struct http_problem *problem);

/* credentials.c */
int credentials_load(struct control_server *s, struct vgw_err *err);
void credentials_free(struct control_server *s);
/* What new connections use (no reference is handed over); NULL when nothing is loaded. */
struct tls_context *credentials_context(struct control_server *s);
/* A handshake with CTX has succeeded. */
void credentials_proved(struct control_server *s, const struct tls_context *ctx);

#endif
