/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate authority for a trial or a small site (the verb `pki`). */
#ifndef VGW_CONTROL_PKI_H
#define VGW_CONTROL_PKI_H

#include <stddef.h>

#include "netcfg/base/err.h"

/*
 * Writes ca, server and client, each .crt and .key (ECDSA P-256, keys mode 0600), into DIR, which is made
 * when missing. An existing CA (ca.crt with ca.key) is used again, so that a second run adds to a site; a
 * client pair that is there stays, and a server pair too unless NAME or ADDRESSES ask for another (replaced
 * by rename). The server's SANs are NAME and ADDRESSES (NAME may be NULL: only the addresses; no addresses:
 * 127.0.0.1 and ::1 are not added either, the name "vgw-agent" is used). The client's CN is `controller`. CA
 * valid 10 years, leaves 825 days (from an hour ago). 0 or -errno with ERR.
 */
int pki_make(const char *dir, const char *name, const char *const *addresses, size_t n, struct vgw_err *err);

#endif
