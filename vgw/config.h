/* SPDX-License-Identifier: Apache-2.0 */
/* The host's own settings: /etc/vgw-agent/agent.json (CONTRACT.md 3). */
#ifndef VGW_CONFIG_H
#define VGW_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netcfg/base/arena.h"
#include "netcfg/base/err.h"
#include "netcfg/base/log.h"
#include "netcfg/model/ip.h"
#include "vgw/control/server.h"

#define CONFIG_DEFAULT_PATH   "/etc/vgw-agent/agent.json"
#define CONFIG_DEFAULT_SOCKET "/run/vgw-agent/control.sock"
#define CONFIG_DEFAULT_STATE  "/var/lib/vgw-agent"

enum { CONFIG_CONTROL_PORT = 9443, CONFIG_PROBE_PORT = 9444, CONFIG_MAX_BYTES = 1 << 20 };

struct config {
	const char *private_if, *external_if; /* "" : found out */
	const char *const *trusted;
	size_t n_trusted;
	struct ip_endpoint *listen; /* n_listen 0: the gateway address, port CONFIG_CONTROL_PORT */
	size_t n_listen;
	bool has_control; /* a control section with a certificate: TLS is wanted */
	const char *certificate, *key;
	const char *const *client_ca;
	size_t n_client_ca;
	struct control_client *clients;
	size_t n_clients;
	const char *socket, *state_directory;
	uint16_t probe_port;
	bool protect; /* "auto" */
	enum log_level log_level;
	struct arena *arena; /* owns everything above */
};

/*
 * Reads PATH; NULL reads CONFIG_DEFAULT_PATH, and a default file that does not exist gives the defaults.
 * Relative paths in the file are made relative to it. 0 with *OUT (config_free), or -errno with ERR
 * (InvalidConfig and a JSON pointer).
 */
int config_load(const char *path, struct config **out, struct vgw_err *err);
void config_free(struct config *c);

#endif
