/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/check_session.h"

#include <mbedtls/platform.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vgw/clock.h"

#ifndef MBEDTLS_PRIVATE /* 2.28 has no private members */
#define MBEDTLS_PRIVATE(member) member
#endif

/*
 * A replaced certificate is seen after so long at the latest, and sooner by up to so much: backends whose
 * first handshakes came in one burst do not have their next ones in one.
 */
enum { SESSION_MS = 60000, SESSION_SPREAD_MS = 15000 };

void check_memory_forget(struct check_memory *m)
{
	if (m->session)
		mbedtls_platform_zeroize(m->session, m->len); /* the master secret is in it */
	free(m->session);
	memset(m, 0, sizeof(*m));
}

bool check_session_offer(struct check_memory *m, mbedtls_ssl_context *ssl)
{
	mbedtls_ssl_session s;
	bool offered;

	if (!m->session)
		return false;
	if (clock_mono_ms() >= m->until_ms || time(NULL) > m->good_until) {
		check_memory_forget(m);
		return false;
	}
	mbedtls_ssl_session_init(&s);
	offered = !mbedtls_ssl_session_load(&s, m->session, m->len) && !mbedtls_ssl_set_session(ssl, &s);
	mbedtls_ssl_session_free(&s);
	return offered;
}

/* TLS 1.2 alone: there a resumed handshake computes next to nothing, while in TLS 1.3 it saves the
 * certificate and not the key agreement. */
static bool can_be_resumed(const mbedtls_ssl_context *ssl, const mbedtls_ssl_session *s)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
	if (mbedtls_ssl_get_version_number(ssl) != MBEDTLS_SSL_VERSION_TLS1_2)
		return false;
#endif
	(void)ssl;
	return s->MBEDTLS_PRIVATE(id_len) || s->MBEDTLS_PRIVATE(ticket);
}

/* It is several KB, and what the status shows of it is remembered beside the session. */
static void drop_certificate(mbedtls_ssl_session *s)
{
	mbedtls_x509_crt *crt = s->MBEDTLS_PRIVATE(peer_cert);

	s->MBEDTLS_PRIVATE(peer_cert) = NULL;
	if (!crt)
		return;
	mbedtls_x509_crt_free(crt);
	mbedtls_free(crt);
}

static void save(struct check_memory *m, const mbedtls_ssl_session *s)
{
	size_t len = 0;

	if (mbedtls_ssl_session_save(s, NULL, 0, &len) != MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL)
		return;
	m->session = malloc(len);
	m->len = len;
	if (m->session && mbedtls_ssl_session_save(s, m->session, len, &m->len))
		check_memory_forget(m);
}

void check_session_keep(struct check_memory *m, const mbedtls_ssl_context *ssl,
			const struct check_certificate *certificate, int64_t good_until)
{
	mbedtls_ssl_session s;

	check_memory_forget(m);
	mbedtls_ssl_session_init(&s);
	if (!mbedtls_ssl_get_session(ssl, &s) && can_be_resumed(ssl, &s)) {
		drop_certificate(&s);
		save(m, &s);
	}
	mbedtls_ssl_session_free(&s);
	if (!m->session)
		return;
	m->certificate = *certificate;
	m->good_until = good_until;
	/* The moment is as good as a die. */
	m->until_ms = clock_mono_ms() + SESSION_MS - clock_wall_ms() * 7919 % SESSION_SPREAD_MS;
}
