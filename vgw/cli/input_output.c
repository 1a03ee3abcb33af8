/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs read, and how they print answers and failures. */
#include "vgw/cli/cli.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vgw/cli/text.h"
#include "vgw/model/spec.h"

int cli_error(enum cli_status status, const struct vgw_err *err)
{
	char text[sizeof(*err) + 16];
	struct buf line = {0};

	text_clean(&line, vgw_err_print(err, text, sizeof(text)));
	fprintf(stderr, "%s\n", buf_str(&line));
	buf_free(&line);
	return status;
}

static int read_all(int fd, struct buf *out)
{
	char chunk[65536];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (out->len + (size_t)n > SPEC_MAX_BYTES)
			return -EFBIG;
		buf_append(out, chunk, (size_t)n);
	}
	return out->failed ? -ENOMEM : 0;
}

int cli_read(const char *path, struct buf *out)
{
	bool standard_input = !strcmp(path, "-");
	int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : read_all(fd, out);
	struct vgw_err err = {0};

	if (fd >= 0 && !standard_input)
		close(fd);
	if (!rc)
		return CLI_DONE;
	buf_free(out);
	if (standard_input)
		path = "standard input";
	if (rc == -EFBIG) {
		vgw_err_set(&err, rc, "TooLarge", path, "longer than 16 MiB");
		return cli_error(CLI_REFUSED, &err);
	}
	vgw_err_set(&err, rc, "FileError", path, "cannot read it: %s", strerror(-rc));
	return cli_error(CLI_FAILED, &err);
}

/* A refusal is a decision about what was asked; what another try may change is a failure. */
static enum cli_status status_of(unsigned http, bool has_reason)
{
	switch (http) {
	case 401:
	case 403:
	case 409:
	case 413:
	case 422:
		return CLI_REFUSED;
	case 408: /* too slow */
	case 429: /* too many */
		return CLI_FAILED;
	}
	return has_reason && http >= 400 && http < 500 ? CLI_REFUSED : CLI_FAILED;
}

static const char *string_of(const struct cJSON *o, const char *name)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

	return s ? s : "";
}

enum cli_status cli_problem_read(const struct client_response *response, struct vgw_err *err)
{
	struct cJSON *problem = cJSON_ParseWithLength(buf_str(&response->body), response->body.len);
	const char *reason = string_of(problem, "reason"), *detail = string_of(problem, "detail");
	enum cli_status status = status_of(response->status, *reason != '\0');

	if (!*detail)
		detail = string_of(problem, "title");
	if (*reason && *detail)
		vgw_err_set(err, 0, reason, string_of(problem, "pointer"), "%s", detail);
	else
		vgw_err_set(err, 0, *reason ? reason : "HTTPStatus", string_of(problem, "pointer"),
			    "the agent answered %u%s%s", response->status, *detail ? ": " : "", detail);
	cJSON_Delete(problem);
	return status;
}

int cli_problem(const struct client_response *response)
{
	struct vgw_err err = {0};
	enum cli_status status = cli_problem_read(response, &err);

	return cli_error(status, &err);
}

static void print_line(const char *text)
{
	struct buf line = {0};

	text_clean(&line, text);
	puts(buf_str(&line));
	buf_free(&line);
}

int cli_print_plan(const struct client_response *response)
{
	struct cJSON *answer = cJSON_ParseWithLength(buf_str(&response->body), response->body.len);
	const struct cJSON *plan = cJSON_GetObjectItemCaseSensitive(answer, "plan"), *line;
	struct vgw_err err = {0};

	if (!cJSON_IsArray(plan)) {
		cJSON_Delete(answer);
		vgw_err_set(&err, -EPROTO, "InvalidAnswer", NULL, "the agent's answer has no plan");
		return cli_error(CLI_FAILED, &err);
	}
	cJSON_ArrayForEach(line, plan)
	{
		if (cJSON_IsString(line))
			print_line(line->valuestring);
	}
	if (!cJSON_GetArraySize(plan))
		puts("no changes");
	cJSON_Delete(answer);
	return CLI_DONE;
}
