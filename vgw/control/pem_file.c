/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/control/pem_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PEM_FILE_MAX = 1 << 20 };

int pem_file_read(const char *path, struct buf *out, struct vgw_err *err)
{
	char chunk[4096];
	struct stat st;
	ssize_t n;
	int rc = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st)) {
		rc = vgw_err_set(err, -errno, "FileUnreadable", path, "%s", strerror(errno));
	} else if (!S_ISREG(st.st_mode) || st.st_size > PEM_FILE_MAX) {
		rc = vgw_err_set(err, -EINVAL, "FileUnreadable", path, "not a file of reasonable size");
	} else {
		while ((n = read(fd, chunk, sizeof(chunk))) > 0 && out->len <= PEM_FILE_MAX)
			buf_append(out, chunk, (size_t)n);
		if (n < 0)
			rc = vgw_err_set(err, -errno, "FileUnreadable", path, "%s", strerror(errno));
		else if (out->failed)
			rc = vgw_err_set(err, -ENOMEM, "OutOfMemory", path, "no memory to read the file");
		explicit_bzero(chunk, sizeof(chunk));
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int aside(const char *path, char *out, struct vgw_err *err)
{
	if (snprintf(out, PATH_MAX, "%s.new", path) >= PATH_MAX)
		return vgw_err_set(err, -ENAMETOOLONG, "FileUnwritable", path, "the path is too long");
	return 0;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) ? -errno : 0;
}

int pem_file_prepare(const char *path, const char *text, size_t len, mode_t mode, struct vgw_err *err)
{
	char name[PATH_MAX];
	struct stat st;
	bool known;
	int fd, rc = aside(path, name, err);

	if (rc)
		return rc;
	known = stat(path, &st) == 0;
	unlink(name);
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return vgw_err_set(err, -errno, "FileUnwritable", name, "%s", strerror(errno));
	/* Whoever could read the old file can read the new one, and nobody else. */
	if (known && !fchown(fd, st.st_uid, st.st_gid))
		mode = st.st_mode & 0777;
	if (fchmod(fd, mode))
		rc = -errno;
	if (!rc)
		rc = write_all(fd, text, len);
	if (close(fd) && !rc)
		rc = -errno;
	if (!rc)
		return 0;
	unlink(name);
	return vgw_err_set(err, rc, "FileUnwritable", name, "%s", strerror(-rc));
}

static void sync_folder(const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int fd;

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

int pem_file_commit(const char *path, struct vgw_err *err)
{
	char name[PATH_MAX];
	int rc = aside(path, name, err);

	if (rc)
		return rc;
	if (rename(name, path))
		return vgw_err_set(err, -errno, "FileUnwritable", path, "%s", strerror(errno));
	sync_folder(path);
	return 0;
}

void pem_file_abandon(const char *path)
{
	char name[PATH_MAX];

	if (!aside(path, name, NULL))
		unlink(name);
}

int pem_file_write(const char *path, const char *text, size_t len, mode_t mode, struct vgw_err *err)
{
	int rc = pem_file_prepare(path, text, len, mode, err);

	if (rc)
		return rc;
	rc = pem_file_commit(path, err);
	if (rc)
		pem_file_abandon(path);
	return rc;
}
