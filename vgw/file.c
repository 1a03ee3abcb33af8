/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct vgw_err *err, int rc, const char *path, const char *what)
{
	return vgw_err_set(err, rc, "FileError", path, "cannot %s: %s", what, strerror(-rc));
}

int file_read(const char *path, size_t max, struct buf *out, struct vgw_err *err)
{
	char chunk[16384];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return fail(err, -errno, path, "open it");
	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || out->len + (size_t)n > max) {
			int rc = n < 0 ? -errno : -EFBIG;

			close(fd);
			return fail(err, rc, path, "read it");
		}
		buf_append(out, chunk, (size_t)n);
	}
	close(fd);
	return out->failed ? fail(err, -ENOMEM, path, "read it") : 0;
}

static int sync_directory(const char *path)
{
	char copy[4096];
	int fd, rc;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

int file_replace(const char *path, const void *data, size_t len, unsigned mode, struct vgw_err *err)
{
	char temporary[4096];
	int fd, rc;

	if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary))
		return fail(err, -ENAMETOOLONG, path, "write it");
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0)
		return fail(err, -errno, temporary, "write it");
	rc = write_all(fd, data, len);
	if (close(fd) < 0 && !rc)
		rc = -errno;
	if (!rc && rename(temporary, path) < 0)
		rc = -errno;
	if (rc) {
		unlink(temporary);
		return fail(err, rc, path, "write it");
	}
	rc = sync_directory(path);
	return rc ? fail(err, rc, path, "sync its directory") : 0;
}

int file_remove(const char *path, struct vgw_err *err)
{
	if (unlink(path) < 0)
		return errno == ENOENT ? 0 : fail(err, -errno, path, "remove it");
	sync_directory(path);
	return 0;
}
