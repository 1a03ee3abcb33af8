/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/kernel/sysctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int sysctl_open(const char *name, int flags)
{
	char path[NS_SYSCTL_NAME + 16];
	int fd;

	if (strstr(name, ".."))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int sysctl_read(const char *name, char value[NS_SYSCTL_VALUE])
{
	int fd = sysctl_open(name, O_RDONLY);
	ssize_t n;

	memset(value, 0, NS_SYSCTL_VALUE);
	if (fd < 0)
		return fd;
	n = read(fd, value, NS_SYSCTL_VALUE - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return (int)n;
	value[strcspn(value, "\n")] = '\0';
	return 0;
}

int sysctl_write(const struct ns_sysctl *s, struct vgw_err *err)
{
	int fd = sysctl_open(s->name, O_WRONLY), rc = 0;

	if (fd < 0)
		return vgw_err_set(err, fd,
				   fd == -EACCES || fd == -EPERM || fd == -EROFS ? "NotPermitted"
										 : "KernelError",
				   s->name, "cannot set it to %s: %s", s->value, strerror(-fd));
	if (write(fd, s->value, strlen(s->value)) < 0)
		rc = vgw_err_set(err, -errno, "KernelError", s->name, "cannot set it to %s: %s", s->value,
				 strerror(errno));
	close(fd);
	return rc;
}
