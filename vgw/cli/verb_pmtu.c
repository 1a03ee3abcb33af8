/* SPDX-License-Identifier: Apache-2.0 */
/* pmtu: the path MTU to an address, measured from here. */
#include "vgw/cli/cli.h"

#include <errno.h>
#include <ev.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgw/cli/text.h"
#include "vgw/model/json_writer.h"
#include "vgw/model/spec.h"
#include "vgw/probe/echo.h"

struct measurement {
	const char *name; /* as it was asked for */
	struct ip_addr address;
	uint32_t max; /* 0: what the device takes */
	bool json, progress;
	int status;
};

static const enum spec_encapsulation encapsulations[] = {SPEC_VXLAN, SPEC_GENEVE, SPEC_IPIP, SPEC_WIREGUARD};
enum { N_ENCAPSULATIONS = sizeof(encapsulations) / sizeof(encapsulations[0]) };

/* What is left for a pod's packet; 0 where nothing is. */
static uint32_t pod_mtu(const struct measurement *m, uint32_t mtu, enum spec_encapsulation e)
{
	uint32_t cost = spec_encapsulation_overhead(e, m->address.family);

	return mtu > cost ? mtu - cost : 0;
}

static void show_progress(void *ctx, const struct echo_progress *p)
{
	const struct measurement *m = ctx;

	if (m->progress)
		fprintf(stderr, "\r%u to %u bytes, %u packets\x1b[K", p->low, p->high, p->sent);
}

static int print_json(const struct measurement *m, const struct echo_result *r)
{
	struct buf b = {0};
	char address[IP_ADDR_STRLEN];
	int rc = CLI_DONE;

	json_put_open(&b, NULL, "{");
	json_put_string(&b, "address", ip_addr_print(&m->address, address));
	json_put_int(&b, "mtu", r->path.mtu);
	json_put_string(&b, "pmtud", pmtu_verdict_name(r->path.pmtud));
	json_put_string(&b, "method", "ICMPEcho");
	json_put_tenths(&b, "elapsedMs", (double)r->path.elapsed_us / 1e3);
	json_put_open(&b, "maxPodMTU", "{");
	for (size_t i = 0; i < N_ENCAPSULATIONS; i++)
		json_put_int(&b, spec_encapsulation_name(encapsulations[i]),
			     pod_mtu(m, r->path.mtu, encapsulations[i]));
	buf_puts(&b, "}}\n");
	if (b.failed || fputs(buf_str(&b), stdout) < 0)
		rc = CLI_FAILED;
	buf_free(&b);
	return rc;
}

static const char *explain(const struct measurement *m, const struct echo_result *r)
{
	if (r->path.at_ceiling && m->max && r->path.mtu == m->max)
		return "Working (nothing larger was tried)";
	if (r->path.at_ceiling)
		return "Working (all that the device here can send gets through)";
	if (r->path.pmtud == PMTU_WORKING)
		return "Working (what is too large is reported)";
	return "BlackHole (what is larger vanishes without a usable report)";
}

static int print_table(const struct measurement *m, const struct echo_result *r)
{
	char address[IP_ADDR_STRLEN];
	uint32_t lost = r->path.lost;

	printf("address      %s\n", ip_addr_print(&m->address, address));
	printf("path MTU     %u bytes\n", r->path.mtu);
	printf("discovery    %s\n", explain(m, r));
	printf("method       ICMP echo, %s socket: %u packets in %.0f ms, round trip %.1f ms",
	       r->raw ? "raw" : "ping", r->path.sent, (double)r->path.elapsed_us / 1e3,
	       (double)r->path.rtt_us / 1e3);
	if (lost)
		printf(", %u of %u that fit were lost", lost, r->path.fit);
	printf("\nmax pod MTU ");
	for (size_t i = 0; i < N_ENCAPSULATIONS; i++)
		printf(" %s %u%s", spec_encapsulation_name(encapsulations[i]),
		       pod_mtu(m, r->path.mtu, encapsulations[i]), i + 1 < N_ENCAPSULATIONS ? "," : "\n");
	return CLI_DONE;
}

static int no_answer(const struct measurement *m, const struct echo_result *r)
{
	char address[IP_ADDR_STRLEN];
	struct vgw_err err = {0};

	ip_addr_print(&m->address, address);
	if (r->path.replies)
		vgw_err_set(&err, -ETIMEDOUT, "Unknown", address,
			    "too little came back to be sure: %u of %u packets", r->path.replies,
			    r->path.sent);
	else if (r->error)
		vgw_err_set(&err, -r->error, "NoAnswer", address, "%s", strerror(r->error));
	else
		vgw_err_set(&err, -ETIMEDOUT, "NoAnswer", address,
			    "no ICMP echo came back within %.1f s, not even of %u bytes",
			    (double)r->path.elapsed_us / 1e6,
			    m->address.family == IP_V6 ? PMTU_FLOOR_V6 : PMTU_FLOOR_V4);
	return cli_error(CLI_FAILED, &err);
}

static void finished(void *ctx, const struct echo_result *r)
{
	struct measurement *m = ctx;

	if (m->progress)
		fputs("\r\x1b[K", stderr);
	if (r->state != PMTU_SEARCH_DONE)
		m->status = no_answer(m, r);
	else
		m->status = m->json ? print_json(m, r) : print_table(m, r);
}

/* -- whom to ask -- */

static bool from_sockaddr(const struct sockaddr *sa, struct echo_params *out)
{
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

		out->address.family = IP_V4;
		memcpy(out->address.bytes, &in->sin_addr, 4);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;

		out->address.family = IP_V6;
		out->scope = in6->sin6_scope_id;
		memcpy(out->address.bytes, &in6->sin6_addr, 16);
		return true;
	}
	return false;
}

/* The first of the addresses to which there is a way. */
static struct echo *start(struct ev_loop *loop, struct measurement *m, const struct addrinfo *all,
			  struct vgw_err *err)
{
	struct echo *e = NULL;

	for (const struct addrinfo *a = all; a && !e; a = a->ai_next) {
		struct echo_params params = {.search.ceiling = m->max};
		struct vgw_err why = {0};

		if (!from_sockaddr(a->ai_addr, &params))
			continue;
		m->address = params.address;
		e = echo_start(loop, &params, show_progress, finished, m, &why);
		if (!e && !err->reason[0])
			*err = why;
	}
	return e;
}

static int measure(struct measurement *m)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *all = NULL;
	struct vgw_err err = {0};
	struct ev_loop *loop;
	int rc = getaddrinfo(m->name, NULL, &hints, &all);

	if (rc) {
		vgw_err_set(&err, -EADDRNOTAVAIL, "NameNotFound", m->name, "%s", gai_strerror(rc));
		return cli_error(CLI_FAILED, &err);
	}
	loop = ev_loop_new(EVFLAG_AUTO);
	m->status = CLI_FAILED;
	if (!loop)
		vgw_err_set(&err, -ENOMEM, "Failed", NULL, "no event loop");
	else if (start(loop, m, all, &err))
		ev_run(loop, 0);
	else
		m->status = cli_error(CLI_FAILED, &err);
	if (loop)
		ev_loop_destroy(loop);
	freeaddrinfo(all);
	return m->status;
}

/* False for what is no number or not in the range that packets have (RFC 791: every link takes 68). */
static bool read_max(const char *text, uint32_t *out)
{
	char *end;
	unsigned long v;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || *end || v < 68 || v > PMTU_CEILING)
		return false;
	*out = (uint32_t)v;
	return true;
}

int cli_pmtu(int argc, char **argv)
{
	struct measurement m = {0};
	const char *max = NULL;
	const struct cli_option options[] = {
		{"max", CLI_TEXT, &max},
		{"json", CLI_FLAG, &m.json},
	};
	char **arguments;

	if (cli_options(argc, argv, options, sizeof(options) / sizeof(options[0]), 1, 1, &arguments) < 0)
		return CLI_USAGE;
	m.name = arguments[0];
	if (!*m.name)
		return cli_usage(argv[0], "the address is empty");
	if (max && !read_max(max, &m.max))
		return cli_usage(argv[0], "'%s' is no packet size: --max takes 68 to %d bytes", max,
				 PMTU_CEILING);
	m.progress = !m.json && isatty(STDERR_FILENO);
	return measure(&m);
}
