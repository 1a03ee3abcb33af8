/* SPDX-License-Identifier: Apache-2.0 */
/* The status document as a table for people. Pure: "now" is the document's own time. */
#ifndef VGW_CLI_STATUS_TABLE_H
#define VGW_CLI_STATUS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "netcfg/base/buf.h"

/*
 * Appends the table of a status document (CONTRACT.md 5) to OUT. Members that are missing or of another type
 * are left out. Foreign text cannot steer the terminal. WIDTH: columns that a line may take; 0 for any
 * number.
 */
void status_table_render(const char *json, size_t len, bool colour, unsigned width, struct buf *out);

#endif
