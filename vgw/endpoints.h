/* SPDX-License-Identifier: Apache-2.0 */
/* What the requests of the control channel mean (CONTRACT.md 5). */
#ifndef VGW_ENDPOINTS_H
#define VGW_ENDPOINTS_H

#include <ev.h>

#include "vgw/control/server.h"
#include "vgw/gateway.h"

struct endpoints;

/* NULL when memory is out. Takes the gateway's revision callback. */
struct endpoints *endpoints_new(struct ev_loop *loop, struct gateway *g);
/* After the server that calls it is gone. NULL is fine. */
void endpoints_free(struct endpoints *e);
/* The server that has the certificates (uploads change them); NULL while there is none. */
void endpoints_set_server(struct endpoints *e, struct control_server *server);
/* A control_handler_fn; CTX is the endpoints. */
void endpoints_handle(void *ctx, struct control_request *req);

#endif
