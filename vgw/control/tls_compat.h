/* SPDX-License-Identifier: Apache-2.0 */
/* The differences between mbedTLS 2.28 and 3.6, and the choices that are the same for every TLS stream here.
 */
#ifndef VGW_CONTROL_TLS_COMPAT_H
#define VGW_CONTROL_TLS_COMPAT_H

#include <mbedtls/version.h>
#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netcfg/model/ip.h"

#if MBEDTLS_VERSION_NUMBER < 0x021C0000 || MBEDTLS_VERSION_NUMBER >= 0x04000000
#error "mbedTLS 2.28 or 3.x is needed"
#endif
#ifndef MBEDTLS_HAVE_TIME_DATE
#error "mbedTLS was built without MBEDTLS_HAVE_TIME_DATE: the dates of certificates would go unchecked"
#endif

/* Before anything else of TLS, as often as wanted (PSA, which TLS 1.3 stands on). 0 or -EIO. */
int tls_compat_init(void);
/* getrandom(2) in mbedTLS's signature: nothing to seed, nothing to share, nothing to wipe. CTX is unused. */
int tls_compat_random(void *ctx, unsigned char *out, size_t len);

/* PEM (LEN counts the NUL) or DER without a password. mbedTLS's code. */
int tls_compat_parse_key(mbedtls_pk_context *key, const unsigned char *data, size_t len);
/* 0 when KEY is the private key of CRT. mbedTLS's code. */
int tls_compat_check_pair(const mbedtls_x509_crt *crt, const mbedtls_pk_context *key);
bool tls_compat_is_ca(const mbedtls_x509_crt *crt);
int tls_compat_set_serial(mbedtls_x509write_cert *crt, const unsigned char *serial, size_t len);

/* TLS 1.2 and later, forward secrecy and AEAD only, quick curves first, no tickets. CONF has its defaults. */
void tls_compat_configure(mbedtls_ssl_config *conf);
/* The call that returned RC is to be repeated at once: it only brought a session ticket. */
bool tls_compat_repeat(int rc);
/* The call that returned RC is to be repeated when the socket is ready. */
bool tls_compat_blocked(int rc);

/* For mbedtls_ssl_conf_verify: forgives a notBefore up to 5 minutes ahead of our clock, nothing else. */
int tls_compat_verify_dates(void *ctx, mbedtls_x509_crt *crt, int depth, uint32_t *flags);
/* Unix seconds. */
int64_t tls_compat_time(const mbedtls_x509_time *t);
/* Is ADDR among CRT's iPAddress SANs? (2.28 does not match them itself.) */
bool tls_compat_san_has_addr(const mbedtls_x509_crt *crt, const struct ip_addr *addr);

/* GeneralName tags in subject_alt_names (RFC 5280 4.2.1.6), context-specific, primitive. */
enum { TLS_SAN_DNS = 0x82, TLS_SAN_URI = 0x86, TLS_SAN_IP = 0x87 };

/* How far ahead of our clock a notBefore may be: fresh machines boot with a clock that lags (seconds). */
enum { TLS_NOT_BEFORE_TOLERANCE = 300 };

#endif
