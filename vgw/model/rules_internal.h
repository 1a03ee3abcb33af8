/* SPDX-License-Identifier: Apache-2.0 */
/* The families of rules, each 0 or -EINVAL with ERR filled. */
#ifndef VGW_MODEL_RULES_INTERNAL_H
#define VGW_MODEL_RULES_INTERNAL_H

#include "vgw/model/rules.h"

/* CIDROverlap: among the spec's networks, and with those of HOST. Also -ENOMEM. */
int rules_check_overlap(const struct spec *s, const struct rules_host *host, struct vgw_err *err);

/* PortConflict. Also -ENOMEM. */
int rules_check_ports(const struct spec *s, const struct rules_host *host, struct vgw_err *err);

/* Does one of P contain NETWORK? */
bool rules_any_contains(const struct spec_prefixes *p, const struct ip_prefix *network);

#endif
