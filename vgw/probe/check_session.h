/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS session of a server's last whole handshake, offered and kept (RFC 5077, RFC 5246 F.1.4). Inside
 * vgw/probe only. */
#ifndef VGW_PROBE_CHECK_SESSION_H
#define VGW_PROBE_CHECK_SESSION_H

#include <mbedtls/ssl.h>
#include <stdbool.h>

#include "vgw/probe/check.h"

/* Offer what M remembers in SSL's handshake. False when there is nothing, or nothing that still counts. */
bool check_session_offer(struct check_memory *m, mbedtls_ssl_context *ssl);
/*
 * Keep the session of SSL's handshake, which was a whole one and showed CERTIFICATE. What was judged of it is
 * true until GOOD_UNTIL (Unix seconds). Where there is nothing to resume, M remembers nothing.
 */
void check_session_keep(struct check_memory *m, const mbedtls_ssl_context *ssl,
			const struct check_certificate *certificate, int64_t good_until);

#endif
