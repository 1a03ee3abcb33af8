/* SPDX-License-Identifier: Apache-2.0 */
/* IPv4 and IPv6 addresses, prefixes and endpoints. Pure: no system call, no allocation. */
#ifndef NETCFG_MODEL_IP_H
#define NETCFG_MODEL_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ip_family {
	IP_NONE = 0, /* an address that is not set: every struct of zeroes */
	IP_V4 = 4,
	IP_V6 = 6,
};

/* Longest text of each, NUL included (RFC 5952; an endpoint is "[v6]:port"). */
enum { IP_ADDR_STRLEN = 46, IP_PREFIX_STRLEN = 50, IP_ENDPOINT_STRLEN = 54 };

/* `bytes` in network byte order; 4 used for IPv4, the rest zero, so that memcmp compares. */
struct ip_addr {
	uint8_t family; /* enum ip_family */
	uint8_t bytes[16];
};

struct ip_prefix {
	struct ip_addr addr; /* host bits zero */
	uint8_t len;	     /* 0–32 or 0–128 */
};

struct ip_endpoint {
	struct ip_addr addr;
	uint16_t port; /* host byte order */
};

/* 4 or 16; 0 for an address that is not set. */
size_t ip_addr_size(const struct ip_addr *a);
/* What is malformed leaves zeroes in OUT. */
/* Strict text: no leading zeros in IPv4, no zone. -EINVAL otherwise. IPv4-mapped IPv6 stays IPv6. */
int ip_addr_parse(const char *text, struct ip_addr *out);
/* "ADDRESS/LENGTH". -EINVAL when malformed, -ERANGE when host bits are set (they are kept in OUT then). */
int ip_prefix_parse(const char *text, struct ip_prefix *out);
/* "1.2.3.4:80" or "[2001:db8::1]:80", port 1–65535. -EINVAL otherwise. */
int ip_endpoint_parse(const char *text, struct ip_endpoint *out);

/* The network of LEN bits that ADDRESS lies in: its host bits cleared. LEN beyond the address means all of
 * it. */
void ip_prefix_of(const struct ip_addr *address, uint8_t len, struct ip_prefix *out);

/* Print into OUT (at least the STRLEN of its kind) and return it. */
const char *ip_addr_print(const struct ip_addr *a, char *out);
const char *ip_prefix_print(const struct ip_prefix *p, char *out);
const char *ip_endpoint_print(const struct ip_endpoint *e, char *out);

/* Total orders: IPv4 before IPv6, then by value. <0, 0, >0. */
int ip_addr_cmp(const struct ip_addr *a, const struct ip_addr *b);
int ip_prefix_cmp(const struct ip_prefix *a, const struct ip_prefix *b);
int ip_endpoint_cmp(const struct ip_endpoint *a, const struct ip_endpoint *b);

bool ip_prefix_contains_addr(const struct ip_prefix *p, const struct ip_addr *a);
/* INNER is OUTER or lies inside it. */
bool ip_prefix_contains(const struct ip_prefix *outer, const struct ip_prefix *inner);
bool ip_prefix_overlaps(const struct ip_prefix *a, const struct ip_prefix *b);
/* The network plus one. -ERANGE where there is no room for hosts: /31 and up, /127 and up. */
int ip_prefix_first_host(const struct ip_prefix *p, struct ip_addr *out);
/* The first and the last address of a prefix. */
void ip_prefix_range(const struct ip_prefix *p, struct ip_addr *first, struct ip_addr *last);

#endif
