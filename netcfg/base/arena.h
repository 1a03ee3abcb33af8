/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for what lives and dies with one generation: many allocations, one free. */
#ifndef NETCFG_BASE_ARENA_H
#define NETCFG_BASE_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena_new(void);
/* NULL is fine. */
void arena_free(struct arena *a);
/* Zeroed, aligned for any type; NULL when memory is out. SIZE 0 gives a valid pointer. */
void *arena_alloc(struct arena *a, size_t size);
void *arena_calloc(struct arena *a, size_t n, size_t size);
char *arena_strdup(struct arena *a, const char *s);

#endif
