/* SPDX-License-Identifier: Apache-2.0 */
/* Words, durations and numbers of the spec. */
#include "vgw/model/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *spec_protocol_name(enum spec_protocol p)
{
	switch (p) {
	case SPEC_TCP:
		return "TCP";
	case SPEC_UDP:
		return "UDP";
	}
	return "";
}

const char *spec_balance_name(enum spec_balance b)
{
	switch (b) {
	case SPEC_ROUNDROBIN:
		return "roundrobin";
	case SPEC_RANDOM:
		return "random";
	case SPEC_SOURCE:
		return "source";
	}
	return "";
}

const char *spec_role_name(enum spec_role r)
{
	switch (r) {
	case SPEC_ROLE_GATEWAY:
		return "gateway";
	case SPEC_ROLE_MANAGEMENT:
		return "management";
	}
	return "";
}

const char *spec_exposure_name(enum spec_exposure e)
{
	switch (e) {
	case SPEC_PUBLIC:
		return "public";
	case SPEC_PRIVATE:
		return "private";
	}
	return "";
}

const char *spec_none_healthy_name(enum spec_none_healthy w)
{
	switch (w) {
	case SPEC_FAILOPEN:
		return "failopen";
	case SPEC_REJECT:
		return "reject";
	}
	return "";
}

const char *spec_check_type_name(enum spec_check_type t)
{
	switch (t) {
	case SPEC_CHECK_NONE:
		return "none";
	case SPEC_CHECK_TCP:
		return "tcp";
	case SPEC_CHECK_TLS:
		return "tls";
	case SPEC_CHECK_HTTPS:
		return "https";
	}
	return "";
}

const char *spec_encapsulation_name(enum spec_encapsulation e)
{
	switch (e) {
	case SPEC_VXLAN:
		return "vxlan";
	case SPEC_GENEVE:
		return "geneve";
	case SPEC_IPIP:
		return "ipip";
	case SPEC_WIREGUARD:
		return "wireguard";
	case SPEC_ENCAP_NONE:
		return "none";
	}
	return "";
}

uint32_t spec_encapsulation_overhead(enum spec_encapsulation e, uint8_t family)
{
	bool v6 = family == IP_V6;

	switch (e) {
	case SPEC_VXLAN:
		return v6 ? 70 : 50;
	case SPEC_GENEVE:
		return v6 ? 78 : 58;
	case SPEC_IPIP:
		return 20;
	case SPEC_WIREGUARD:
		return v6 ? 80 : 60;
	case SPEC_ENCAP_NONE:
		return 0;
	}
	return 0;
}

#define NS_PER_MS  1000000ull
#define NS_PER_DAY (24ull * 3600 * 1000 * NS_PER_MS)

/* The unit at *TEXT, in ns, and *TEXT behind it; 0 for none. Both signs for micro, as Go has them. */
static uint64_t take_unit(const char **text)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1},
		{"us", 1000},
		{"\xc2\xb5s", 1000},
		{"\xce\xbcs", 1000},
		{"ms", NS_PER_MS}, /* before "m" */
		{"s", 1000 * NS_PER_MS},
		{"m", 60 * 1000 * NS_PER_MS},
		{"h", 3600 * 1000 * NS_PER_MS},
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t n = strlen(units[i].name);

		if (!strncmp(*text, units[i].name, n)) {
			*text += n;
			return units[i].ns;
		}
	}
	return 0;
}

/* One "1.5s" of a duration, in ns; what is less than one is counted as one. */
static int take_term(const char **text, uint64_t *ns)
{
	const char *whole = *text, *fraction, *p = whole + strspn(whole, "0123456789");
	size_t n_whole = (size_t)(p - whole), n_fraction = 0;
	uint64_t unit, value = 0;
	bool rest = false;

	fraction = p;
	if (*p == '.') {
		fraction = ++p;
		n_fraction = strspn(p, "0123456789");
		p += n_fraction;
	}
	if (!n_whole && !n_fraction)
		return -EINVAL;
	unit = take_unit(&p);
	if (!unit)
		return -EINVAL;
	*text = p;
	for (size_t i = 0; i < n_whole; i++) {
		value = value * 10 + (uint64_t)(whole[i] - '0');
		if (value > NS_PER_DAY)
			return -ERANGE;
	}
	if (value > NS_PER_DAY / unit)
		return -ERANGE;
	*ns = value * unit;
	for (size_t i = 0; i < n_fraction; i++) {
		uint64_t digit = (uint64_t)(fraction[i] - '0');

		/* Places that are no whole number of ns only round up. */
		if (unit % 10) {
			rest = rest || digit;
			continue;
		}
		unit /= 10;
		*ns += digit * unit;
	}
	*ns += rest;
	return 0;
}

int spec_duration_parse(const char *text, uint32_t *ms)
{
	uint64_t total = 0, ns;
	int rc = 0, term;

	*ms = 0;
	if (!strcmp(text, "0"))
		return 0;
	do {
		term = take_term(&text, &ns);
		if (term == -EINVAL)
			return term;
		/* Too long is only said of what is a duration to its end. */
		if (term < 0)
			rc = term;
		else
			total += ns;
		if (total > NS_PER_DAY) {
			rc = -ERANGE;
			total = 0;
		}
	} while (*text);
	if (!rc)
		*ms = (uint32_t)((total + NS_PER_MS - 1) / NS_PER_MS);
	return rc;
}

const char *spec_duration_print(uint32_t ms, char *out)
{
	static const struct {
		uint32_t ms;
		const char *name;
	} units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
	size_t i = 0;

	while (ms ? ms % units[i].ms != 0 : i < 2)
		i++;
	snprintf(out, 16, "%u%s", ms / units[i].ms, units[i].name);
	return out;
}
