# SPDX-License-Identifier: Apache-2.0
"""TCP segments made by hand, and what comes back."""

import select
import socket
import struct
import time

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def _checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def inject(host, source, target, from_port, port, flags, seq=0x1234567, ack=0x89abcde):
    """Sends one segment, whatever flow it may seem to belong to; the raw socket it was sent by."""
    header = struct.pack("!HHIIBBHHH", from_port, port, seq, ack, 5 << 4, flags, 1024, 0, 0)
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with host.entered():
        sock = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_TCP)
    sock.bind((source, 0))
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_CHECKSUM, 16)
    else:
        pseudo = socket.inet_aton(source) + socket.inet_aton(target) + struct.pack("!BBH", 0, 6, len(header))
        header = header[:16] + struct.pack("!H", _checksum(pseudo + header)) + header[18:]
    sock.sendto(header, (target, 0))
    return sock


def probe(host, source, target, port, flags, from_port, timeout=2.0):
    """Sends one segment with these flags that belongs to no flow; the flags of the answer, or None."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with inject(host, source, target, from_port, port, flags) as sock:
        end = time.monotonic() + timeout
        while select.select([sock], [], [], max(0.0, end - time.monotonic()))[0]:
            data = sock.recv(4096)
            if family == socket.AF_INET:
                data = data[(data[0] & 15) * 4:]
            if struct.unpack("!HH", data[:4]) == (port, from_port):
                return data[13]
    return None
