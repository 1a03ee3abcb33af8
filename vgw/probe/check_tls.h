/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS part of a check: what all checks share, and what a handshake has shown. Inside vgw/probe only. */
#ifndef VGW_PROBE_CHECK_TLS_H
#define VGW_PROBE_CHECK_TLS_H

#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <stdbool.h>
#include <stddef.h>

#include "vgw/probe/check.h"

enum check_tls_limit {
	CHECK_TLS_MAX_CAS = 32, /* parsed CA texts kept; the least recently used goes first */
};

/* Some servers need a second connection with other settings (check_tls.c says why). */
#if MBEDTLS_VERSION_NUMBER >= 0x03000000 && defined(MBEDTLS_SSL_PROTO_TLS1_3)
#define CHECK_TLS_SECOND
#endif

struct check_ca;

struct check_tls {
	mbedtls_ssl_config config;
#ifdef CHECK_TLS_SECOND
	mbedtls_ssl_config second;
#endif
	struct check_ca *cas; /* most recently used first */
	size_t n_cas;

	/* Connections whose check is over and whose other side has yet to hang up, oldest first. */
	struct check *lingering, *lingering_last;
	size_t n_lingering;
};

/* The settings of the first connection of a check, or of its second. */
const mbedtls_ssl_config *check_tls_config(const struct check_tls *t, bool second);
/* Is a second connection worth while, after a first handshake that ended with RC? */
bool check_tls_try_second(const mbedtls_ssl_context *ssl, int rc);

/*
 * Fill the certificate facts from a finished handshake, and OUT->code where a CA was given and it fails.
 * Where it does not, *GOOD_UNTIL is when the first certificate of its chain ends to be valid (Unix seconds).
 */
void check_tls_judge(struct check_tls *t, const mbedtls_ssl_context *ssl, const char *ca,
		     const struct ip_addr *gateway, struct check_result *out, int64_t *good_until);

/* Why a handshake or a read failed: the alert's name or mbedTLS's words. */
void check_tls_explain(const mbedtls_ssl_context *ssl, int rc, char *out, size_t size);

/* In check.c: give up all lingering connections. */
void check_tls_hang_up(struct check_tls *t);

#endif
