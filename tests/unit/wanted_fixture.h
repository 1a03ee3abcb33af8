/* SPDX-License-Identifier: Apache-2.0 */
/* A gateway of the contract's example as its host sees it, and what a spec asks for on it. */
#ifndef TESTS_UNIT_WANTED_FIXTURE_H
#define TESTS_UNIT_WANTED_FIXTURE_H

#include <stdio.h>

#include "spec_text.h"
#include "vgw/model/wanted.h"

/* Backends and a private gateway, dual stack or not, with further members. */
#define BACKEND(last)	  "{'address':'192.168.150." last "','port':6443}"
#define THREE_BACKENDS	  "'backends':[" BACKEND("11") "," BACKEND("12") "," BACKEND("13") "]"
#define APISERVER	  "{'name':'kube-apiserver','port':6443," THREE_BACKENDS "}"
#define DUAL(members)	  "{" SPEC_HEAD "," SPEC_NETWORKS ",'controlPlaneExposure':'private'" members "}"
#define PEER_NETWORK(net) "'peer':{'cloudspaceId':'cs-7f2a','privateNetwork':'" net "'}"

struct wanted_fixture {
	struct arena *arena;
	struct spec *spec;
	struct wanted_host host;
	const struct wanted_verdict *const *verdicts;
	struct netstate state;
};

static inline struct ip_addr address_of(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_addr_parse(text, &a), 0);
	return a;
}

static inline struct ip_prefix network_of(const char *text)
{
	struct ip_prefix p;

	assert_int_equal(ip_prefix_parse(text, &p), 0);
	return p;
}

static inline struct ip_endpoint endpoint_of(const char *text)
{
	struct ip_endpoint e;

	assert_int_equal(ip_endpoint_parse(text, &e), 0);
	return e;
}

/* eth1 inside, eth0 outside with 203.0.113.5, control on the gateway address. */
static inline struct wanted_host host_of_example(void)
{
	static struct ip_endpoint control;

	control = endpoint_of("192.168.150.1:9443");
	return (struct wanted_host){.private_if = "eth1",
				    .external_if = "eth0",
				    .external = {address_of("203.0.113.5")},
				    .own = {address_of("192.168.150.1")},
				    .control = &control,
				    .n_control = 1,
				    .probe_port = 9444};
}

static inline void wanted_start(struct wanted_fixture *x, const char *text)
{
	memset(x, 0, sizeof(*x));
	x->arena = arena_new();
	assert_non_null(x->arena);
	x->spec = spec_of(text);
	x->host = host_of_example();
}

static inline void wanted_finish(struct wanted_fixture *x)
{
	struct wanted_input in = {.spec = x->spec, .host = &x->host, .verdicts = x->verdicts};

	assert_int_equal(wanted_make(&in, x->arena, &x->state), 0);
}

static inline void wanted_free(struct wanted_fixture *x)
{
	spec_free(x->spec);
	arena_free(x->arena);
}

#endif
