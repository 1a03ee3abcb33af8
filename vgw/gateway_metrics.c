/* SPDX-License-Identifier: Apache-2.0 */
/* From the gateway's state, the kernel and the process to the metrics. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "vgw/clock.h"
#include "vgw/file.h"
#include "vgw/gateway_internal.h"

/* However often it is asked for: the kernel's counters are read at most this often, and writing the text
 * takes at most one part in so many of the time. */
enum { DROPPED_FRESH_MS = 1000, BODY_SHARE = 10, READ_TRIES = 3, MAX_CODES = 32 };

/* The chains whose rules count what they drop. */
static const char *const dropping[] = {"guard", "forward"};
enum { N_DROPPING = sizeof(dropping) / sizeof(dropping[0]) };

/* What a rule had counted at the last look. */
struct counted {
	size_t chain;
	uint64_t handle, packets;
};

struct codes {
	struct metrics_code v[MAX_CODES];
	size_t n;
};

struct gateway_metrics {
	uint64_t tampered;
	struct codes before; /* answers of servers that are gone */
	uint64_t dropped;
	struct counted *counted;
	size_t n_counted;
	bool has_dropped;
	int64_t dropped_ms;
	struct buf body;
	int64_t body_ms, fresh_ms, revision;
};

int gateway_metrics_open(struct gateway *g)
{
	g->metrics = calloc(1, sizeof(*g->metrics));
	return g->metrics ? 0 : -ENOMEM;
}

void gateway_metrics_close(struct gateway *g)
{
	if (!g->metrics)
		return;
	free(g->metrics->counted);
	buf_free(&g->metrics->body);
	free(g->metrics);
	g->metrics = NULL;
}

void gateway_metrics_tampered(struct gateway *g, unsigned n)
{
	g->metrics->tampered += n;
}

static void add_code(void *ctx, unsigned code, uint64_t n)
{
	struct codes *c = ctx;
	size_t i = c->n;

	/* Sorted by code. */
	while (i && c->v[i - 1].code > code)
		i--;
	if (i && c->v[i - 1].code == code) {
		c->v[i - 1].n += n;
		return;
	}
	if (c->n == MAX_CODES)
		return;
	memmove(&c->v[i + 1], &c->v[i], (c->n++ - i) * sizeof(*c->v));
	c->v[i] = (struct metrics_code){code, n};
}

void gateway_metrics_server_ends(struct gateway *g)
{
	if (g->server)
		control_server_counts(g->server, add_code, &g->metrics->before);
}

static uint64_t counted_before(const struct gateway_metrics *m, size_t chain, uint64_t handle)
{
	for (size_t i = 0; i < m->n_counted; i++)
		if (m->counted[i].chain == chain && m->counted[i].handle == handle)
			return m->counted[i].packets;
	return 0;
}

static int read_chains(struct gateway *g, struct arena *arena, struct nft_chain chains[N_DROPPING])
{
	int rc = -EINTR;

	for (int tries = 0; rc == -EINTR && tries < READ_TRIES; tries++) {
		rc = 0;
		for (size_t i = 0; i < N_DROPPING && !rc; i++)
			rc = nft_read_chain(g->host.nft, dropping[i], arena, &chains[i]);
	}
	return rc;
}

/*
 * Rules come and go, and what they have counted goes with them: only what each has counted since the last
 * look is added. One that counts less than before is another rule, of a new table.
 */
static void add_dropped(struct gateway_metrics *m, const struct nft_chain chains[N_DROPPING])
{
	struct counted *now;
	size_t n = 0;

	for (size_t i = 0; i < N_DROPPING; i++)
		n += chains[i].n_rules;
	now = calloc(n + 1, sizeof(*now));
	if (!now)
		return;
	n = 0;
	for (size_t i = 0; i < N_DROPPING; i++) {
		for (size_t r = 0; r < chains[i].n_rules; r++) {
			const struct nft_rule *rule = &chains[i].rules[r];
			uint64_t before = counted_before(m, i, rule->handle);

			if (!rule->packets)
				continue;
			m->dropped += rule->packets - (rule->packets < before ? 0 : before);
			now[n++] = (struct counted){i, rule->handle, rule->packets};
		}
	}
	free(m->counted);
	m->counted = now;
	m->n_counted = n;
}

static void look_at_dropped(struct gateway *g)
{
	struct gateway_metrics *m = g->metrics;
	struct nft_chain chains[N_DROPPING];
	struct arena *arena;

	if (m->has_dropped && clock_mono_ms() - m->dropped_ms < DROPPED_FRESH_MS)
		return;
	arena = arena_new();
	if (arena && read_chains(g, arena, chains) == 0) {
		add_dropped(m, chains);
		m->has_dropped = true;
		m->dropped_ms = clock_mono_ms();
	}
	arena_free(arena);
}

/* The first number in a file below /proc; below 0 where there is none. */
static int64_t read_number(const char *path)
{
	struct buf text = {0};
	long long n = -1;

	if (file_read(path, 256, &text, NULL) < 0 || sscanf(buf_str(&text), "%lld", &n) != 1)
		n = -1;
	buf_free(&text);
	return n;
}

static void fill_conntrack(struct gateway *g, struct metrics *m)
{
	uint64_t failed;

	m->conntrack_entries = read_number("/proc/sys/net/netfilter/nf_conntrack_count");
	m->conntrack_limit = read_number("/proc/sys/net/netfilter/nf_conntrack_max");
	m->conntrack_insert_failed = reaper_insert_failed(g->reaper, &failed) == 0 ? (int64_t)failed : -1;
}

static int64_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	int64_t n = -1; /* the folder's own does not count */

	if (!dir)
		return -1;
	while ((e = readdir(dir)))
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* CPU time of this process; below 0: not known. */
static double cpu_seconds(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec / 1e9
								: -1;
}

static void fill_process(const struct gateway *g, struct metrics_process *p)
{
	long long virtual = -1, resident = -1, page = sysconf(_SC_PAGESIZE);
	struct buf text = {0};
	struct rlimit fds;

	p->cpu_seconds = cpu_seconds();
	p->start_time = (double)g->start_ms / 1000.0;
	p->open_fds = count_fds();
	p->max_fds = getrlimit(RLIMIT_NOFILE, &fds) == 0 && fds.rlim_cur != RLIM_INFINITY
			     ? (int64_t)fds.rlim_cur
			     : -1;
	if (file_read("/proc/self/statm", 256, &text, NULL) < 0 ||
	    sscanf(buf_str(&text), "%lld %lld", &virtual, &resident) != 2)
		virtual = resident = -1;
	buf_free(&text);
	p->virtual_bytes = virtual < 0 ? -1 : virtual * page;
	p->resident_bytes = resident < 0 ? -1 : resident * page;
}

static bool fill_backends(const struct gateway *g, size_t f, struct arena *arena,
			  struct metrics_frontend *out)
{
	const struct spec_frontend *spec = &g->spec->frontends[f];
	struct metrics_backend *v = arena_calloc(arena, spec->n_backends, sizeof(*v));

	if (!v)
		return false;
	for (size_t b = 0; b < spec->n_backends; b++) {
		const struct checker_backend *c = checker_backend(g->checker, f, b);

		v[b].at.addr = spec->backends[b].address;
		v[b].at.port = spec->backends[b].port;
		v[b].state = gateway_backend_state(&spec->backends[b], c->health.state);
		v[b].flows_reaped = c->flows_reaped;
	}
	*out = (struct metrics_frontend){spec->name, v, spec->n_backends};
	return true;
}

/* Those that are ours: an ignored one is not counted. */
static bool fill_frontends(const struct gateway *g, struct arena *arena, struct metrics *m)
{
	struct metrics_frontend *v = arena_calloc(arena, g->spec->n_frontends, sizeof(*v));

	for (size_t f = 0; v && f < g->spec->n_frontends; f++) {
		if (g->spec->frontends[f].placement == SPEC_IGNORED)
			continue;
		if (!fill_backends(g, f, arena, &v[m->n_frontends++]))
			return false;
	}
	m->frontends = v;
	return v;
}

static bool fill_repairs(const struct gateway *g, struct arena *arena, struct metrics *m)
{
	struct metrics_repairs *v = arena_calloc(arena, g->n_disputes, sizeof(*v));

	for (size_t i = 0; v && i < g->n_disputes; i++)
		v[i] = (struct metrics_repairs){g->disputes[i].object, g->disputes[i].fight.repairs};
	m->repairs = v;
	m->n_repairs = g->n_disputes;
	return v;
}

static bool fill_tunnels(struct gateway *g, struct arena *arena, struct metrics *m)
{
	struct metrics_tunnel *v = arena_calloc(arena, g->spec->n_tunnels, sizeof(*v));

	for (size_t i = 0; v && i < g->spec->n_tunnels; i++) {
		struct status_tunnel row = {0};

		gateway_tunnels_fill(g, &g->spec->tunnels[i], &row);
		v[i] = (struct metrics_tunnel){.name = row.name,
					       .state = status_tunnel_state_name(row.state),
					       .wanted = row.wanted,
					       .actual = row.actual,
					       .path = row.path_mtu,
					       .reverse = row.reverse_mtu,
					       .max_pod = row.max_pod_mtu,
					       .rtt_seconds = -1};
		if (row.asked && row.rtt_ms >= 0)
			v[i].rtt_seconds = row.rtt_ms / 1000;
	}
	m->tunnels = v;
	m->n_tunnels = g->spec->n_tunnels;
	return v;
}

/* Everything M points to is the gateway's, CODES' or ARENA's. */
static bool fill(struct gateway *g, struct arena *arena, struct codes *codes, struct metrics *m)
{
	memset(m, 0, sizeof(*m));
	m->version = VGW_VERSION;
	m->accepted = g->spec ? g->spec->generation : 0;
	m->applied = g->applied;
	m->checks = checker_seconds(g->checker);
	m->tampered = g->metrics->tampered;
	m->dropped = g->metrics->dropped;
	m->connections = g->server ? (int64_t)control_server_connections(g->server) : -1;
	m->certificate_not_after = g->server ? control_server_not_after(g->server) : 0;
	*codes = g->metrics->before;
	if (g->server)
		control_server_counts(g->server, add_code, codes);
	m->codes = codes->v;
	m->n_codes = codes->n;
	fill_conntrack(g, m);
	fill_process(g, &m->process);
	if (g->spec && (!fill_frontends(g, arena, m) || !fill_tunnels(g, arena, m)))
		return false;
	return fill_repairs(g, arena, m);
}

const char *gateway_metrics(struct gateway *g, size_t *len)
{
	struct gateway_metrics *x = g->metrics;
	int64_t revision = gateway_revision(g);
	struct arena *arena;
	struct codes codes;
	struct metrics m;
	double begin;

	if (!x->body.len || revision != x->revision || clock_mono_ms() - x->body_ms >= x->fresh_ms) {
		begin = cpu_seconds();
		look_at_dropped(g);
		x->body.len = 0;
		arena = arena_new();
		if (arena && fill(g, arena, &codes, &m))
			metrics_render(&m, &x->body);
		arena_free(arena);
		if (x->body.failed)
			buf_free(&x->body);
		x->body_ms = clock_mono_ms();
		x->revision = revision;
		/* What takes less than a millisecond is always new. */
		x->fresh_ms = (int64_t)((cpu_seconds() - begin) * 1000) * BODY_SHARE;
	}
	*len = x->body.len;
	return buf_str(&x->body);
}
