/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/control/tls_compat.h"

#include <errno.h>
#include <mbedtls/ecp.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
#include <psa/crypto.h>
#else
#include <mbedtls/bignum.h>
#endif

int tls_compat_init(void)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
	static bool ready;

	if (ready)
		return 0;
	if (psa_crypto_init() != PSA_SUCCESS)
		return -EIO;
	ready = true;
#endif
	return 0;
}

int tls_compat_random(void *ctx, unsigned char *out, size_t len)
{
	(void)ctx;
	while (len) {
		ssize_t n = getrandom(out, len, 0);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
		}
		out += n;
		len -= (size_t)n;
	}
	return 0;
}

int tls_compat_parse_key(mbedtls_pk_context *key, const unsigned char *data, size_t len)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
	return mbedtls_pk_parse_key(key, data, len, NULL, 0, tls_compat_random, NULL);
#else
	return mbedtls_pk_parse_key(key, data, len, NULL, 0);
#endif
}

int tls_compat_check_pair(const mbedtls_x509_crt *crt, const mbedtls_pk_context *key)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
	return mbedtls_pk_check_pair(&crt->pk, key, tls_compat_random, NULL);
#else
	return mbedtls_pk_check_pair(&crt->pk, key);
#endif
}

bool tls_compat_is_ca(const mbedtls_x509_crt *crt)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
	return crt->MBEDTLS_PRIVATE(ca_istrue) != 0;
#else
	return crt->ca_istrue != 0;
#endif
}

int tls_compat_set_serial(mbedtls_x509write_cert *crt, const unsigned char *serial, size_t len)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
	unsigned char copy[MBEDTLS_X509_RFC5280_MAX_SERIAL_LEN];

	if (len > sizeof(copy))
		return MBEDTLS_ERR_X509_BAD_INPUT_DATA;
	memcpy(copy, serial, len); /* the parameter is not const */
	return mbedtls_x509write_crt_set_serial_raw(crt, copy, len);
#else
	mbedtls_mpi n;
	int rc;

	mbedtls_mpi_init(&n);
	rc = mbedtls_mpi_read_binary(&n, serial, len);
	if (!rc)
		rc = mbedtls_x509write_crt_set_serial(crt, &n);
	mbedtls_mpi_free(&n);
	return rc;
#endif
}

/* AES-128-GCM first: with the processors' instructions it is the quickest. */
static const int ciphersuites[] = {
#if MBEDTLS_VERSION_NUMBER >= 0x03000000 && defined(MBEDTLS_SSL_PROTO_TLS1_3)
	MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
	MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
	MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
#endif
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	0,
};

void tls_compat_configure(mbedtls_ssl_config *conf)
{
	mbedtls_ssl_conf_rng(conf, tls_compat_random, NULL);
	mbedtls_ssl_conf_ciphersuites(conf, ciphersuites);
	/* The default order of 2.28 starts with P-521, which costs a handshake tens of milliseconds. */
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
	static const uint16_t groups[] = {
		MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1, MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
		MBEDTLS_SSL_IANA_TLS_GROUP_SECP384R1, MBEDTLS_SSL_IANA_TLS_GROUP_SECP521R1,
		MBEDTLS_SSL_IANA_TLS_GROUP_NONE,
	};

	mbedtls_ssl_conf_groups(conf, groups);
	mbedtls_ssl_conf_min_tls_version(conf, MBEDTLS_SSL_VERSION_TLS1_2);
#ifdef MBEDTLS_SSL_PROTO_TLS1_3
	mbedtls_ssl_conf_tls13_key_exchange_modes(conf, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL);
#if defined(MBEDTLS_SSL_SESSION_TICKETS) && defined(MBEDTLS_SSL_SRV_C)
	mbedtls_ssl_conf_new_session_tickets(conf, 0);
#endif
#endif
#else
	static const mbedtls_ecp_group_id curves[] = {
		MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_CURVE25519, MBEDTLS_ECP_DP_SECP384R1,
		MBEDTLS_ECP_DP_SECP521R1, MBEDTLS_ECP_DP_NONE,
	};

	mbedtls_ssl_conf_curves(conf, curves);
	mbedtls_ssl_conf_min_version(conf, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
#endif
#if defined(MBEDTLS_SSL_SESSION_TICKETS) && defined(MBEDTLS_SSL_CLI_C)
	mbedtls_ssl_conf_session_tickets(conf, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
#endif
}

bool tls_compat_repeat(int rc)
{
#ifdef MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET
	return rc == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET;
#else
	(void)rc;
	return false;
#endif
}

bool tls_compat_blocked(int rc)
{
	return rc == MBEDTLS_ERR_SSL_WANT_READ || rc == MBEDTLS_ERR_SSL_WANT_WRITE;
}

int64_t tls_compat_time(const mbedtls_x509_time *t)
{
	struct tm tm = {
		.tm_year = t->year - 1900,
		.tm_mon = t->mon - 1,
		.tm_mday = t->day,
		.tm_hour = t->hour,
		.tm_min = t->min,
		.tm_sec = t->sec,
	};

	return timegm(&tm);
}

int tls_compat_verify_dates(void *ctx, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
	(void)ctx;
	(void)depth;
	if ((*flags & MBEDTLS_X509_BADCERT_FUTURE) &&
	    tls_compat_time(&crt->valid_from) <= time(NULL) + TLS_NOT_BEFORE_TOLERANCE)
		*flags &= ~(uint32_t)MBEDTLS_X509_BADCERT_FUTURE;
	return 0;
}

bool tls_compat_san_has_addr(const mbedtls_x509_crt *crt, const struct ip_addr *addr)
{
	const mbedtls_x509_sequence *san;
	size_t size = ip_addr_size(addr);

	for (san = &crt->subject_alt_names; san && size; san = san->next)
		if (san->buf.tag == TLS_SAN_IP && san->buf.len == size &&
		    !memcmp(san->buf.p, addr->bytes, size))
			return true;
	return false;
}
