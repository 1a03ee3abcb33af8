/* SPDX-License-Identifier: Apache-2.0 */
/* Specs from C strings, with ' for ". */
#ifndef TESTS_UNIT_SPEC_TEXT_H
#define TESTS_UNIT_SPEC_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "vgw/model/spec.h"

#define SPEC_HEAD     "'apiVersion':'vgw-agent/v1','generation':3,'cluster':'c'"
#define SPEC_NETWORK  "'cloudspace':{'privateNetwork':'192.168.150.0/24'}"
#define SPEC_NETWORKS "'cloudspace':{'privateNetworks':['192.168.150.0/24','fd00:150::/64']}"
/* A spec with further members; with frontends; with one frontend that has further members. */
#define SPEC(members)	     "{" SPEC_HEAD "," SPEC_NETWORK members "}"
#define PRIVATE(members)     SPEC(",'controlPlaneExposure':'private'" members)
#define FRONTENDS(elements)  PRIVATE(",'frontends':[" elements "]")
#define FRONTEND(members)    FRONTENDS("{'name':'a','port':80" members "}")
#define HEALTH_CHECK(member) FRONTEND(",'healthCheck':{" member "}")
#define BACKENDS(elements)   FRONTEND(",'backends':[" elements "]")
#define TUNNELS(elements)    SPEC(",'tunnels':[" elements "]")
#define TUNNEL(members)	     TUNNELS("{'name':'t','interface':'wg0'" members "}")
#define PROBES(elements)     SPEC(",'probes':[" elements "]")
#define PROBE(members)	     PROBES("{'name':'p','target':'192.0.2.1:443'" members "}")

/* TEXT with ' made ", for free(3). */
static inline char *spec_text(const char *text)
{
	char *s = strdup(text);

	assert_non_null(s);
	for (char *p = s; *p; p++)
		if (*p == '\'')
			*p = '"';
	return s;
}

static inline int spec_try(const char *text, struct spec **out, struct vgw_err *err)
{
	char *s = spec_text(text);
	int rc;

	memset(err, 0, sizeof(*err));
	rc = spec_decode(s, strlen(s), out, err);
	free(s);
	return rc;
}

/* A spec that must be accepted. */
static inline struct spec *spec_of(const char *text)
{
	struct vgw_err err;
	struct spec *s;

	if (spec_try(text, &s, &err) < 0)
		fail_msg("%s: %s at \"%s\", for %s", err.reason, err.text, err.where, text);
	assert_string_equal(err.reason, "");
	return s;
}

static inline void assert_address(const struct ip_addr *a, const char *expected)
{
	char text[IP_ADDR_STRLEN];

	assert_string_equal(ip_addr_print(a, text), expected);
}

static inline void assert_network(const struct ip_prefix *p, const char *expected)
{
	char text[IP_PREFIX_STRLEN];

	assert_string_equal(p->addr.family ? ip_prefix_print(p, text) : "", expected);
}

#endif
