/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and tables of coloured text, cut to a width. Pure. */
#ifndef VGW_CLI_TABLE_H
#define VGW_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "netcfg/base/arena.h"
#include "netcfg/base/buf.h"

enum table_style {
	TABLE_PLAIN,
	TABLE_GOOD,
	TABLE_WARN,
	TABLE_BAD,
	TABLE_FAINT,
	TABLE_BOLD,
};

/* Where it all goes, and how. */
struct table_page {
	struct buf *out;
	bool colour;
	unsigned width; /* columns; 0: as wide as it gets */
};

enum { TABLE_MAX_COLUMNS = 16, TABLE_MAX_PIECES = 3 * TABLE_MAX_COLUMNS + 1 };

/* One line in the making: put pieces, then end it. A piece's text must live until then. */
struct table_line {
	const struct table_page *page;
	size_t n;
	struct {
		const char *text; /* cleaned; NULL: spaces */
		size_t len;	  /* bytes */
		size_t width;	  /* columns */
		enum table_style style;
	} piece[TABLE_MAX_PIECES];
};

void table_line_put(struct table_line *line, enum table_style style, const char *text);
void table_line_end(struct table_line *line);

/* Cells in rows; columns that are empty in every row are left out. */
struct table {
	const char *const *headings; /* a '>' in front of one aligns its column to the right */
	unsigned columns;
	struct arena *arena; /* holds the texts */
	struct table_cell *cells;
	size_t n, capacity;
	bool failed; /* memory is out: nothing will be printed */
};

void table_init(struct table *t, const char *const *headings, unsigned columns);
/* The next cell; foreign text is made harmless here. */
void table_cell(struct table *t, enum table_style style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Cells that the row does not have are empty. */
void table_end_row(struct table *t);
/* Headings and rows, indented by two; nothing when there are no rows. */
void table_print(const struct table *t, const struct table_page *page);
void table_free(struct table *t);

#endif
