/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tls_context.c and tls_stream.c alone. */
#ifndef VGW_CONTROL_TLS_INTERNAL_H
#define VGW_CONTROL_TLS_INTERNAL_H

#include "vgw/control/tls.h"
#include "vgw/control/tls_compat.h"

struct tls_context {
	unsigned refs;
	mbedtls_ssl_config conf;
	mbedtls_x509_crt chain; /* ours: the leaf first */
	mbedtls_pk_context key;
	mbedtls_x509_crt ca; /* for the peer's */
};

#endif
