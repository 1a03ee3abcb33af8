/* SPDX-License-Identifier: Apache-2.0 */
/* TLS with certificates on both sides: what is shared by connections, and one connection's stream. */
#ifndef VGW_CONTROL_TLS_H
#define VGW_CONTROL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netcfg/base/buf.h"
#include "netcfg/base/err.h"
#include "netcfg/model/ip.h"

/* The PEM texts that a context is made of, and what to call each in an error. */
struct tls_pem {
	struct buf certificate; /* leaf first, then intermediates */
	struct buf key;
	struct buf ca; /* one or more */
	const char *certificate_where, *key_where, *ca_where;
};

/* The key is wiped. */
void tls_pem_free(struct tls_pem *pem);

/* Parsed certificate, key, CAs and configuration. Counted: connections outlive a replacement. */
struct tls_context;

enum tls_side { TLS_SERVER, TLS_CLIENT };

/*
 * Parses and checks that the key belongs to the certificate. The peer's certificate will be required and
 * verified against the CAs. PEM is not kept. 0, or -errno with ERR (reason InvalidCertificate).
 */
int tls_context_new(enum tls_side side, const struct tls_pem *pem, struct tls_context **out,
		    struct vgw_err *err);
struct tls_context *tls_context_ref(struct tls_context *ctx);
/* NULL is fine. */
void tls_context_unref(struct tls_context *ctx);
/* The number of CA certificates. */
size_t tls_context_authorities(const struct tls_context *ctx);
/* Unix seconds of the leaf's notAfter. */
int64_t tls_context_not_after(const struct tls_context *ctx);
/* The leaf and the CAs are in force at NOW (notBefore with the tolerance). 0 or -EINVAL with ERR. */
int tls_context_check_dates(const struct tls_context *ctx, int64_t now, struct vgw_err *err);
/* Each certificate of the chain is signed by the next one. 0 or -EINVAL with ERR. */
int tls_context_check_chain(const struct tls_context *ctx, struct vgw_err *err);
/* The leaf has an iPAddress SAN among ADDRS, or a DNS name. 0 or -EINVAL with ERR. */
int tls_context_check_names(const struct tls_context *ctx, const struct ip_endpoint *addrs, size_t n,
			    struct vgw_err *err);

struct tls_stream;

/*
 * FD is connected and not blocking, and stays the caller's. HOST (clients): the server must name it, as an
 * IP address or a DNS name; NULL for servers. Takes a reference of CTX. 0 or -ENOMEM, -EINVAL.
 */
int tls_stream_new(struct tls_context *ctx, int fd, const char *host, struct tls_stream **out);
/* Does not close FD. NULL is fine. */
void tls_stream_free(struct tls_stream *st);
/* Reads at most N more bytes from the socket, then claims that nothing is there: bounds the work of a turn.
 */
void tls_stream_allow(struct tls_stream *st, size_t n);
/* 0 when done, -EAGAIN, -EPROTO (see tls_stream_error), -ECONNRESET. */
int tls_stream_handshake(struct tls_stream *st);
/* Bytes, 0 at the end of the stream, -EAGAIN, or another -errno. */
long tls_stream_read(struct tls_stream *st, void *data, size_t len);
/* After -EAGAIN the next call must offer at least the same bytes again. */
long tls_stream_write(struct tls_stream *st, const void *data, size_t len);
/* After -EAGAIN: writability, not readability, is what is missing. */
bool tls_stream_wants_write(const struct tls_stream *st);
/* close_notify, as far as the socket takes it. */
void tls_stream_close(struct tls_stream *st);
const struct tls_context *tls_stream_context(const struct tls_stream *st);
/* mbedTLS's words for the latest failure. */
const char *tls_stream_error(const struct tls_stream *st, char *out, size_t size);
/* Calls FN with each name of the verified peer: CN, DNS and URI SANs (LEN bytes, no NUL). */
void tls_stream_peer_names(const struct tls_stream *st,
			   void (*fn)(void *ctx, const char *name, size_t len, bool dns), void *ctx);

#endif
