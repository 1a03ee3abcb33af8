/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign text on a terminal: harmless, and as wide as it says. Pure. */
#ifndef VGW_CLI_TEXT_H
#define VGW_CLI_TEXT_H

#include <stddef.h>

#include "netcfg/base/buf.h"

/*
 * Appends S to OUT such that it cannot steer a terminal or pretend to be another line: tabs and line ends
 * become spaces; control characters (C0, C1, DEL), those that turn the direction of writing, and what is not
 * UTF-8 become '?'.
 */
void text_clean(struct buf *out, const char *s);
/* The columns that cleaned text takes: 0 for combining, 2 for East Asian wide characters. */
size_t text_width(const char *s);
/* How many bytes of cleaned text fit into COLUMNS; *WIDTH is what they take. */
size_t text_fit(const char *s, size_t columns, size_t *width);

#endif
