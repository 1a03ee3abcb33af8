#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Polls over one kept-alive mTLS connection, as fast as answers come: poll.py ADDRESS PORT CA CERTIFICATE KEY SECONDS COUNT
[PATH]. Ends after SECONDS or COUNT polls, whichever is first, and prints {"polls", "seconds", "p50", "p99", "max", "bytes"}."""

import json
import socket
import ssl
import sys
import time


def answer(sock, buffer):
    """Reads one answer; returns (its size, what came after it)."""
    while (end := buffer.find(b"\r\n\r\n")) < 0:
        buffer += _more(sock)
    head = buffer[:end].lower()
    if not head.startswith(b"http/1.1 200"):
        raise SystemExit(f"poll: {head[:80]!r}")
    at = head.index(b"content-length:") + 15
    size = end + 4 + int(head[at:].split(b"\r\n", 1)[0])
    while len(buffer) < size:
        buffer += _more(sock)
    return size, buffer[size:]


def _more(sock):
    data = sock.recv(65536)
    if not data:
        raise SystemExit("poll: the connection was closed")
    return data


def main():
    address, port, ca, certificate, key, seconds, count = sys.argv[1:8]
    path = sys.argv[8] if len(sys.argv) > 8 else "/v1/status"
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    raw = socket.create_connection((address, int(port)), timeout=10)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock = context.wrap_socket(raw, server_hostname="192.168.150.1")
    request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    took, buffer, size = [], b"", 0
    begin = last = time.perf_counter()
    end = begin + float(seconds)
    while len(took) < int(count) and last < end:
        sock.sendall(request)
        size, buffer = answer(sock, buffer)
        now = time.perf_counter()
        took.append(now - last)
        last = now
    took.sort()
    print(json.dumps({"polls": len(took), "seconds": last - begin, "p50": took[len(took) // 2],
                      "p99": took[len(took) * 99 // 100], "max": took[-1], "bytes": size}))


main()
