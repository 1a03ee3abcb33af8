/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs' side of the control channel: one blocking request over the Unix socket or over mTLS. */
#ifndef VGW_CONTROL_CLIENT_H
#define VGW_CONTROL_CLIENT_H

#include "netcfg/base/buf.h"
#include "netcfg/base/err.h"

struct client_target {
	const char *socket;  /* used when `connect` is NULL */
	const char *connect; /* "HOST:PORT" or "[V6]:PORT"; HOST may be a name of /etc/hosts or DNS */
	const char *ca, *certificate, *key; /* PEM files, needed with `connect` */
	double timeout;			    /* seconds for the whole request; 0 means 30 */
};

struct client_response {
	unsigned status;
	struct buf body;
	char etag[64]; /* "" when absent */
};

/*
 * BODY may be NULL. The server's certificate is verified against `ca` and must name HOST (an IP address is
 * matched against the raw iPAddress SANs: mbedTLS 2.28 does not do it). 0 with RESPONSE filled
 * (client_response_free), whatever the HTTP status; -ENOENT / -ECONNREFUSED when no agent is there; else
 * -errno. ERR filled on failure.
 */
int client_request(const struct client_target *target, const char *method, const char *path,
		   const char *content_type, const char *body, size_t len, struct client_response *response,
		   struct vgw_err *err);
void client_response_free(struct client_response *response);

#endif
