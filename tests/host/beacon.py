#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A cheap server that says who answers and whom it sees: beacon.py NAME tcp:PORT udp:PORT echo:PORT...

tcp: one line "NAME CLIENT", and the end once the client has closed. udp: the same as a datagram. echo: the line, then every byte comes back.
"""

import selectors
import socket
import sys
import threading
import time


def listener(port, kind):
    sock = socket.socket(socket.AF_INET6, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind(("::", port))
    if kind == socket.SOCK_STREAM:
        sock.listen(1024)
    return sock


def line(name, peer):
    return f"{name} {peer[0].removeprefix('::ffff:')}\n".encode("ascii")


def serve_tcp(name, sock):
    while True:
        client, peer = sock.accept()
        client.settimeout(2)
        try:
            client.sendall(line(name, peer))
            # Who closes first keeps the ports for a minute (TIME_WAIT). Were it the server, a masqueraded client's
            # random port would now and then meet one: the SYN is answered by a mere ACK, and begins anew.
            client.recv(1)
        except OSError:
            pass
        client.close()


def serve_udp(name, sock):
    while True:
        _, peer = sock.recvfrom(2048)
        try:
            sock.sendto(line(name, peer), peer)
        except OSError:
            pass


def serve_echo(name, sock):
    selector = selectors.DefaultSelector()
    selector.register(sock, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sock:
                client, peer = sock.accept()
                client.sendall(line(name, peer))
                selector.register(client, selectors.EVENT_READ)
                continue
            try:
                data = key.fileobj.recv(65536)
                if data:
                    key.fileobj.sendall(data)
            except OSError:
                data = b""
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()


def serve_drip(_, sock):
    clients = []
    sock.setblocking(False)
    while True:
        try:
            clients.append(sock.accept()[0])
            clients[-1].sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03")
        except OSError:
            pass
        for client in list(clients):
            try:
                client.send(b"\0")
            except OSError:
                clients.remove(client)
                client.close()
        time.sleep(0.05)


SERVE = {"tcp": (serve_tcp, socket.SOCK_STREAM), "udp": (serve_udp, socket.SOCK_DGRAM),
         "echo": (serve_echo, socket.SOCK_STREAM), "drip": (serve_drip, socket.SOCK_STREAM)}


def main():
    name, threads = sys.argv[1], []
    for word in sys.argv[2:]:
        kind, port = word.split(":")
        serve, socket_kind = SERVE[kind]
        threads.append(threading.Thread(target=serve, args=(name, listener(int(port), socket_kind)), daemon=True))
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
