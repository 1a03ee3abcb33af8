/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0'; /* the abstract namespace, unix(7) */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* The service manager may be gone or slow: nothing here depends on it. */
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}

double notify_watchdog_interval(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	double interval;

	if (!usec || (pid && strtol(pid, NULL, 10) != (long)getpid()))
		return 0;
	interval = strtod(usec, NULL) / 1e6 / 2;
	return interval > 0 ? interval : 0;
}
