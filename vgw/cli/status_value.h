/* SPDX-License-Identifier: Apache-2.0 */
/* Members of the status document as short text for a cell. Pure; a missing member is "". */
#ifndef VGW_CLI_STATUS_VALUE_H
#define VGW_CLI_STATUS_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgw/cli/table.h"

struct cJSON;

/* Text that is printed into place. */
struct value_text {
	char s[64];
};

/* A member by its name, in its case; NULL when O is NULL or has none. */
const struct cJSON *value_member(const struct cJSON *o, const char *name);
/* The objects of an array that is a member; what else it has is passed over. NULL at the end. */
const struct cJSON *value_first(const struct cJSON *o, const char *name);
const struct cJSON *value_next(const struct cJSON *element);
/* "" when it is missing or no string. */
const char *value_string(const struct cJSON *o, const char *name);
/* False when it is missing or no number. */
bool value_number(const struct cJSON *o, const char *name, double *out);
/* Exactly false, not missing. */
bool value_is_false(const struct cJSON *o, const char *name);

/* A whole number, with UNIT behind it. */
const char *value_count(const struct cJSON *o, const char *name, const char *unit, struct value_text *out);
/* Milliseconds: "3.1ms", "40ms", "1.20s". */
const char *value_latency(const struct cJSON *o, const char *name, struct value_text *out);
/* "192.168.150.1:6443", "[fd00::1]:6443"; without a port the address. */
const char *value_endpoint(const struct cJSON *o, const char *address, const char *port,
			   struct value_text *out);

/* RFC 3339 in UTC to Unix seconds. */
bool value_time(const struct cJSON *o, const char *name, int64_t *out);
/* How long ago that was at NOW: "42s", "5m12s", "3h", "2d"; the raw text when it is no time or NOW is 0. */
const char *value_age(const struct cJSON *o, const char *name, int64_t now, struct value_text *out);
/* Whole days from NOW until then; false when one of the two is not known. */
bool value_days_until(const struct cJSON *o, const char *name, int64_t now, long *days);

/* The colour of a word of the contract: a state, a code, the status of a condition. */
enum table_style value_style(const char *word);

#endif
