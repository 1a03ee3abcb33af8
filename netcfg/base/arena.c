/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BLOCK = 16384 };

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	alignas(max_align_t) unsigned char data[];
};

struct arena {
	struct arena_block *blocks;
};

struct arena *arena_new(void)
{
	return calloc(1, sizeof(struct arena));
}

void arena_free(struct arena *a)
{
	struct arena_block *b, *next;

	if (!a)
		return;
	for (b = a->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(a);
}

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_block *b = a->blocks;
	void *p;

	size = size ? (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1) : alignof(max_align_t);
	if (!b || b->size - b->used < size) {
		size_t room = a->blocks ? ARENA_BLOCK : 1024;

		if (room < size)
			room = size;
		b = calloc(1, sizeof(*b) + room);
		if (!b)
			return NULL;
		b->size = room;
		b->next = a->blocks;
		a->blocks = b;
	}
	p = b->data + b->used;
	b->used += size;
	return p;
}

void *arena_calloc(struct arena *a, size_t n, size_t size)
{
	if (size && n > SIZE_MAX / 2 / size)
		return NULL;
	return arena_alloc(a, n * size);
}

char *arena_strdup(struct arena *a, const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = arena_alloc(a, n);

	return p ? memcpy(p, s, n) : NULL;
}
