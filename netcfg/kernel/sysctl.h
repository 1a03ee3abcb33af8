/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's settings below /proc/sys, of our own network namespace. */
#ifndef NETCFG_KERNEL_SYSCTL_H
#define NETCFG_KERNEL_SYSCTL_H

#include "netcfg/base/err.h"
#include "netcfg/model/netstate.h"

/* The value without its line end. 0; -ENOENT where the kernel has no such setting; -errno. */
int sysctl_read(const char *name, char value[NS_SYSCTL_VALUE]);
int sysctl_write(const struct ns_sysctl *s, struct vgw_err *err);

#endif
