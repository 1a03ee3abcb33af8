/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives the process: spec.json and applied.json in the state directory. */
#ifndef VGW_STORE_H
#define VGW_STORE_H

#include "vgw/host.h"

struct store {
	char spec_path[4096], applied_path[4096], directory[4096];
	int lock; /* the directory, flock(2)ed; -1: not held */
};

/* DIRECTORY is made when missing. 0 or -errno with ERR. */
int store_open(struct store *s, const char *directory, struct vgw_err *err);
void store_close(struct store *s);
/* One agent to a state directory: -EBUSY with ERR (AlreadyRunning) while another holds it. Released by
 * store_close(). */
int store_lock(struct store *s, struct vgw_err *err);

/* The stored spec's text appended to OUT. -ENOENT when there is none; -errno with ERR. */
int store_read_spec(const struct store *s, struct buf *out, struct vgw_err *err);
int store_write_spec(const struct store *s, const char *text, size_t len, struct vgw_err *err);

/* The record, with arrays from malloc (store_record_free). A missing file is an empty record; a broken one
 * too, and it is kept beside as applied.json.broken. */
int store_read_record(const struct store *s, struct plan_recorded *out, struct vgw_err *err);
int store_write_record(const struct store *s, const struct plan_recorded *r, struct vgw_err *err);
void store_record_free(struct plan_recorded *r);
/*
 * Note that a value is about to be replaced by SET. What was there before the first of ours stays noted,
 * unless FRESH says that the object is another one now. 0 or -ENOMEM.
 */
int store_record_link(struct plan_recorded *r, const struct plan_was_link *was, bool fresh);
int store_record_sysctl(struct plan_recorded *r, const struct plan_was_sysctl *was);
/* The value has been given back. */
void store_drop_link(struct plan_recorded *r, const char *name);
void store_drop_sysctl(struct plan_recorded *r, const char *name);

/*
 * The highest revision that may have been told; 0 when none is known. Writing is best effort: it only matters
 * when the clock is set back.
 */
int64_t store_read_revision(const struct store *s);
void store_write_revision(const struct store *s, int64_t revision);
/* Whether a spec is in force that waits to be confirmed and has none before it. 0 or -errno. */
int store_mark_unconfirmed(const struct store *s, bool unconfirmed);
bool store_is_unconfirmed(const struct store *s);

/* Both files go: nothing is configured any more. */
int store_clear(const struct store *s, struct vgw_err *err);

#endif
