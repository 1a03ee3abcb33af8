/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, read within a bound and replaced atomically. */
#ifndef VGW_FILE_H
#define VGW_FILE_H

#include <stddef.h>

#include "netcfg/base/buf.h"
#include "netcfg/base/err.h"

/* Appends to OUT. -EFBIG beyond MAX bytes; -errno; ERR (reason FileError) names the file. */
int file_read(const char *path, size_t max, struct buf *out, struct vgw_err *err);
/* A temporary file beside it, written, synced and renamed, and the directory synced: the old or the new,
 * never less. */
int file_replace(const char *path, const void *data, size_t len, unsigned mode, struct vgw_err *err);
/* With the directory synced; one that is not there is fine. */
int file_remove(const char *path, struct vgw_err *err);

#endif
