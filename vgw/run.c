/* SPDX-License-Identifier: Apache-2.0 */
/* `vgw-agent run`: the service, wired to one event loop. */
#include <errno.h>
#include <ev.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netcfg/base/log.h"
#include "vgw/cli/cli.h"
#include "vgw/config.h"
#include "vgw/control/server.h"
#include "vgw/endpoints.h"
#include "vgw/gateway.h"
#include "vgw/notify.h"

/* A loop whose checks are this late does not turn as it should: the watchdog is left hungry. */
enum { OVERDUE_MAX_MS = 5000 };
#define LISTEN_RETRY_S 1.0
#define TLS_RETRY_S    60.0
#define SOCKET_GROUP   "vgw-agent"

struct service {
	struct ev_loop *loop;
	struct config *config;
	struct gateway *gateway;
	struct endpoints *endpoints;
	struct control_server *server;
	bool tls;	/* the server has a certificate */
	char said[512]; /* the latest complaint about it */
	ev_timer listen, watchdog;
	ev_signal term, interrupt;
	bool hungry;
	uint64_t tried; /* the files that a TLS listener was last tried with */
	double retry;	/* not before, with the same ones */
};

static void on_signal(struct ev_loop *loop, ev_signal *w, int revents)
{
	log_info("stopping on signal %d; the data plane stays", w->signum);
	ev_break(loop, EVBREAK_ALL);
}

static void on_watchdog(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct service *s = w->data;
	int64_t overdue = gateway_overdue_ms(s->gateway);

	if (overdue < OVERDUE_MAX_MS) {
		notify_send("WATCHDOG=1");
		s->hungry = false;
	} else if (!s->hungry) {
		s->hungry = true;
		log_error("watchdog: a check is %lld ms late", (long long)overdue);
	}
}

static void complain(struct service *s, const struct vgw_err *err)
{
	char line[sizeof(s->said)];

	vgw_err_print(err, line, sizeof(line));
	if (!strcmp(line, s->said))
		return;
	memcpy(s->said, line, sizeof(line));
	log_error("control: %s", line);
}

/* Certificates may come later than the image that asks for them: until then there is the socket. */
static int open_server(struct service *s, bool tls, struct vgw_err *err)
{
	const struct config *c = s->config;
	struct control_config control = {
		.listen = tls ? c->listen : NULL,
		.n_listen = tls ? c->n_listen : 0,
		.certificate = tls ? c->certificate : NULL,
		.key = tls ? c->key : NULL,
		.client_ca = tls ? c->client_ca : NULL,
		.n_client_ca = tls ? c->n_client_ca : 0,
		.clients = c->clients,
		.n_clients = c->n_clients,
		.socket = c->socket,
		.socket_group = SOCKET_GROUP,
	};
	int rc = control_server_new(s->loop, &control, endpoints_handle, s->endpoints, &s->server, err);

	if (rc)
		return rc;
	s->tls = tls;
	gateway_set_server(s->gateway, s->server);
	endpoints_set_server(s->endpoints, tls ? s->server : NULL);
	return 0;
}

static bool files_there(const struct config *c)
{
	bool all = access(c->certificate, R_OK) == 0 && access(c->key, R_OK) == 0;

	for (size_t i = 0; i < c->n_client_ca; i++)
		all &= access(c->client_ca[i], R_OK) == 0;
	return all;
}

/* What the files are by now: the same ones would fail again. */
static uint64_t files_mark(const struct config *c)
{
	uint64_t mark = 0xcbf29ce484222325u;
	struct stat st;

	for (size_t i = 0; i < c->n_client_ca + 2; i++) {
		const char *path = i == 0 ? c->certificate : i == 1 ? c->key : c->client_ca[i - 2];

		memset(&st, 0, sizeof(st));
		(void)!stat(path, &st);
		mark = (mark ^ (uint64_t)st.st_ino) * 0x100000001b3u;
		mark = (mark ^ (uint64_t)st.st_size) * 0x100000001b3u;
		mark = (mark ^ (uint64_t)st.st_mtim.tv_sec ^ (uint64_t)st.st_mtim.tv_nsec << 32) *
		       0x100000001b3u;
	}
	return mark;
}

/*
 * The socket's listener is given up for a moment, and its connections with it: only once everything for the
 * new one is there, and not again for the same files before a while has passed.
 */
static void try_tls(struct service *s)
{
	struct vgw_err err = {0};
	uint64_t mark;

	if (!files_there(s->config))
		return;
	mark = files_mark(s->config);
	if (mark == s->tried && ev_now(s->loop) < s->retry)
		return;
	s->tried = mark;
	s->retry = ev_now(s->loop) + TLS_RETRY_S;
	gateway_set_server(s->gateway, NULL);
	endpoints_set_server(s->endpoints, NULL);
	control_server_free(s->server);
	s->server = NULL;
	if (open_server(s, true, &err) < 0) {
		complain(s, &err);
		if (open_server(s, false, &err) < 0)
			complain(s, &err);
		return;
	}
	log_info("control: the certificate is there");
}

static void on_listen(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct service *s = w->data;
	struct ip_endpoint at[2];
	struct vgw_err err = {0};
	size_t n;

	if (s->config->has_control && !s->tls)
		try_tls(s);
	if (!s->server || !s->tls || s->config->n_listen)
		return;
	n = gateway_listeners(s->gateway, at);
	if (n && control_server_listen(s->server, at, n, &err) < 0)
		complain(s, &err);
}

static int start_control(struct service *s, struct vgw_err *err)
{
	int rc;

	s->endpoints = endpoints_new(s->loop, s->gateway);
	if (!s->endpoints)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "control", "no memory");
	if (s->config->has_control) {
		s->tried = files_mark(s->config);
		s->retry = ev_now(s->loop) + TLS_RETRY_S;
	}
	rc = open_server(s, s->config->has_control, err);
	if (rc == -EADDRINUSE || (rc && !s->config->has_control))
		return rc;
	if (rc) {
		complain(s, err);
		rc = open_server(s, false, err);
		if (rc)
			return rc;
	}
	ev_timer_init(&s->listen, on_listen, 0, LISTEN_RETRY_S);
	s->listen.data = s;
	ev_timer_start(s->loop, &s->listen);
	return 0;
}

static void start_watchdog(struct service *s)
{
	double interval = notify_watchdog_interval();

	ev_timer_init(&s->watchdog, on_watchdog, 0, interval);
	s->watchdog.data = s;
	if (interval > 0)
		ev_timer_start(s->loop, &s->watchdog);
}

static void start_signals(struct service *s)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN); /* files are read again when they change */
	ev_signal_init(&s->term, on_signal, SIGTERM);
	ev_signal_init(&s->interrupt, on_signal, SIGINT);
	ev_signal_start(s->loop, &s->term);
	ev_signal_start(s->loop, &s->interrupt);
}

/* A check is a descriptor, and there may be thousands. */
static void raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int serve(struct service *s, const char *first_spec, struct vgw_err *err)
{
	int rc;

	s->loop = ev_loop_new(EVFLAG_AUTO);
	if (!s->loop)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "loop", "no memory");
	start_signals(s);
	rc = gateway_new(s->loop, s->config, &s->gateway, err);
	if (!rc)
		rc = gateway_start(s->gateway, first_spec, err);
	if (!rc)
		rc = start_control(s, err);
	if (rc)
		return rc;
	start_watchdog(s);
	log_info("vgw-agent %s is ready", VGW_VERSION);
	notify_send("READY=1\nSTATUS=running");
	ev_run(s->loop, 0);
	notify_send("STOPPING=1");
	return 0;
}

static void service_close(struct service *s)
{
	if (s->gateway)
		gateway_set_server(s->gateway, NULL);
	control_server_free(s->server);
	endpoints_free(s->endpoints);
	gateway_free(s->gateway);
	if (s->loop) {
		ev_timer_stop(s->loop, &s->listen);
		ev_timer_stop(s->loop, &s->watchdog);
		ev_signal_stop(s->loop, &s->term);
		ev_signal_stop(s->loop, &s->interrupt);
		ev_loop_destroy(s->loop);
	}
	config_free(s->config);
}

int agent_run(int argc, char **argv)
{
	const char *config = NULL, *spec = NULL;
	const struct cli_option options[] = {{"config", CLI_TEXT, &config}, {"spec", CLI_TEXT, &spec}};
	struct service s = {0};
	struct vgw_err err = {0};
	char **arguments;
	int rc;

	if (cli_options(argc, argv, options, 2, 0, 0, &arguments) < 0)
		return CLI_USAGE;
	rc = config_load(config, &s.config, &err);
	if (rc)
		return cli_error(rc == -EINVAL || rc == -E2BIG ? CLI_REFUSED : CLI_FAILED, &err);
	log_set_level(s.config->log_level);
	raise_limits();
	rc = serve(&s, spec, &err);
	service_close(&s);
	return rc ? cli_error(CLI_FAILED, &err) : CLI_DONE;
}
