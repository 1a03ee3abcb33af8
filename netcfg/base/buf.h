/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer, always NUL-terminated behind its length. */
#ifndef NETCFG_BASE_BUF_H
#define NETCFG_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise. `failed` latches an allocation failure: check it once, at the end. */
struct buf {
	char *data; /* NULL until the first byte; owned */
	size_t len;
	size_t cap;
	bool failed;
};

void buf_append(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Drop the first N bytes. */
void buf_consume(struct buf *b, size_t n);
/* The text so far; "" for an empty buffer. Valid until the next call. */
const char *buf_str(const struct buf *b);
/* Hand the memory (may be NULL) to the caller, who frees it with free(3). */
char *buf_take(struct buf *b);
void buf_free(struct buf *b);
/* Overwrite the content before freeing it: for keys. */
void buf_wipe(struct buf *b);

#endif
