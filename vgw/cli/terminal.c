/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* xterm's control sequences, which every terminal of today knows. */
#define OTHER_SCREEN  "\x1b[?1049h"
#define FORMER_SCREEN "\x1b[?1049l"
#define HIDE_CURSOR   "\x1b[?25l"
#define SHOW_CURSOR   "\x1b[?25h"
#define HOME	      "\x1b[H"
#define CLEAR_LINE    "\x1b[K"
#define CLEAR_BELOW   "\x1b[J"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_ENDING = sizeof(ending) / sizeof(ending[0]) };

static volatile sig_atomic_t stopped;
static struct sigaction former[N_ENDING];

bool terminal_present(void)
{
	return isatty(STDOUT_FILENO);
}

bool terminal_colour(void)
{
	const char *refused = getenv("NO_COLOR"), *kind = getenv("TERM");

	return terminal_present() && !(refused && *refused) && !(kind && !strcmp(kind, "dumb"));
}

void terminal_size(unsigned *columns, unsigned *rows)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		memset(&size, 0, sizeof(size));
	*columns = size.ws_col ? size.ws_col : 80;
	*rows = size.ws_row ? size.ws_row : 24;
}

static void on_signal(int number)
{
	stopped = 1;
}

void terminal_catch(void)
{
	/* Without SA_RESTART: what waits is to look at the flag. */
	struct sigaction action = {.sa_handler = on_signal};

	stopped = 0;
	for (int i = 0; i < N_ENDING; i++) {
		sigaction(ending[i], NULL, &former[i]);
		/* As nohup has it, and as a shell has it for its background jobs. */
		if (former[i].sa_handler != SIG_IGN)
			sigaction(ending[i], &action, NULL);
	}
}

bool terminal_stopped(void)
{
	return stopped;
}

void terminal_release(void)
{
	for (int i = 0; i < N_ENDING; i++)
		sigaction(ending[i], &former[i], NULL);
}

void terminal_pause(unsigned ms)
{
	poll(NULL, 0, (int)ms);
}

static void write_all(const char *data, size_t len)
{
	fflush(stdout);
	while (len) {
		ssize_t n = write(STDOUT_FILENO, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		data += n;
		len -= (size_t)n;
	}
}

void terminal_enter(void)
{
	write_all(OTHER_SCREEN HIDE_CURSOR, strlen(OTHER_SCREEN HIDE_CURSOR));
}

void terminal_leave(void)
{
	write_all(SHOW_CURSOR FORMER_SCREEN, strlen(SHOW_CURSOR FORMER_SCREEN));
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

void terminal_draw(const struct buf *text, unsigned rows)
{
	const char *line = buf_str(text), *end;
	size_t lines = count_lines(line);
	/* The last row says what does not fit. */
	size_t shown = lines <= rows ? lines : rows - 1;
	struct buf out = {0};

	buf_puts(&out, HOME);
	for (size_t i = 0; i < shown; i++, line = end + 1) {
		end = strchr(line, '\n');
		buf_append(&out, line, (size_t)(end - line));
		/* No line end behind the last row: it would scroll. */
		buf_puts(&out, i + 1 < rows ? CLEAR_LINE "\r\n" : CLEAR_LINE);
	}
	if (shown < lines)
		buf_printf(&out, "(%zu more lines)" CLEAR_LINE, lines - shown);
	else if (lines < rows)
		buf_puts(&out, CLEAR_BELOW);
	if (!out.failed)
		write_all(out.data, out.len);
	buf_free(&out);
}
