/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/control/tls_internal.h"

#include <errno.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct tls_stream {
	mbedtls_ssl_context ssl;
	struct tls_context *ctx;
	int fd;
	int failure;	  /* mbedTLS's code */
	size_t allowance; /* bytes that may still be read from the socket in this turn */
	size_t retry;	  /* length of the write to be repeated */
	bool wants_write;
	struct ip_addr host; /* the server must have it among its SANs */
};

static int stream_send(void *ctx, const unsigned char *data, size_t len)
{
	struct tls_stream *st = ctx;
	ssize_t n = send(st->fd, data, len, MSG_NOSIGNAL);

	if (n >= 0)
		return (int)n;
	if (errno == EAGAIN || errno == EINTR)
		return MBEDTLS_ERR_SSL_WANT_WRITE;
	return MBEDTLS_ERR_SSL_CONN_EOF;
}

static int stream_recv(void *ctx, unsigned char *data, size_t len)
{
	struct tls_stream *st = ctx;
	ssize_t n;

	if (!st->allowance)
		return MBEDTLS_ERR_SSL_WANT_READ;
	n = recv(st->fd, data, len < st->allowance ? len : st->allowance, 0);
	if (n > 0) {
		st->allowance -= (size_t)n;
		return (int)n;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return MBEDTLS_ERR_SSL_WANT_READ;
	return MBEDTLS_ERR_SSL_CONN_EOF;
}

/* The server's leaf must name the address that was asked for. */
static int verify_host(void *ctx, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
	struct tls_stream *st = ctx;

	if (depth == 0 && st->host.family != IP_NONE && !tls_compat_san_has_addr(crt, &st->host))
		*flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
	return tls_compat_verify_dates(NULL, crt, depth, flags);
}

int tls_stream_new(struct tls_context *ctx, int fd, const char *host, struct tls_stream **out)
{
	struct tls_stream *st = calloc(1, sizeof(*st));
	int rc;

	if (!st)
		return -ENOMEM;
	st->ctx = tls_context_ref(ctx);
	st->fd = fd;
	st->allowance = SIZE_MAX;
	mbedtls_ssl_init(&st->ssl);
	rc = mbedtls_ssl_setup(&st->ssl, &ctx->conf);
	if (!rc && host) {
		bool address = ip_addr_parse(host, &st->host) == 0;

		/* An explicit NULL tells 3.6 that the names are checked elsewhere: by verify_host(). */
		rc = mbedtls_ssl_set_hostname(&st->ssl, address ? NULL : host);
		mbedtls_ssl_set_verify(&st->ssl, verify_host, st);
	}
	if (rc) {
		tls_stream_free(st);
		return rc == MBEDTLS_ERR_SSL_ALLOC_FAILED ? -ENOMEM : -EINVAL;
	}
	mbedtls_ssl_set_bio(&st->ssl, st, stream_send, stream_recv, NULL);
	*out = st;
	return 0;
}

void tls_stream_free(struct tls_stream *st)
{
	if (!st)
		return;
	mbedtls_ssl_free(&st->ssl);
	tls_context_unref(st->ctx);
	free(st);
}

void tls_stream_allow(struct tls_stream *st, size_t n)
{
	st->allowance = n;
}

static int translate(struct tls_stream *st, int rc)
{
	st->wants_write = rc == MBEDTLS_ERR_SSL_WANT_WRITE;
	if (tls_compat_blocked(rc))
		return -EAGAIN;
	st->failure = rc;
	if (rc == MBEDTLS_ERR_SSL_CONN_EOF)
		return -ECONNRESET;
	return rc == MBEDTLS_ERR_SSL_ALLOC_FAILED ? -ENOMEM : -EPROTO;
}

int tls_stream_handshake(struct tls_stream *st)
{
	int rc;

	do
		rc = mbedtls_ssl_handshake(&st->ssl);
	while (tls_compat_repeat(rc));
	/* mbedTLS hangs up without a word here in TLS 1.2; the client had better know what is missing. */
	if (rc == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE &&
	    !strcmp(mbedtls_ssl_get_version(&st->ssl), "TLSv1.2"))
		mbedtls_ssl_send_alert_message(&st->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL,
					       MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE);
	return rc ? translate(st, rc) : 0;
}

long tls_stream_read(struct tls_stream *st, void *data, size_t len)
{
	int rc;

	do
		rc = mbedtls_ssl_read(&st->ssl, data, len);
	while (tls_compat_repeat(rc));
	if (rc > 0)
		return rc;
	if (rc == 0 || rc == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
		return 0;
	return translate(st, rc);
}

long tls_stream_write(struct tls_stream *st, const void *data, size_t len)
{
	int rc;

	/* mbedTLS believes the length of the repeated call, whatever it has put into the record. */
	if (st->retry && st->retry < len)
		len = st->retry;
	do
		rc = mbedtls_ssl_write(&st->ssl, data, len);
	while (tls_compat_repeat(rc));
	st->retry = tls_compat_blocked(rc) ? len : 0;
	return rc >= 0 ? rc : translate(st, rc);
}

bool tls_stream_wants_write(const struct tls_stream *st)
{
	return st->wants_write;
}

void tls_stream_close(struct tls_stream *st)
{
	mbedtls_ssl_close_notify(&st->ssl);
}

const struct tls_context *tls_stream_context(const struct tls_stream *st)
{
	return st->ctx;
}

const char *tls_stream_error(const struct tls_stream *st, char *out, size_t size)
{
	uint32_t flags = mbedtls_ssl_get_verify_result(&st->ssl);
	char text[256];

	/* Before there is a certificate the result is "all ones". */
	if (st->failure == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED && flags && flags != UINT32_MAX &&
	    mbedtls_x509_crt_verify_info(text, sizeof(text), "", flags) > 0) {
		text[strcspn(text, "\n")] = '\0';
		snprintf(out, size, "%s", text);
	} else if (st->failure == MBEDTLS_ERR_SSL_CONN_EOF) {
		snprintf(out, size, "the peer closed the connection");
	} else {
		mbedtls_strerror(st->failure, out, size);
	}
	return out;
}

void tls_stream_peer_names(const struct tls_stream *st,
			   void (*fn)(void *ctx, const char *name, size_t len, bool dns), void *ctx)
{
	const mbedtls_x509_crt *crt = mbedtls_ssl_get_peer_cert(&st->ssl);
	const mbedtls_x509_sequence *san;
	const mbedtls_x509_name *name;

	if (!crt)
		return;
	for (name = &crt->subject; name; name = name->next)
		if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &name->oid) == 0)
			fn(ctx, (const char *)name->val.p, name->val.len, false);
	for (san = &crt->subject_alt_names; san; san = san->next)
		if (san->buf.tag == TLS_SAN_DNS || san->buf.tag == TLS_SAN_URI)
			fn(ctx, (const char *)san->buf.p, san->buf.len, san->buf.tag == TLS_SAN_DNS);
}
