/* SPDX-License-Identifier: Apache-2.0 */
/* One failure, as it goes to the log and to the client alike. */
#ifndef NETCFG_BASE_ERR_H
#define NETCFG_BASE_ERR_H

/* Caller-owned, fixed size, nothing to free. An empty reason means "no error". */
struct vgw_err {
	char reason[40]; /* CamelCase, stable: "InvalidSpec" */
	char where[256]; /* a JSON pointer, a file, an object of the kernel; may be empty */
	char text[512];	 /* one sentence for people */
};

/*
 * Fill ERR (NULL is fine) and return RC, so that a caller can write `return vgw_err_set(err, -EINVAL, …)`.
 * WHERE may be NULL. The text is cut, never overrun.
 */
int vgw_err_set(struct vgw_err *err, int rc, const char *reason, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* "Reason: text (where)" into OUT; returns OUT. */
const char *vgw_err_print(const struct vgw_err *err, char *out, unsigned long size);

#endif
