/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers of slots the frontends may soon have. Pure. */
#ifndef VGW_MODEL_PROSPECTS_H
#define VGW_MODEL_PROSPECTS_H

#include "netcfg/model/netstate.h"
#include "vgw/model/spec.h"

/* Each one is a rule or two that a new flow may have to pass: no more than these. */
enum { PROSPECTS_MAX = 64 };

/*
 * By the spec alone, so that no verdict changes them: all of a frontend's backends, one less of each weight,
 * and where all weigh the same up to three less. *OUT in ARENA, sorted and distinct, *N of them. 0 or
 * -ENOMEM.
 */
int prospects_make(const struct spec *spec, struct arena *arena, struct ns_prospect **out, size_t *n);

#endif
