/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum log_level log_threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	log_threshold = level;
}

int log_level_parse(const char *name, enum log_level *out)
{
	static const struct {
		const char *name;
		enum log_level level;
	} levels[] = {
		{"error", LOG_LEVEL_ERROR},
		{"warning", LOG_LEVEL_WARNING},
		{"info", LOG_LEVEL_INFO},
		{"debug", LOG_LEVEL_DEBUG},
	};

	for (unsigned i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (!strcmp(name, levels[i].name)) {
			*out = levels[i].level;
			return 0;
		}
	}
	return -EINVAL;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	if (level > log_threshold)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	/* A line break in foreign text must not forge a second entry. */
	for (char *p = line; *p; p++)
		if (*p == '\n' || *p == '\r')
			*p = ' ';
	if (getenv("JOURNAL_STREAM"))
		fprintf(stderr, "<%d>%s\n", (int)level, line);
	else
		fprintf(stderr, "vgw-agent: %s\n", line);
}
