/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of certificates and keys: read whole, replaced whole. */
#ifndef VGW_CONTROL_PEM_FILE_H
#define VGW_CONTROL_PEM_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "netcfg/base/buf.h"
#include "netcfg/base/err.h"

/* Appends the content of PATH (at most 1 MiB). 0, or -errno with ERR (`where` is PATH). */
int pem_file_read(const char *path, struct buf *out, struct vgw_err *err);
/*
 * Writes PATH.new and syncs it; the mode is that of an existing PATH, else MODE. 0, or -errno with ERR, and
 * nothing is left behind.
 */
int pem_file_prepare(const char *path, const char *text, size_t len, mode_t mode, struct vgw_err *err);
/* Renames PATH.new to PATH and syncs the folder. 0, or -errno with ERR. */
int pem_file_commit(const char *path, struct vgw_err *err);
/* Removes PATH.new. */
void pem_file_abandon(const char *path);
/* All in one. */
int pem_file_write(const char *path, const char *text, size_t len, mode_t mode, struct vgw_err *err);

#endif
