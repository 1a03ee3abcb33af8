/* SPDX-License-Identifier: Apache-2.0 */
/* Servers on loopback for test_check.c: real sockets, real TLS, each in a thread, with every kind of manners.
 */
#ifndef TESTS_UNIT_CHECK_SERVER_H
#define TESTS_UNIT_CHECK_SERVER_H

#include <arpa/inet.h>
#include <mbedtls/ecp.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_cache.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/x509_crt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "vgw/control/tls_compat.h"

/* -- certificates -- */

struct identity {
	mbedtls_pk_context key;
	mbedtls_x509_crt crt;
	char pem[4096];
};

struct identity_wish {
	const char *subject;	       /* "CN=…" */
	const struct identity *issuer; /* NULL: self-signed */
	bool ca;
	long from, until;		/* seconds from now */
	const unsigned char *addresses; /* raw SubjectAltName value (DER), or NULL */
	size_t addresses_len;
};

static inline const char *x509_date(long from_now, char *out)
{
	time_t t = time(NULL) + from_now;
	struct tm tm;

	strftime(out, 16, "%Y%m%d%H%M%S", gmtime_r(&t, &tm));
	return out;
}

static inline void identity_extensions(mbedtls_x509write_cert *w, const struct identity_wish *wish)
{
	assert_int_equal(mbedtls_x509write_crt_set_basic_constraints(w, wish->ca, -1), 0);
	if (wish->addresses)
		assert_int_equal(
			mbedtls_x509write_crt_set_extension(w, MBEDTLS_OID_SUBJECT_ALT_NAME,
							    MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME), 0,
							    wish->addresses, wish->addresses_len),
			0);
}

static inline void identity_make(struct identity *id, const struct identity_wish *wish)
{
	static const unsigned char serial[] = {1};
	const struct identity *issuer = wish->issuer ? wish->issuer : id;
	char issuer_name[200], from[16], until[16];
	mbedtls_x509write_cert w;

	mbedtls_pk_init(&id->key);
	mbedtls_x509_crt_init(&id->crt);
	assert_int_equal(mbedtls_pk_setup(&id->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)), 0);
	assert_int_equal(mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(id->key),
					     tls_compat_random, NULL),
			 0);
	mbedtls_x509write_crt_init(&w);
	mbedtls_x509write_crt_set_version(&w, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(&w, MBEDTLS_MD_SHA256);
	assert_int_equal(tls_compat_set_serial(&w, serial, sizeof(serial)), 0);
	assert_int_equal(mbedtls_x509write_crt_set_validity(&w, x509_date(wish->from, from),
							    x509_date(wish->until, until)),
			 0);
	assert_int_equal(mbedtls_x509write_crt_set_subject_name(&w, wish->subject), 0);
	if (wish->issuer)
		assert_true(mbedtls_x509_dn_gets(issuer_name, sizeof(issuer_name), &issuer->crt.subject) > 0);
	else
		snprintf(issuer_name, sizeof(issuer_name), "%s", wish->subject);
	assert_int_equal(mbedtls_x509write_crt_set_issuer_name(&w, issuer_name), 0);
	mbedtls_x509write_crt_set_subject_key(&w, &id->key);
	mbedtls_x509write_crt_set_issuer_key(&w, (mbedtls_pk_context *)&issuer->key);
	identity_extensions(&w, wish);
	assert_int_equal(mbedtls_x509write_crt_pem(&w, (unsigned char *)id->pem, sizeof(id->pem),
						   tls_compat_random, NULL),
			 0);
	mbedtls_x509write_crt_free(&w);
	assert_int_equal(
		mbedtls_x509_crt_parse(&id->crt, (const unsigned char *)id->pem, strlen(id->pem) + 1), 0);
}

static inline void identity_free(struct identity *id)
{
	mbedtls_x509_crt_free(&id->crt);
	mbedtls_pk_free(&id->key);
}

/* -- servers -- */

enum manners {
	NEVER_ACCEPT,  /* the kernel does */
	REPLY_PLAIN,   /* `reply` without TLS */
	CLOSE_AT_ONCE, /* before a handshake */
	RESET_AT_ONCE,
	HANDSHAKE_ONLY,	 /* TLS, then wait for the client to end it */
	REPLY,		 /* TLS, read a request, `reply`, end */
	REPLY_KEEP,	 /* the same, but the client has to end it */
	REPLY_AND_RESET, /* the same, ended by a reset */
	REPLY_FOR_EVER,	 /* `reply` again and again */
};

/* How a server lets sessions be resumed; TLS 1.2 alone then. */
enum sessions { NO_SESSIONS, TICKETS, SESSION_IDS };

struct server {
	enum manners manners;
	enum sessions sessions;
	const char *reply;
	struct identity *identity;
	int client_auth; /* MBEDTLS_SSL_VERIFY_… */
	const int *ciphersuites;
	bool v6;

	int fd;
	uint16_t port;
	pthread_t thread;
	mbedtls_ssl_config config;
	mbedtls_ssl_cache_context cache;
	mbedtls_ssl_ticket_context tickets;
	atomic_bool stop;
	/* What was seen: */
	atomic_int connections, handshakes, goodbyes; /* goodbyes: ended by close_notify or, in plain, EOF */
	char request[2048];
};

static inline int read_some(struct server *s, mbedtls_ssl_context *ssl, char *data, size_t size)
{
	int n = mbedtls_ssl_read(ssl, (unsigned char *)data, size);

	if (n == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
		atomic_fetch_add(&s->goodbyes, 1);
	return n;
}

static inline void read_request(struct server *s, mbedtls_ssl_context *ssl)
{
	size_t len = 0;

	while (len < sizeof(s->request) - 1 && !strstr(s->request, "\r\n\r\n")) {
		int n = read_some(s, ssl, s->request + len, sizeof(s->request) - 1 - len);

		if (n <= 0)
			return;
		len += (size_t)n;
		s->request[len] = '\0';
	}
}

static inline bool write_all(mbedtls_ssl_context *ssl, const char *text)
{
	size_t len = strlen(text);

	while (len) {
		int n = mbedtls_ssl_write(ssl, (const unsigned char *)text, len);

		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

static inline void await_goodbye(struct server *s, mbedtls_ssl_context *ssl)
{
	char data[512];

	while (read_some(s, ssl, data, sizeof(data)) > 0)
		;
}

static inline void reset(int fd)
{
	const struct linger l = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

static inline void converse(struct server *s, mbedtls_ssl_context *ssl, int fd)
{
	bool replies = s->manners != HANDSHAKE_ONLY;

	atomic_fetch_add(&s->handshakes, 1);
	if (replies) {
		memset(s->request, 0, sizeof(s->request));
		read_request(s, ssl);
		while (write_all(ssl, s->reply) && s->manners == REPLY_FOR_EVER)
			;
	}
	if (s->manners == REPLY_AND_RESET)
		reset(fd);
	else if (s->manners == REPLY)
		mbedtls_ssl_close_notify(ssl);
	if (s->manners == REPLY)
		shutdown(fd, SHUT_WR);
	if (s->manners != REPLY_AND_RESET && s->manners != REPLY_FOR_EVER)
		await_goodbye(s, ssl);
}

/* To close on unread bytes would be a reset, which overtakes the alert that was sent. */
static inline void drain(int fd)
{
	char data[4096];

	shutdown(fd, SHUT_WR);
	while (recv(fd, data, sizeof(data), 0) > 0)
		;
}

static inline void serve_tls(struct server *s, int fd)
{
	mbedtls_net_context net = {.fd = fd};
	mbedtls_ssl_context ssl;

	mbedtls_ssl_init(&ssl);
	assert_int_equal(mbedtls_ssl_setup(&ssl, &s->config), 0);
	mbedtls_ssl_set_bio(&ssl, &net, mbedtls_net_send, mbedtls_net_recv, NULL);
	if (!mbedtls_ssl_handshake(&ssl))
		converse(s, &ssl, fd);
	else
		drain(fd);
	mbedtls_ssl_free(&ssl);
}

static inline void serve_plain(struct server *s, int fd)
{
	char data[4096];
	ssize_t n;

	/* The client's hello is read first: to close on unread bytes is a reset, another case. */
	n = recv(fd, data, sizeof(data), 0);
	if (n > 0 && s->reply)
		n = send(fd, s->reply, strlen(s->reply), MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	while (n > 0)
		n = recv(fd, data, sizeof(data), 0);
	if (n == 0)
		atomic_fetch_add(&s->goodbyes, 1);
}

static inline void *server_main(void *arg)
{
	struct server *s = arg;
	const int on = 1;
	sigset_t set;

	/* For this thread alone: the checks have to do without. */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (;;) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 || atomic_load(&s->stop)) {
			if (fd >= 0)
				close(fd);
			return NULL;
		}
		atomic_fetch_add(&s->connections, 1);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (s->manners == RESET_AT_ONCE)
			reset(fd);
		else if (s->manners == REPLY_PLAIN || s->manners == CLOSE_AT_ONCE)
			serve_plain(s, fd);
		else
			serve_tls(s, fd);
		close(fd);
	}
}

static inline void server_listen(struct server *s)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr *sa = s->v6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in;
	socklen_t len = s->v6 ? sizeof(in6) : sizeof(in);

	s->fd = socket(s->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->fd >= 0);
	assert_int_equal(bind(s->fd, sa, len), 0);
	assert_int_equal(getsockname(s->fd, sa, &len), 0);
	s->port = ntohs(s->v6 ? in6.sin6_port : in.sin_port);
	assert_int_equal(listen(s->fd, 512), 0);
}

static inline void server_sessions(struct server *s)
{
	mbedtls_ssl_cache_init(&s->cache);
	mbedtls_ssl_ticket_init(&s->tickets);
	if (s->sessions == NO_SESSIONS)
		return;
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
	mbedtls_ssl_conf_max_tls_version(&s->config, MBEDTLS_SSL_VERSION_TLS1_2);
#endif
	if (s->sessions == SESSION_IDS) {
		mbedtls_ssl_conf_session_cache(&s->config, &s->cache, mbedtls_ssl_cache_get,
					       mbedtls_ssl_cache_set);
		return;
	}
	assert_int_equal(mbedtls_ssl_ticket_setup(&s->tickets, tls_compat_random, NULL,
						  MBEDTLS_CIPHER_AES_256_GCM, 3600),
			 0);
	mbedtls_ssl_conf_session_tickets_cb(&s->config, mbedtls_ssl_ticket_write, mbedtls_ssl_ticket_parse,
					    &s->tickets);
}

static inline void server_start(struct server *s)
{
	server_listen(s);
	if (s->manners == NEVER_ACCEPT)
		return;
	mbedtls_ssl_config_init(&s->config);
	assert_int_equal(mbedtls_ssl_config_defaults(&s->config, MBEDTLS_SSL_IS_SERVER,
						     MBEDTLS_SSL_TRANSPORT_STREAM,
						     MBEDTLS_SSL_PRESET_DEFAULT),
			 0);
	mbedtls_ssl_conf_rng(&s->config, tls_compat_random, NULL);
	mbedtls_ssl_conf_authmode(&s->config, s->client_auth);
	if (s->client_auth)
		mbedtls_ssl_conf_ca_chain(&s->config, &s->identity->crt, NULL);
	if (s->ciphersuites)
		mbedtls_ssl_conf_ciphersuites(&s->config, s->ciphersuites);
	if (s->identity)
		assert_int_equal(mbedtls_ssl_conf_own_cert(&s->config, &s->identity->crt, &s->identity->key),
				 0);
	server_sessions(s);
	assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
}

static inline void server_stop(struct server *s)
{
	atomic_store(&s->stop, true);
	if (s->manners != NEVER_ACCEPT) {
		shutdown(s->fd, SHUT_RDWR); /* wakes accept(2) */
		pthread_join(s->thread, NULL);
		mbedtls_ssl_config_free(&s->config);
		mbedtls_ssl_ticket_free(&s->tickets);
		mbedtls_ssl_cache_free(&s->cache);
	}
	close(s->fd);
}

#endif
