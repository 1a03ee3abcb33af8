/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/check_tls.h"

#include <mbedtls/error.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/oid.h>
#include <mbedtls/x509_crt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/control/tls_compat.h"

#ifndef MBEDTLS_SSL_KEEP_PEER_CERTIFICATE
#error "mbedTLS without MBEDTLS_SSL_KEEP_PEER_CERTIFICATE cannot report the server's certificate"
#endif
#ifndef MBEDTLS_PRIVATE /* 2.28 has no private members */
#define MBEDTLS_PRIVATE(member) member
#endif

/* One CA text of a spec, parsed. */
struct check_ca {
	struct check_ca *next;
	char *text;
	size_t len;
	mbedtls_x509_crt chain;
};

static void ca_free(struct check_ca *ca)
{
	mbedtls_x509_crt_free(&ca->chain);
	free(ca->text);
	free(ca);
}

static struct check_ca *ca_parse(const char *text, size_t len)
{
	struct check_ca *ca = calloc(1, sizeof(*ca));

	if (!ca)
		return NULL;
	mbedtls_x509_crt_init(&ca->chain);
	ca->text = strdup(text);
	ca->len = len;
	/* > 0: some of the certificates could not be read; those that could still count. */
	if (!ca->text || mbedtls_x509_crt_parse(&ca->chain, (const unsigned char *)text, len + 1) < 0 ||
	    !ca->chain.raw.p) {
		ca_free(ca);
		return NULL;
	}
	return ca;
}

/* The parsed form of TEXT, valid until the next call; NULL when it holds no certificate. */
static mbedtls_x509_crt *ca_get(struct check_tls *t, const char *text)
{
	size_t len = strlen(text);
	struct check_ca **link = &t->cas;
	struct check_ca *ca;

	while (*link && ((*link)->len != len || memcmp((*link)->text, text, len)))
		link = &(*link)->next;
	ca = *link;
	if (ca) {
		*link = ca->next;
	} else {
		ca = ca_parse(text, len);
		if (!ca)
			return NULL;
		t->n_cas++;
	}
	ca->next = t->cas;
	t->cas = ca;
	if (t->n_cas > CHECK_TLS_MAX_CAS) {
		for (link = &t->cas; (*link)->next; link = &(*link)->next)
			;
		ca_free(*link);
		*link = NULL;
		t->n_cas--;
	}
	return &ca->chain;
}

static int configure(mbedtls_ssl_config *config)
{
	if (mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
					MBEDTLS_SSL_PRESET_DEFAULT))
		return -1;
	tls_compat_configure(config);
#if defined(MBEDTLS_SSL_SESSION_TICKETS) && defined(MBEDTLS_SSL_CLI_C)
	mbedtls_ssl_conf_session_tickets(config, MBEDTLS_SSL_SESSION_TICKETS_ENABLED); /* check_session.h */
#endif
	/* Our own taste must not decide whether someone's server is healthy. */
	mbedtls_ssl_conf_ciphersuites(config, mbedtls_ssl_list_ciphersuites());
	/* Whatever certificate comes is judged after the handshake, by check_tls_judge: the CA differs from
	 * check to check, and a bad certificate is to be told from a broken handshake. */
	mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_NONE);
	return 0;
}

#ifdef CHECK_TLS_SECOND
/*
 * mbedTLS 3.6 offers RSA-PSS for the sake of TLS 1.3 and then refuses it from a server that speaks TLS 1.2
 * alone and takes it at its word (OpenSSL with an RSA key). So PSS is offered last, which most servers
 * follow; those that insist on their own order get a second connection, without PSS and hence without
 * TLS 1.3.
 */
static void prefer_pkcs1(struct check_tls *t)
{
	static const uint16_t without_pss[] = {MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256,
					       MBEDTLS_TLS1_3_SIG_ECDSA_SECP384R1_SHA384,
					       MBEDTLS_TLS1_3_SIG_ECDSA_SECP521R1_SHA512,
					       MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA256,
					       MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA384,
					       MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA512,
					       MBEDTLS_TLS1_3_SIG_NONE};
	static const uint16_t pss_last[] = {
		MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256, MBEDTLS_TLS1_3_SIG_ECDSA_SECP384R1_SHA384,
		MBEDTLS_TLS1_3_SIG_ECDSA_SECP521R1_SHA512, MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA256,
		MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA384,	   MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA512,
		MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256,	   MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA384,
		MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA512,	   MBEDTLS_TLS1_3_SIG_NONE};

	mbedtls_ssl_conf_sig_algs(&t->config, pss_last);
	mbedtls_ssl_conf_sig_algs(&t->second, without_pss);
	mbedtls_ssl_conf_max_tls_version(&t->second, MBEDTLS_SSL_VERSION_TLS1_2);
}
#endif

const mbedtls_ssl_config *check_tls_config(const struct check_tls *t, bool second)
{
#ifdef CHECK_TLS_SECOND
	if (second)
		return &t->second;
#endif
	(void)second;
	return &t->config;
}

bool check_tls_try_second(const mbedtls_ssl_context *ssl, int rc)
{
#ifdef CHECK_TLS_SECOND
	return rc == MBEDTLS_ERR_SSL_ILLEGAL_PARAMETER &&
	       mbedtls_ssl_get_version_number(ssl) == MBEDTLS_SSL_VERSION_TLS1_2;
#else
	(void)ssl;
	(void)rc;
	return false;
#endif
}

struct check_tls *check_tls_new(void)
{
	struct check_tls *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return NULL;
	mbedtls_ssl_config_init(&t->config);
	rc = tls_compat_init();
	if (!rc)
		rc = configure(&t->config);
#ifdef CHECK_TLS_SECOND
	mbedtls_ssl_config_init(&t->second);
	if (!rc)
		rc = configure(&t->second);
	if (!rc)
		prefer_pkcs1(t);
#endif
	if (rc) {
		check_tls_free(t);
		return NULL;
	}
	return t;
}

void check_tls_free(struct check_tls *t)
{
	struct check_ca *ca;

	if (!t)
		return;
	check_tls_hang_up(t);
	while ((ca = t->cas)) {
		t->cas = ca->next;
		ca_free(ca);
	}
	mbedtls_ssl_config_free(&t->config);
#ifdef CHECK_TLS_SECOND
	mbedtls_ssl_config_free(&t->second);
#endif
	free(t);
}

struct verification {
	mbedtls_x509_time expired, early; /* of the certificate the flag was set for */
	int64_t until;			  /* the first end of all in the chain */
};

static int on_certificate(void *ctx, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
	struct verification *v = ctx;

	int64_t until = tls_compat_time(&crt->valid_to);

	if (until < v->until)
		v->until = until;
	tls_compat_verify_dates(NULL, crt, depth, flags);
	if (*flags & MBEDTLS_X509_BADCERT_FUTURE)
		v->early = crt->valid_from;
	if (*flags & MBEDTLS_X509_BADCERT_EXPIRED)
		v->expired = crt->valid_to;
	return 0;
}

static void complain(struct check_result *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Everything that is wrong, as far as it fits. */
static void complain(struct check_result *out, const char *fmt, ...)
{
	size_t len = out->code == CHECK_CERTIFICATE_INVALID ? strlen(out->detail) : 0;
	va_list ap;

	out->code = CHECK_CERTIFICATE_INVALID;
	if (len)
		len += (size_t)snprintf(out->detail + len, sizeof(out->detail) - len, ", ");
	if (len >= sizeof(out->detail))
		return;
	va_start(ap, fmt);
	vsnprintf(out->detail + len, sizeof(out->detail) - len, fmt, ap);
	va_end(ap);
}

static void complain_of_flags(uint32_t flags, const struct verification *v, struct check_result *out)
{
	const uint32_t known =
		MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE | MBEDTLS_X509_BADCERT_NOT_TRUSTED;
	const mbedtls_x509_time *t;

	if (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED)
		complain(out, "not trusted by the CA given");
	if (flags & MBEDTLS_X509_BADCERT_EXPIRED) {
		t = &v->expired;
		complain(out, "expired %04d-%02d-%02d", t->year, t->mon, t->day);
	}
	if (flags & MBEDTLS_X509_BADCERT_FUTURE) {
		t = &v->early;
		complain(out, "not yet valid until %04d-%02d-%02d", t->year, t->mon, t->day);
	}
	if (flags & ~known) {
		char text[200] = "";

		mbedtls_x509_crt_verify_info(text, sizeof(text), "", flags & ~known);
		text[strcspn(text, "\n")] = '\0';
		complain(out, "%s", text);
	}
}

static void verify(struct check_tls *t, mbedtls_x509_crt *crt, const char *ca, struct check_result *out,
		   int64_t *good_until)
{
	mbedtls_x509_crt *trusted = ca_get(t, ca);
	struct verification v = {.until = INT64_MAX};
	uint32_t flags = 0;

	if (!trusted) {
		complain(out, "the CA given cannot be read");
		return;
	}
	if (mbedtls_x509_crt_verify(crt, trusted, NULL, NULL, &flags, on_certificate, &v) && !flags)
		flags = MBEDTLS_X509_BADCERT_OTHER;
	/* Real clients insist on it (RFC 5280 4.2.1.12), so a check that passed would lie. */
	if (mbedtls_x509_crt_check_extended_key_usage(crt, MBEDTLS_OID_SERVER_AUTH,
						      MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)))
		flags |= MBEDTLS_X509_BADCERT_EXT_KEY_USAGE;
	complain_of_flags(flags, &v, out);
	*good_until = v.until;
}

void check_tls_judge(struct check_tls *t, const mbedtls_ssl_context *ssl, const char *ca,
		     const struct ip_addr *gateway, struct check_result *out, int64_t *good_until)
{
	const mbedtls_x509_crt *crt = mbedtls_ssl_get_peer_cert(ssl);
	char text[IP_ADDR_STRLEN];

	if (crt) {
		out->certificate.seen = true;
		out->certificate.not_after = tls_compat_time(&crt->valid_to);
		out->certificate.has_gateway_address = tls_compat_san_has_addr(crt, gateway);
	}
	if (!ca || !*ca)
		return;
	if (!crt) {
		complain(out, "no certificate");
		return;
	}
	verify(t, (mbedtls_x509_crt *)crt, ca, out, good_until); /* not const in 2.28, yet only read */
	if (gateway->family != IP_NONE && !out->certificate.has_gateway_address)
		complain(out, "gateway address %s not in SANs", ip_addr_print(gateway, text));
	out->certificate.verified = out->code == CHECK_OK;
}

/* RFC 8446 6.2 and, for the older ones, RFC 5246 7.2.2. */
static const char *alert_name(unsigned char alert)
{
	static const struct {
		unsigned char alert;
		const char *name;
	} names[] = {
		{0, "close_notify"},
		{10, "unexpected_message"},
		{20, "bad_record_mac"},
		{22, "record_overflow"},
		{40, "handshake_failure"},
		{42, "bad_certificate"},
		{43, "unsupported_certificate"},
		{44, "certificate_revoked"},
		{45, "certificate_expired"},
		{46, "certificate_unknown"},
		{47, "illegal_parameter"},
		{48, "unknown_ca"},
		{49, "access_denied"},
		{50, "decode_error"},
		{51, "decrypt_error"},
		{70, "protocol_version"},
		{71, "insufficient_security"},
		{80, "internal_error"},
		{86, "inappropriate_fallback"},
		{90, "user_canceled"},
		{109, "missing_extension"},
		{110, "unsupported_extension"},
		{112, "unrecognized_name"},
		{113, "bad_certificate_status_response"},
		{115, "unknown_psk_identity"},
		{116, "certificate_required"},
		{120, "no_application_protocol"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].alert == alert)
			return names[i].name;
	return NULL;
}

void check_tls_explain(const mbedtls_ssl_context *ssl, int rc, char *out, size_t size)
{
	if (rc == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
		unsigned char alert = ssl->MBEDTLS_PRIVATE(in_msg)[1];
		const char *name = alert_name(alert);

		if (name)
			snprintf(out, size, "alert %s", name);
		else
			snprintf(out, size, "alert %u", alert);
	} else if (rc == MBEDTLS_ERR_SSL_CONN_EOF || rc == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
		snprintf(out, size, "connection closed during the handshake");
	} else if (rc == MBEDTLS_ERR_NET_CONN_RESET) {
		snprintf(out, size, "connection reset during the handshake");
	} else {
		mbedtls_strerror(rc, out, size);
	}
}
