/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of one test's own, and files in it. */
#ifndef TESTS_UNIT_DIRECTORY_H
#define TESTS_UNIT_DIRECTORY_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct directory {
	char path[64];
};

static inline void directory_make(struct directory *d)
{
	strcpy(d->path, "/tmp/vgw-test-XXXXXX");
	assert_non_null(mkdtemp(d->path));
}

static inline int directory_unlink(const char *path, const struct stat *st, int flag, struct FTW *w)
{
	return remove(path);
}

static inline void directory_remove(struct directory *d)
{
	nftw(d->path, directory_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* Its path into OUT, which is returned. */
static inline const char *directory_file(const struct directory *d, const char *name, char out[256])
{
	snprintf(out, 256, "%s/%s", d->path, name);
	return out;
}

static inline void directory_write(const struct directory *d, const char *name, const void *data, size_t len)
{
	char path[256];
	FILE *f = fopen(directory_file(d, name, path), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static inline int directory_has(const struct directory *d, const char *name)
{
	char path[256];

	return access(directory_file(d, name, path), F_OK) == 0;
}

#endif
