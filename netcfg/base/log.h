/* SPDX-License-Identifier: Apache-2.0 */
/* One line per decision, to stderr, with the journal's priority prefix (sd-daemon(3)) when it goes there. */
#ifndef NETCFG_BASE_LOG_H
#define NETCFG_BASE_LOG_H

enum log_level {
	LOG_LEVEL_ERROR = 3, /* syslog(3) severities */
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

void log_set_level(enum log_level level);
/* "error", "warning", "info", "debug"; -EINVAL for anything else. */
int log_level_parse(const char *name, enum log_level *out);
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)	 log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)	 log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)	 log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
