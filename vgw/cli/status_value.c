/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/cli/status_value.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const struct cJSON *value_member(const struct cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

static const struct cJSON *object_from(const struct cJSON *element)
{
	while (element && !cJSON_IsObject(element))
		element = element->next;
	return element;
}

const struct cJSON *value_first(const struct cJSON *o, const char *name)
{
	const struct cJSON *list = value_member(o, name);

	return cJSON_IsArray(list) ? object_from(list->child) : NULL;
}

const struct cJSON *value_next(const struct cJSON *element)
{
	return object_from(element->next);
}

const char *value_string(const struct cJSON *o, const char *name)
{
	const char *s = cJSON_GetStringValue(value_member(o, name));

	return s ? s : "";
}

bool value_number(const struct cJSON *o, const char *name, double *out)
{
	const struct cJSON *v = value_member(o, name);

	if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
		return false;
	*out = v->valuedouble;
	return true;
}

bool value_is_false(const struct cJSON *o, const char *name)
{
	return cJSON_IsFalse(value_member(o, name));
}

const char *value_count(const struct cJSON *o, const char *name, const char *unit, struct value_text *out)
{
	double v;

	out->s[0] = '\0';
	if (value_number(o, name, &v))
		snprintf(out->s, sizeof(out->s), "%.*f%s", v == floor(v) ? 0 : 1, v, unit);
	return out->s;
}

const char *value_latency(const struct cJSON *o, const char *name, struct value_text *out)
{
	double ms;

	out->s[0] = '\0';
	if (!value_number(o, name, &ms))
		return out->s;
	if (ms < 1000)
		snprintf(out->s, sizeof(out->s), "%.*fms", ms < 10 && ms != floor(ms) ? 1 : 0, ms);
	else
		snprintf(out->s, sizeof(out->s), "%.2fs", ms / 1000);
	return out->s;
}

const char *value_endpoint(const struct cJSON *o, const char *address, const char *port,
			   struct value_text *out)
{
	const char *host = value_string(o, address);
	double p;

	if (!value_number(o, port, &p))
		snprintf(out->s, sizeof(out->s), "%s", host);
	else
		snprintf(out->s, sizeof(out->s), strchr(host, ':') ? "[%s]:%.0f" : "%s:%.0f", host, p);
	return out->s;
}

bool value_time(const struct cJSON *o, const char *name, int64_t *out)
{
	const char *s = value_string(o, name);
	struct tm tm = {0};
	int end = 0;

	if (sscanf(s, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
		   &tm.tm_min, &tm.tm_sec, &end) < 6)
		return false;
	s += end;
	if (*s == '.')
		s += 1 + strspn(s + 1, "0123456789");
	if (strcmp(s, "Z") != 0)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*out = timegm(&tm);
	return true;
}

const char *value_age(const struct cJSON *o, const char *name, int64_t now, struct value_text *out)
{
	int64_t then, s;

	if (!now || !value_time(o, name, &then)) {
		snprintf(out->s, sizeof(out->s), "%s", value_string(o, name));
		return out->s;
	}
	s = now > then ? now - then : 0;
	if (s < 120)
		snprintf(out->s, sizeof(out->s), "%ds", (int)s);
	else if (s < 600)
		snprintf(out->s, sizeof(out->s), "%dm%02ds", (int)(s / 60), (int)(s % 60));
	else if (s < 3 * 3600)
		snprintf(out->s, sizeof(out->s), "%dm", (int)(s / 60));
	else if (s < 48 * 3600)
		snprintf(out->s, sizeof(out->s), "%dh", (int)(s / 3600));
	else
		snprintf(out->s, sizeof(out->s), "%lldd", (long long)(s / 86400));
	return out->s;
}

bool value_days_until(const struct cJSON *o, const char *name, int64_t now, long *days)
{
	int64_t then;

	if (!now || !value_time(o, name, &then))
		return false;
	*days = then >= now ? (long)((then - now) / 86400) : -(long)((now - then) / 86400) - 1;
	return true;
}

enum table_style value_style(const char *word)
{
	static const struct {
		const char *word;
		enum table_style style;
	} styles[] = {
		{"True", TABLE_GOOD},
		{"False", TABLE_BAD},
		{"Unknown", TABLE_WARN},
		/* frontends */
		{"Programmed", TABLE_GOOD},
		{"Degraded", TABLE_WARN},
		{"FailOpen", TABLE_WARN},
		{"Pending", TABLE_WARN},
		{"Ignored", TABLE_FAINT},
		{"NoBackends", TABLE_BAD},
		{"Failed", TABLE_BAD},
		/* backends, probes, tunnels */
		{"Up", TABLE_GOOD},
		{"Draining", TABLE_WARN},
		{"Dead", TABLE_BAD},
		{"Absent", TABLE_BAD},
		{"Down", TABLE_BAD},
		{"OneWayTx", TABLE_WARN},
		{"OneWayRx", TABLE_WARN},
		{"BlackHole", TABLE_BAD},
		{"NoRoute", TABLE_BAD},
		/* checks; NoRoute is above */
		{"OK", TABLE_GOOD},
		{"Refused", TABLE_BAD},
		{"Unreachable", TABLE_BAD},
		{"Timeout", TABLE_BAD},
		{"TLSFailed", TABLE_WARN},
		{"CertificateInvalid", TABLE_WARN},
		{"HTTPStatus", TABLE_WARN},
		{"AuthRequired", TABLE_WARN},
		{"Malformed", TABLE_WARN},
		/* MTUs */
		{"InSync", TABLE_GOOD},
		{"Contested", TABLE_BAD},
		{"OutOfRange", TABLE_BAD},
		{"Working", TABLE_GOOD},
	};

	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
		if (!strcmp(styles[i].word, word))
			return styles[i].style;
	return TABLE_PLAIN;
}
