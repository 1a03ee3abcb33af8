/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness and watchdog messages to systemd: the datagram protocol of sd_notify(3). */
#ifndef VGW_NOTIFY_H
#define VGW_NOTIFY_H

/* Sends STATE ("READY=1", "WATCHDOG=1", "STATUS=…", newline-separated) where NOTIFY_SOCKET says; nothing
 * without it. */
void notify_send(const char *state);
/* Seconds between two WATCHDOG=1 (half of what WATCHDOG_USEC allows); 0 when none is asked of this process.
 */
double notify_watchdog_interval(void);

#endif
