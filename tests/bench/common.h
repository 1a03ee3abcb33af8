/* SPDX-License-Identifier: Apache-2.0 */
/* What the bench's server and load generators share: the clock, addresses, and the request. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* A request is REQUEST bytes, the first of which says what is wanted; an answer is ANSWER bytes. */
enum { REQUEST = 64, ANSWER = 128 };
enum { ASK_KEEP = 'k', ASK_CLOSE = 'c', ASK_STREAM = 's' };

/* CLOCK_MONOTONIC in seconds: the same clock as Python's time.monotonic(). */
static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline struct sockaddr_in bench_address(const char *address, int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	if (inet_pton(AF_INET, address, &sin.sin_addr) != 1) {
		fprintf(stderr, "not an IPv4 address: %s\n", address);
		exit(2);
	}
	return sin;
}

static inline struct timespec bench_span(double seconds)
{
	if (seconds < 0)
		seconds = 0;
	struct timespec t = {.tv_sec = (time_t)seconds};

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	return t;
}

#endif
