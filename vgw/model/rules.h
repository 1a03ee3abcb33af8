/* SPDX-License-Identifier: Apache-2.0 */
/* The rules between the members of a spec, and between a spec, the live one and the host (CONTRACT.md 4).
 * Pure. */
#ifndef VGW_MODEL_RULES_H
#define VGW_MODEL_RULES_H

#include "vgw/model/spec.h"

/* A network that an interface of this host is connected to. */
struct rules_connected {
	const char *interface;
	struct ip_prefix network;
};

/* What the rules need to know of this host. All zero but the ports: no host, as for `vgw-agent check`. */
struct rules_host {
	const struct rules_connected *connected; /* loopback left out by the caller */
	size_t n_connected;
	const char *private_interface;	   /* "" or NULL when not known; its own network is no overlap */
	const struct ip_endpoint *control; /* control listeners (TCP) */
	size_t n_control;
	uint16_t control_port; /* used on every gateway address when n_control is 0 */
	uint16_t probe_port;   /* UDP, on every gateway address */
};

/* What is live: the accepted spec, or NULL. */
struct rules_live {
	const struct spec *accepted;
	bool control_plane_live; /* its control-plane frontend is programmed */
};

/*
 * StaleGeneration alone, judged before everything else: generation lower than the accepted one's of the same
 * cluster, or equal with other content. 0 or -ESTALE.
 */
int rules_check_generation(const struct spec *wanted, const struct spec *accepted, struct vgw_err *err);

/*
 * Every other refusal reason: AddressNotAvailable, PortConflict, CIDROverlap, UnsupportedConfiguration,
 * ControlPlaneExposureChanged, ClusterChanged. `where` is the JSON pointer of the offending member (of the
 * second of two). 0 or -EINVAL with ERR filled.
 */
int rules_check(const struct spec *wanted, const struct rules_host *host, const struct rules_live *live,
		struct vgw_err *err);

/* What is accepted but deserves a word. CODE is a stable CamelCase word, e.g. PodCIDRMismatch, ServiceLBVco.
 */
typedef void rules_warn_fn(void *ctx, const char *code, const char *message, const char *fix);
void rules_warnings(const struct spec *s, rules_warn_fn *warn, void *ctx);

#endif
