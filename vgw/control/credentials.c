/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's certificate, key and client CAs: loaded from files, loaded again when those change, and
 * replaced over the channel on probation. A bad replacement never displaces what works.
 */
#include "vgw/control/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "netcfg/base/log.h"
#include "vgw/control/pem_file.h"

enum {
	WATCH_INTERVAL = 1 /* seconds; a change counts once it has stood still for one */
};

static void identify(const char *path, struct file_id *out)
{
	struct stat st;

	if (stat(path, &st))
		return; /* all zero: not there */
	out->dev = st.st_dev;
	out->ino = st.st_ino;
	out->size = st.st_size;
	out->mtime = st.st_mtim;
}

static void identify_all(const struct credentials *c, struct file_id *out)
{
	size_t i;

	memset(out, 0, sizeof(*out) * CREDENTIALS_FILES);
	identify(c->certificate, &out[0]);
	identify(c->key, &out[1]);
	for (i = 0; i < c->n_ca; i++)
		identify(c->ca[i], &out[2 + i]);
}

static bool same_files(const struct file_id *a, const struct file_id *b)
{
	return !memcmp(a, b, sizeof(*a) * CREDENTIALS_FILES);
}

static int read_authorities(const struct credentials *c, struct tls_pem *pem, struct vgw_err *err)
{
	size_t i;
	int rc = 0;

	for (i = 0; i < c->n_ca && !rc; i++) {
		rc = pem_file_read(c->ca[i], &pem->ca, err);
		buf_puts(&pem->ca, "\n");
		pem->ca_where = c->ca[i];
	}
	return rc;
}

static int read_pair(const struct credentials *c, struct tls_pem *pem, struct vgw_err *err)
{
	int rc = pem_file_read(c->certificate, &pem->certificate, err);

	if (!rc)
		rc = pem_file_read(c->key, &pem->key, err);
	pem->certificate_where = c->certificate;
	pem->key_where = c->key;
	return rc;
}

static int load_files(const struct credentials *c, struct tls_context **out, struct vgw_err *err)
{
	struct tls_pem pem = {0};
	int rc = read_pair(c, &pem, err);

	if (!rc)
		rc = read_authorities(c, &pem, err);
	if (!rc)
		rc = tls_context_new(TLS_SERVER, &pem, out, err);
	tls_pem_free(&pem);
	return rc;
}

/* A pair is two renames, the key's first: a crash in between leaves the new certificate under its other name.
 */
static bool finish_interrupted(const struct credentials *c)
{
	char name[PATH_MAX];
	struct credentials other = *c;
	struct tls_context *ctx;

	if (snprintf(name, sizeof(name), "%s.new", c->certificate) >= (int)sizeof(name))
		return false;
	other.certificate = name;
	if (load_files(&other, &ctx, NULL))
		return false;
	tls_context_unref(ctx);
	return pem_file_commit(c->certificate, NULL) == 0;
}

static void on_watch(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct control_server *s = w->data;
	struct credentials *c = &s->credentials;
	struct file_id now[CREDENTIALS_FILES];
	struct tls_context *ctx = NULL;
	struct vgw_err err = {0};
	char text[800];
	int rc;

	(void)loop;
	(void)revents;
	identify_all(c, now);
	if (c->staged || same_files(now, c->loaded) || same_files(now, c->refused))
		return;
	if (!same_files(now, c->seen)) { /* perhaps half of a pair: wait until it stands still */
		memcpy(c->seen, now, sizeof(now));
		return;
	}
	rc = load_files(c, &ctx, &err);
	if (!rc)
		rc = tls_context_check_dates(ctx, time(NULL), &err);
	if (rc) {
		memcpy(c->refused, now, sizeof(now));
		tls_context_unref(ctx);
		log_warning("control: keeping the old certificate: %s",
			    vgw_err_print(&err, text, sizeof(text)));
		return;
	}
	memcpy(c->loaded, now, sizeof(now));
	tls_context_unref(c->current);
	c->current = ctx;
	log_info("control: new connections use the new certificate files");
}

/* Takes the staged pair off, and tells whoever waits. ERR NULL: it was kept. */
static void end_staging(struct control_server *s, const struct vgw_err *err)
{
	struct credentials *c = &s->credentials;
	control_staged_fn *done = c->done;

	ev_timer_stop(s->loop, &c->confirm);
	tls_context_unref(c->staged);
	c->staged = NULL;
	tls_pem_free(&c->staged_pem);
	c->done = NULL;
	if (done)
		done(c->done_ctx, !err, err);
}

static void on_confirm(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct vgw_err err = {0};

	(void)loop;
	(void)revents;
	vgw_err_set(&err, -ETIMEDOUT, "NotConfirmed", NULL,
		    "no client shook hands with the new certificate in time; the old one is back");
	log_warning("control: %s", err.text);
	end_staging(w->data, &err);
}

int credentials_load(struct control_server *s, struct vgw_err *err)
{
	struct credentials *c = &s->credentials;
	int rc;

	if (!c->certificate || !c->key || !c->n_ca)
		return vgw_err_set(err, -EINVAL, "InvalidConfiguration", NULL,
				   "listening needs a certificate, a key and a client CA");
	identify_all(c, c->loaded);
	rc = load_files(c, &c->current, err);
	if (rc == -EINVAL && finish_interrupted(c)) {
		identify_all(c, c->loaded);
		rc = load_files(c, &c->current, err);
	}
	if (rc)
		return rc;
	/* An expired certificate is no reason to be dark: the condition CertificateValid tells. */
	ev_timer_init(&c->watch, on_watch, WATCH_INTERVAL, WATCH_INTERVAL);
	ev_timer_init(&c->confirm, on_confirm, 0, 0);
	c->watch.data = c->confirm.data = s;
	ev_timer_start(s->loop, &c->watch);
	return 0;
}

void credentials_free(struct control_server *s)
{
	struct credentials *c = &s->credentials;

	ev_timer_stop(s->loop, &c->watch);
	ev_timer_stop(s->loop, &c->confirm);
	tls_context_unref(c->current);
	tls_context_unref(c->staged);
	tls_pem_free(&c->staged_pem);
}

struct tls_context *credentials_context(struct control_server *s)
{
	return s->credentials.staged ? s->credentials.staged : s->credentials.current;
}

static int store_pair(const struct credentials *c, struct vgw_err *err)
{
	const struct tls_pem *pem = &c->staged_pem;
	int rc = pem_file_prepare(c->certificate, pem->certificate.data, pem->certificate.len, 0644, err);

	if (!rc)
		rc = pem_file_prepare(c->key, pem->key.data, pem->key.len, 0600, err);
	if (!rc)
		rc = pem_file_commit(c->key, err);
	if (!rc) /* from here on the new pair is complete: a restart would finish it */
		return pem_file_commit(c->certificate, err);
	pem_file_abandon(c->key);
	pem_file_abandon(c->certificate);
	return rc;
}

void credentials_proved(struct control_server *s, const struct tls_context *ctx)
{
	struct credentials *c = &s->credentials;
	struct vgw_err err = {0};
	char text[800];

	if (!c->staged || ctx != c->staged)
		return;
	if (store_pair(c, &err)) {
		log_error("control: the new certificate cannot be stored, the old one is back: %s",
			  vgw_err_print(&err, text, sizeof(text)));
		end_staging(s, &err);
		return;
	}
	tls_context_unref(c->current);
	c->current = tls_context_ref(c->staged);
	identify_all(c, c->loaded);
	log_info("control: the new certificate has proved itself and is kept");
	end_staging(s, NULL);
}

/* CONTRACT.md 5: key (by tls_context_new), dates, chain, names. */
static int check_staged(const struct control_server *s, const struct tls_context *ctx, struct vgw_err *err)
{
	struct ip_endpoint at[16];
	const struct listener *l;
	size_t n = 0;
	int rc = tls_context_check_dates(ctx, time(NULL), err);

	for (l = s->listeners; l && n < sizeof(at) / sizeof(*at); l = l->next)
		if (l->endpoint.addr.family != IP_NONE)
			at[n++] = l->endpoint;
	if (!rc)
		rc = tls_context_check_chain(ctx, err);
	return rc ? rc : tls_context_check_names(ctx, at, n, err);
}

int control_server_stage_certificate(struct control_server *s, const char *certificate, const char *key,
				     double confirm, control_staged_fn *done, void *ctx, struct vgw_err *err)
{
	struct credentials *c = &s->credentials;
	struct tls_context *staged = NULL;
	struct tls_pem pem = {.certificate_where = "/certificate", .key_where = "/key"};
	struct vgw_err replaced = {0};
	int rc;

	if (!c->current)
		return vgw_err_set(err, -ENOENT, "NoListener", NULL, "nothing listens with a certificate");
	/* The certificate's file is for everybody to read. */
	if (strstr(certificate, "PRIVATE KEY-----"))
		return vgw_err_set(err, -EINVAL, "InvalidCertificate", pem.certificate_where,
				   "there is a private key among the certificates");
	buf_puts(&pem.certificate, certificate);
	buf_puts(&pem.key, key);
	rc = read_authorities(c, &pem, err);
	if (!rc)
		rc = tls_context_new(TLS_SERVER, &pem, &staged, err);
	if (!rc)
		rc = check_staged(s, staged, err);
	if (rc) {
		tls_context_unref(staged);
		tls_pem_free(&pem);
		return rc;
	}
	if (c->staged) {
		vgw_err_set(&replaced, -ECANCELED, "NotConfirmed", NULL, "another certificate was sent");
		end_staging(s, &replaced);
	}
	c->staged = staged;
	c->staged_pem = pem;
	c->done = done;
	c->done_ctx = ctx;
	ev_timer_set(&c->confirm, confirm, 0);
	ev_timer_start(s->loop, &c->confirm);
	return 0;
}

int control_server_set_client_ca(struct control_server *s, const char *text, struct vgw_err *err)
{
	struct credentials *c = &s->credentials;
	struct tls_pem pem = {.ca_where = "/ca"};
	struct tls_context *ctx = NULL;
	size_t i;
	int rc;

	if (!c->current)
		return vgw_err_set(err, -ENOENT, "NoListener", NULL, "nothing listens with a certificate");
	if (c->staged)
		return vgw_err_set(err, -EBUSY, "NotConfirmed", NULL, "a new certificate is on probation");
	rc = read_pair(c, &pem, err);
	buf_puts(&pem.ca, text);
	if (!rc)
		rc = tls_context_new(TLS_SERVER, &pem, &ctx, err);
	if (!rc)
		rc = tls_context_check_dates(ctx, time(NULL), err);
	if (!rc && tls_context_authorities(ctx) > 2)
		rc = vgw_err_set(err, -EINVAL, "InvalidCertificate", "/ca", "one or two CAs are meant");
	tls_pem_free(&pem);
	for (i = 0; i < c->n_ca && !rc; i++)
		rc = pem_file_write(c->ca[i], text, strlen(text), 0644, err);
	if (rc) {
		tls_context_unref(ctx);
		return rc;
	}
	tls_context_unref(c->current);
	c->current = ctx;
	identify_all(c, c->loaded);
	return 0;
}
