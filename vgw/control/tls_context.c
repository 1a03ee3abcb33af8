/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, keys and CAs: parsing, checking, and the configuration made of them. */
#include "vgw/control/tls_internal.h"

#include <errno.h>
#include <mbedtls/error.h>
#include <stdlib.h>
#include <string.h>

void tls_pem_free(struct tls_pem *pem)
{
	buf_free(&pem->certificate);
	buf_wipe(&pem->key);
	buf_free(&pem->ca);
}

static int bad(struct vgw_err *err, const char *where, int code, const char *what)
{
	char text[160];

	if (!code)
		return vgw_err_set(err, -EINVAL, "InvalidCertificate", where, "%s", what);
	mbedtls_strerror(code, text, sizeof(text));
	return vgw_err_set(err, code == MBEDTLS_ERR_X509_ALLOC_FAILED ? -ENOMEM : -EINVAL,
			   "InvalidCertificate", where, "%s: %s", what, text);
}

/* mbedTLS counts the NUL of a PEM text. */
static int parse_certificates(const struct buf *pem, const char *where, const char *what,
			      mbedtls_x509_crt *out, struct vgw_err *err)
{
	int rc = mbedtls_x509_crt_parse(out, (const unsigned char *)buf_str(pem), pem->len + 1);

	if (rc > 0)
		return bad(err, where, 0, "one of the certificates is malformed");
	return rc ? bad(err, where, rc, what) : 0;
}

static int load(struct tls_context *ctx, const struct tls_pem *pem, struct vgw_err *err)
{
	const mbedtls_x509_crt *ca;
	int rc;

	rc = parse_certificates(&pem->ca, pem->ca_where, "not a PEM certificate", &ctx->ca, err);
	if (rc)
		return rc;
	for (ca = &ctx->ca; ca; ca = ca->next)
		if (!tls_compat_is_ca(ca))
			return bad(err, pem->ca_where, 0, "a certificate is not that of an authority");
	rc = parse_certificates(&pem->certificate, pem->certificate_where, "not a PEM certificate",
				&ctx->chain, err);
	if (rc)
		return rc;
	rc = tls_compat_parse_key(&ctx->key, (const unsigned char *)buf_str(&pem->key), pem->key.len + 1);
	if (rc)
		return bad(err, pem->key_where, rc, "not a PEM private key without a password");
	rc = tls_compat_check_pair(&ctx->chain, &ctx->key);
	return rc ? bad(err, pem->key_where, rc, "the key does not belong to the certificate") : 0;
}

static int configure(struct tls_context *ctx, enum tls_side side, struct vgw_err *err)
{
	int rc = mbedtls_ssl_config_defaults(
		&ctx->conf, side == TLS_SERVER ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
		MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);

	if (!rc)
		rc = mbedtls_ssl_conf_own_cert(&ctx->conf, &ctx->chain, &ctx->key);
	if (rc)
		return bad(err, NULL, rc, "TLS cannot be set up");
	tls_compat_configure(&ctx->conf);
	mbedtls_ssl_conf_authmode(&ctx->conf, MBEDTLS_SSL_VERIFY_REQUIRED);
	mbedtls_ssl_conf_ca_chain(&ctx->conf, &ctx->ca, NULL);
	mbedtls_ssl_conf_verify(&ctx->conf, tls_compat_verify_dates, NULL);
	return 0;
}

int tls_context_new(enum tls_side side, const struct tls_pem *pem, struct tls_context **out,
		    struct vgw_err *err)
{
	struct tls_context *ctx = calloc(1, sizeof(*ctx));
	int rc;

	if (!ctx || tls_compat_init()) {
		free(ctx);
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", NULL, "TLS cannot be set up");
	}
	ctx->refs = 1;
	mbedtls_ssl_config_init(&ctx->conf);
	mbedtls_x509_crt_init(&ctx->chain);
	mbedtls_x509_crt_init(&ctx->ca);
	mbedtls_pk_init(&ctx->key);
	rc = load(ctx, pem, err);
	if (!rc)
		rc = configure(ctx, side, err);
	if (rc) {
		tls_context_unref(ctx);
		return rc;
	}
	*out = ctx;
	return 0;
}

struct tls_context *tls_context_ref(struct tls_context *ctx)
{
	ctx->refs++;
	return ctx;
}

void tls_context_unref(struct tls_context *ctx)
{
	if (!ctx || --ctx->refs)
		return;
	mbedtls_ssl_config_free(&ctx->conf);
	mbedtls_x509_crt_free(&ctx->chain);
	mbedtls_x509_crt_free(&ctx->ca);
	mbedtls_pk_free(&ctx->key);
	free(ctx);
}

size_t tls_context_authorities(const struct tls_context *ctx)
{
	const mbedtls_x509_crt *c;
	size_t n = 0;

	for (c = &ctx->ca; c; c = c->next)
		n++;
	return n;
}

int64_t tls_context_not_after(const struct tls_context *ctx)
{
	return tls_compat_time(&ctx->chain.valid_to);
}

int tls_context_check_dates(const struct tls_context *ctx, int64_t now, struct vgw_err *err)
{
	const mbedtls_x509_crt *c;

	for (c = &ctx->chain; c; c = c->next) {
		if (tls_compat_time(&c->valid_to) < now)
			return bad(err, NULL, 0, "the certificate has expired");
		if (tls_compat_time(&c->valid_from) > now + TLS_NOT_BEFORE_TOLERANCE)
			return bad(err, NULL, 0, "the certificate is not valid yet");
	}
	for (c = &ctx->ca; c; c = c->next)
		if (tls_compat_time(&c->valid_to) >= now)
			return 0;
	return bad(err, NULL, 0, "every client CA has expired");
}

int tls_context_check_chain(const struct tls_context *ctx, struct vgw_err *err)
{
	/* mbedTLS does not write to them; its signature only lacks the const */
	mbedtls_x509_crt *leaf = (mbedtls_x509_crt *)(uintptr_t)&ctx->chain, *top = leaf;
	uint32_t flags = 0;
	char text[200];
	int rc;

	while (top->next)
		top = top->next;
	if (top == leaf)
		return 0;
	rc = mbedtls_x509_crt_verify(leaf, top, NULL, NULL, &flags, tls_compat_verify_dates, NULL);
	if (!rc)
		return 0;
	if (mbedtls_x509_crt_verify_info(text, sizeof(text), "", flags) <= 0)
		strcpy(text, "unknown cause");
	text[strcspn(text, "\n")] = '\0';
	return vgw_err_set(err, -EINVAL, "InvalidCertificate", NULL, "the chain does not verify: %s", text);
}

int tls_context_check_names(const struct tls_context *ctx, const struct ip_endpoint *addrs, size_t n,
			    struct vgw_err *err)
{
	const mbedtls_x509_sequence *san;
	size_t i;

	for (i = 0; i < n; i++)
		if (tls_compat_san_has_addr(&ctx->chain, &addrs[i].addr))
			return 0;
	for (san = &ctx->chain.subject_alt_names; san; san = san->next)
		if (san->buf.tag == TLS_SAN_DNS && san->buf.len)
			return 0;
	return bad(err, NULL, 0, "the certificate names neither an address listened on nor a DNS name");
}
