/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/base/err.h"

#include <stdarg.h>
#include <stdio.h>

int vgw_err_set(struct vgw_err *err, int rc, const char *reason, const char *where, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return rc;
	snprintf(err->reason, sizeof(err->reason), "%s", reason);
	snprintf(err->where, sizeof(err->where), "%s", where ? where : "");
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return rc;
}

const char *vgw_err_print(const struct vgw_err *err, char *out, unsigned long size)
{
	if (err->where[0])
		snprintf(out, size, "%s: %s (at %s)", err->reason, err->text, err->where);
	else
		snprintf(out, size, "%s: %s", err->reason, err->text);
	return out;
}
