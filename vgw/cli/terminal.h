/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal on standard output: its size and colours, a live view, and the signals that end one. */
#ifndef VGW_CLI_TERMINAL_H
#define VGW_CLI_TERMINAL_H

#include <stdbool.h>

#include "netcfg/base/buf.h"

bool terminal_present(void);
/* A terminal that shows colours, and nobody has set NO_COLOR (no-color.org). */
bool terminal_colour(void);
/* 80 and 24 where it does not say. */
void terminal_size(unsigned *columns, unsigned *rows);

/* From now until release, SIGINT, SIGTERM and SIGHUP only make terminal_stopped() true. */
void terminal_catch(void);
bool terminal_stopped(void);
void terminal_release(void);
/* Until the time is over, or a signal comes. */
void terminal_pause(unsigned ms);

/* The other screen, without cursor; what was there is back after leaving. */
void terminal_enter(void);
void terminal_leave(void);
/* Replaces what is shown, without flicker; what is below the last row is not shown. */
void terminal_draw(const struct buf *text, unsigned rows);

#endif
