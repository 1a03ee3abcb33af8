/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/cli/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/cli/text.h"

enum { NARROWEST_CAP = 24 }; /* a cell of an inner column is never cut below this */

struct table_cell {
	const char *text;
	size_t width;
	enum table_style style;
};

static const char *escape(enum table_style style)
{
	switch (style) {
	case TABLE_PLAIN:
		return "";
	case TABLE_GOOD:
		return "\x1b[32m";
	case TABLE_WARN:
		return "\x1b[33m";
	case TABLE_BAD:
		return "\x1b[31m";
	case TABLE_FAINT:
		return "\x1b[2m";
	case TABLE_BOLD:
		return "\x1b[1m";
	}
	return "";
}

static void put_piece(struct table_line *line, enum table_style style, const char *text, size_t len,
		      size_t width)
{
	if (!width || line->n == TABLE_MAX_PIECES)
		return;
	line->piece[line->n].text = text;
	line->piece[line->n].len = len;
	line->piece[line->n].width = width;
	line->piece[line->n].style = style;
	line->n++;
}

void table_line_put(struct table_line *line, enum table_style style, const char *text)
{
	put_piece(line, style, text, strlen(text), text_width(text));
}

static void write_piece(const struct table_page *page, enum table_style style, const char *text, size_t len)
{
	const char *on = page->colour ? escape(style) : "";

	if (!len)
		return;
	buf_puts(page->out, on);
	buf_append(page->out, text, len);
	if (*on)
		buf_puts(page->out, "\x1b[0m");
}

/* How many bytes of TEXT, at most LEN, fit into COLUMNS. */
static size_t fitting(const char *text, size_t len, size_t columns, size_t *width)
{
	size_t fit = text_fit(text, columns, width);

	return fit < len ? fit : len;
}

void table_line_end(struct table_line *line)
{
	const struct table_page *page = line->page;
	size_t total = 0, left, width;
	bool cut;

	for (size_t i = 0; i < line->n; i++)
		total += line->piece[i].width;
	cut = page->width && total > page->width;
	left = cut ? page->width - 1 : total;
	for (size_t i = 0; i < line->n && left; i++) {
		const char *text = line->piece[i].text;
		size_t len = line->piece[i].len;

		if (line->piece[i].width <= left)
			width = line->piece[i].width;
		else if (text)
			len = fitting(text, len, left, &width);
		else
			width = left;
		if (text)
			write_piece(page, line->piece[i].style, text, len);
		else
			buf_printf(page->out, "%*s", (int)width, "");
		left = line->piece[i].width > width ? 0 : left - width;
	}
	if (cut)
		write_piece(page, TABLE_FAINT, ">", 1);
	buf_append(page->out, "\n", 1);
	line->n = 0;
}

void table_init(struct table *t, const char *const *headings, unsigned columns)
{
	memset(t, 0, sizeof(*t));
	t->headings = headings;
	t->columns = columns <= TABLE_MAX_COLUMNS ? columns : TABLE_MAX_COLUMNS;
	t->arena = arena_new();
	t->failed = !t->arena;
}

static struct table_cell *next_cell(struct table *t)
{
	if (t->n == t->capacity && !t->failed) {
		size_t capacity = t->capacity ? 2 * t->capacity : 256;
		struct table_cell *cells = reallocarray(t->cells, capacity, sizeof(*cells));

		t->failed = !cells;
		if (cells) {
			t->cells = cells;
			t->capacity = capacity;
		}
	}
	return t->failed ? NULL : &t->cells[t->n++];
}

void table_cell(struct table *t, enum table_style style, const char *fmt, ...)
{
	struct table_cell *cell = next_cell(t);
	struct buf clean = {0};
	char *raw = NULL;
	va_list ap;

	if (!cell)
		return;
	va_start(ap, fmt);
	if (vasprintf(&raw, fmt, ap) < 0)
		raw = NULL;
	va_end(ap);
	if (raw)
		text_clean(&clean, raw);
	cell->text = raw && !clean.failed ? arena_strdup(t->arena, buf_str(&clean)) : NULL;
	t->failed = !cell->text;
	cell->width = cell->text ? text_width(cell->text) : 0;
	cell->style = style;
	buf_free(&clean);
	free(raw);
}

void table_end_row(struct table *t)
{
	while (!t->failed && t->n % t->columns)
		table_cell(t, TABLE_PLAIN, "%s", "");
}

static void put_row(const struct table *t, const struct table_page *page, const struct table_cell *row,
		    const size_t *width, unsigned last)
{
	struct table_line line = {.page = page};
	size_t gap = 2; /* the indentation; then what has been left free since the last text */

	for (unsigned c = 0; c <= last; c++) {
		const char *text = row[c].text;
		size_t w = row[c].width, free_columns;

		if (!width[c])
			continue;
		if (!w) {
			gap += width[c] + 2;
			continue;
		}
		free_columns = w < width[c] ? width[c] - w : 0;
		if (t->headings[c][0] == '>')
			gap += free_columns;
		put_piece(&line, TABLE_PLAIN, NULL, 0, gap);
		if (w > width[c] && c != last) {
			size_t used, len = text_fit(text, width[c] - 1, &used);

			put_piece(&line, row[c].style, text, len, used);
			put_piece(&line, TABLE_FAINT, ">", 1, 1);
			free_columns = width[c] - 1 - used;
		} else {
			put_piece(&line, row[c].style, text, strlen(text), w);
		}
		gap = 2 + (t->headings[c][0] == '>' ? 0 : free_columns);
	}
	table_line_end(&line);
}

static const char *heading(const struct table *t, unsigned column)
{
	return t->headings[column] + (t->headings[column][0] == '>');
}

/* The columns' widths; 0 for one that is empty in every row. The index of the last that is not. */
static unsigned measure(const struct table *t, unsigned page_width, size_t *width)
{
	size_t cap = page_width ? page_width / 2 : SIZE_MAX;
	unsigned last = 0;

	memset(width, 0, TABLE_MAX_COLUMNS * sizeof(*width));
	for (size_t i = 0; i < t->n; i++)
		if (t->cells[i].width > width[i % t->columns])
			width[i % t->columns] = t->cells[i].width;
	if (cap < NARROWEST_CAP)
		cap = NARROWEST_CAP;
	for (unsigned c = 0; c < t->columns; c++) {
		size_t least = text_width(heading(t, c));

		if (!width[c])
			continue;
		last = c;
		if (width[c] < least)
			width[c] = least;
		if (width[c] > cap)
			width[c] = cap;
	}
	return last;
}

void table_print(const struct table *t, const struct table_page *page)
{
	struct table_cell head[TABLE_MAX_COLUMNS];
	size_t width[TABLE_MAX_COLUMNS];
	unsigned last;

	if (t->failed || !t->n)
		return;
	last = measure(t, page->width, width);
	for (unsigned c = 0; c < t->columns; c++)
		head[c] = (struct table_cell){heading(t, c), text_width(heading(t, c)), TABLE_FAINT};
	put_row(t, page, head, width, last);
	for (size_t i = 0; i + t->columns <= t->n; i += t->columns)
		put_row(t, page, t->cells + i, width, last);
}

void table_free(struct table *t)
{
	arena_free(t->arena);
	free(t->cells);
	memset(t, 0, sizeof(*t));
}
