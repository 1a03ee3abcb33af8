/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/metrics.h"

#include <inttypes.h>
#include <string.h>

static const struct {
	double seconds;
	const char *text;
} bounds[METRICS_BUCKETS] = {
	{0.001, "0.001"}, {0.0025, "0.0025"}, {0.005, "0.005"}, {0.01, "0.01"}, {0.025, "0.025"},
	{0.05, "0.05"},	  {0.1, "0.1"},	      {0.25, "0.25"},	{0.5, "0.5"},	{1, "1"},
	{2.5, "2.5"},	  {5, "5"},	      {10, "10"},
};

static const enum health_state backend_states[] = {HEALTH_UNKNOWN, HEALTH_UP, HEALTH_DRAINING, HEALTH_DEAD};
enum { N_BACKEND_STATES = sizeof(backend_states) / sizeof(backend_states[0]) };

static const char *const tunnel_states[] = {"Absent",	"Unknown",  "Up",	 "Down",
					    "OneWayTx", "OneWayRx", "BlackHole", "NoRoute"};
enum { N_TUNNEL_STATES = sizeof(tunnel_states) / sizeof(tunnel_states[0]) };

void metrics_observe(struct metrics_histogram *h, double seconds)
{
	size_t i = 0;

	while (i < METRICS_BUCKETS && seconds > bounds[i].seconds)
		i++;
	h->counts[i]++;
	h->sum += seconds;
}

static void put_family(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* " 17\n". By hand: there may be some 200,000 of them. */
static void put_count(struct buf *b, uint64_t n)
{
	char text[24];
	size_t at = sizeof(text);

	text[--at] = '\n';
	do
		text[--at] = (char)('0' + n % 10);
	while (n /= 10);
	text[--at] = ' ';
	buf_append(b, text + at, sizeof(text) - at);
}

static void put_real(struct buf *b, double v)
{
	buf_printf(b, " %.15g\n", v);
}

/* KEY="VALUE", with what the format wants escaped. */
static void put_label(struct buf *b, const char *key, const char *value)
{
	buf_puts(b, key);
	buf_puts(b, "=\"");
	while (*value) {
		size_t plain = strcspn(value, "\\\"\n");

		buf_append(b, value, plain);
		value += plain;
		if (!*value)
			break;
		buf_puts(b, *value == '\n' ? "\\n" : *value == '"' ? "\\\"" : "\\\\");
		value++;
	}
	buf_puts(b, "\"");
}

static void put_counter(struct buf *b, const char *name, const char *help, uint64_t n)
{
	put_family(b, name, "counter", help);
	buf_puts(b, name);
	put_count(b, n);
}

/* One value of its kind; left out when it is not known. */
static void put_known(struct buf *b, const char *name, const char *type, const char *help, int64_t n)
{
	put_family(b, name, type, help);
	if (n < 0)
		return;
	buf_puts(b, name);
	put_count(b, (uint64_t)n);
}

static void put_agent(struct buf *b, const struct metrics *m)
{
	put_family(b, "vgw_agent_build_info", "gauge", "Which agent this is; always 1.");
	buf_puts(b, "vgw_agent_build_info{");
	put_label(b, "version", m->version);
	buf_puts(b, "} 1\n");
	put_family(b, "vgw_agent_spec_generation", "gauge",
		   "Generation of the spec that was accepted, and of the one in the kernel; 0 for none.");
	buf_printf(b, "vgw_agent_spec_generation{state=\"accepted\"} %" PRId64 "\n", m->accepted);
	buf_printf(b, "vgw_agent_spec_generation{state=\"applied\"} %" PRId64 "\n", m->applied);
}

static void put_states(struct buf *b, const char *frontend, const struct metrics_frontend *f)
{
	uint64_t counts[N_BACKEND_STATES] = {0};

	for (size_t i = 0; i < f->n_backends; i++)
		for (size_t s = 0; s < N_BACKEND_STATES; s++)
			counts[s] += f->backends[i].state == backend_states[s];
	for (size_t s = 0; s < N_BACKEND_STATES; s++) {
		buf_puts(b, "vgw_frontend_backends{");
		buf_puts(b, frontend);
		buf_puts(b, ",state=\"");
		buf_puts(b, health_state_name(backend_states[s]));
		buf_puts(b, "\"}");
		put_count(b, counts[s]);
	}
}

/* Three families at once, so that each backend's labels are written once. */
static void put_frontends(struct buf *b, const struct metrics *m)
{
	struct buf up = {0}, reaped = {0}, label = {0};
	char at[IP_ENDPOINT_STRLEN];

	put_family(b, "vgw_frontend_backends", "gauge", "Backends of a frontend by their state.");
	put_family(&up, "vgw_backend_up", "gauge", "1 when a backend is Up, else 0.");
	put_family(&reaped, "vgw_flows_reaped_total", "counter", "Flows of a dead backend that were ended.");
	for (size_t i = 0; i < m->n_frontends; i++) {
		const struct metrics_frontend *f = &m->frontends[i];
		size_t frontend;

		label.len = 0;
		put_label(&label, "frontend", f->name);
		frontend = label.len;
		put_states(b, buf_str(&label), f);
		for (size_t j = 0; j < f->n_backends; j++) {
			label.len = frontend;
			buf_puts(&label, ",");
			put_label(&label, "backend", ip_endpoint_print(&f->backends[j].at, at));
			buf_puts(&label, "}");
			buf_puts(&up, "vgw_backend_up{");
			buf_append(&up, buf_str(&label), label.len);
			put_count(&up, f->backends[j].state == HEALTH_UP);
			buf_puts(&reaped, "vgw_flows_reaped_total{");
			buf_append(&reaped, buf_str(&label), label.len);
			put_count(&reaped, f->backends[j].flows_reaped);
		}
	}
	buf_append(b, buf_str(&up), up.len);
	buf_append(b, buf_str(&reaped), reaped.len);
	/* Half a text would look like a whole one. */
	b->failed |= up.failed || reaped.failed || label.failed;
	buf_free(&up);
	buf_free(&reaped);
	buf_free(&label);
}

static void put_checks(struct buf *b, const struct metrics_histogram *h)
{
	uint64_t sum = 0;

	put_family(b, "vgw_backend_check_seconds", "histogram",
		   "How long checks of backends and probes took.");
	for (size_t i = 0; i < METRICS_BUCKETS; i++) {
		sum += h->counts[i];
		buf_printf(b, "vgw_backend_check_seconds_bucket{le=\"%s\"} %" PRIu64 "\n", bounds[i].text,
			   sum);
	}
	sum += h->counts[METRICS_BUCKETS];
	buf_printf(b, "vgw_backend_check_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
	buf_puts(b, "vgw_backend_check_seconds_sum");
	put_real(b, h->sum);
	buf_printf(b, "vgw_backend_check_seconds_count %" PRIu64 "\n", sum);
}

static void put_mtu(struct buf *b, const struct metrics_tunnel *t, const char *kind, uint32_t mtu)
{
	if (!mtu)
		return;
	buf_puts(b, "vgw_tunnel_mtu_bytes{");
	put_label(b, "tunnel", t->name);
	buf_printf(b, ",kind=\"%s\"} %" PRIu32 "\n", kind, mtu);
}

static void put_tunnels(struct buf *b, const struct metrics *m)
{
	put_family(b, "vgw_tunnel_state", "gauge", "1 for the state that a tunnel is in, else 0.");
	for (size_t i = 0; i < m->n_tunnels; i++) {
		for (size_t s = 0; s < N_TUNNEL_STATES; s++) {
			buf_puts(b, "vgw_tunnel_state{");
			put_label(b, "tunnel", m->tunnels[i].name);
			buf_printf(b, ",state=\"%s\"} %d\n", tunnel_states[s],
				   !strcmp(tunnel_states[s], m->tunnels[i].state));
		}
	}
	put_family(
		b, "vgw_tunnel_mtu_bytes", "gauge",
		"MTU of a tunnel: wanted, actual, of its path, of the path back, and the largest for pods.");
	for (size_t i = 0; i < m->n_tunnels; i++) {
		const struct metrics_tunnel *t = &m->tunnels[i];

		put_mtu(b, t, "wanted", t->wanted);
		put_mtu(b, t, "actual", t->actual);
		put_mtu(b, t, "path", t->path);
		put_mtu(b, t, "reverse", t->reverse);
		put_mtu(b, t, "maxPod", t->max_pod);
	}
	put_family(b, "vgw_tunnel_rtt_seconds", "gauge", "Round trip to a tunnel's peer.");
	for (size_t i = 0; i < m->n_tunnels; i++) {
		if (m->tunnels[i].rtt_seconds < 0)
			continue;
		buf_puts(b, "vgw_tunnel_rtt_seconds{");
		put_label(b, "tunnel", m->tunnels[i].name);
		buf_puts(b, "}");
		put_real(b, m->tunnels[i].rtt_seconds);
	}
}

static void put_kernel(struct buf *b, const struct metrics *m)
{
	put_family(b, "vgw_drift_repairs_total", "counter", "How often something was put back.");
	for (size_t i = 0; i < m->n_repairs; i++) {
		buf_puts(b, "vgw_drift_repairs_total{");
		put_label(b, "object", m->repairs[i].object);
		buf_puts(b, "}");
		put_count(b, m->repairs[i].n);
	}
	put_counter(b, "vgw_ruleset_tampered_total", "Changes of our nftables table that someone else made.",
		    m->tampered);
	put_counter(b, "vgw_guard_dropped_packets_total",
		    "Packets dropped that came from where they may not come from.", m->dropped);
	put_known(b, "vgw_conntrack_entries", "gauge", "Flows that are tracked.", m->conntrack_entries);
	put_known(b, "vgw_conntrack_limit", "gauge", "Flows that can be tracked.", m->conntrack_limit);
	put_known(b, "vgw_conntrack_insert_failed_total", "counter", "Flows that could not be entered.",
		  m->conntrack_insert_failed);
}

static void put_control(struct buf *b, const struct metrics *m)
{
	put_family(b, "vgw_certificate_not_after_seconds", "gauge", "Unix time at which a certificate ends.");
	if (m->certificate_not_after > 0) {
		buf_puts(b, "vgw_certificate_not_after_seconds{certificate=\"server\"}");
		put_count(b, (uint64_t)m->certificate_not_after);
	}
	put_family(b, "vgw_control_requests_total", "counter", "Requests by the status code of the answer.");
	for (size_t i = 0; i < m->n_codes; i++) {
		buf_printf(b, "vgw_control_requests_total{code=\"%u\"}", m->codes[i].code);
		put_count(b, m->codes[i].n);
	}
	put_known(b, "vgw_control_connections", "gauge", "Open connections of clients.", m->connections);
}

static void put_process(struct buf *b, const struct metrics_process *p)
{
	put_family(b, "process_cpu_seconds_total", "counter", "CPU time used, in seconds.");
	if (p->cpu_seconds >= 0) {
		buf_puts(b, "process_cpu_seconds_total");
		put_real(b, p->cpu_seconds);
	}
	put_known(b, "process_open_fds", "gauge", "Open file descriptors.", p->open_fds);
	put_known(b, "process_max_fds", "gauge", "Most file descriptors that may be open.", p->max_fds);
	put_known(b, "process_virtual_memory_bytes", "gauge", "Virtual memory, in bytes.", p->virtual_bytes);
	put_known(b, "process_resident_memory_bytes", "gauge", "Resident memory, in bytes.",
		  p->resident_bytes);
	put_family(b, "process_start_time_seconds", "gauge", "Unix time of the start.");
	if (p->start_time >= 0) {
		buf_puts(b, "process_start_time_seconds");
		put_real(b, p->start_time);
	}
}

void metrics_render(const struct metrics *m, struct buf *out)
{
	put_agent(out, m);
	put_frontends(out, m);
	put_checks(out, m->checks);
	put_tunnels(out, m);
	put_kernel(out, m);
	put_control(out, m);
	put_process(out, &m->process);
}
