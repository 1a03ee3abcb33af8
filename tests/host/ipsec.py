# SPDX-License-Identifier: Apache-2.0
"""Policy IPsec between two hosts of a lab by strongSwan in user space (kernel-libipsec): what needs no ESP of the kernel's.

charon makes a tun device ipsec0 and routes what its policies say into it, in a table of its own (220). ESP goes in UDP from
a socket that takes part in PMTU discovery. Every instance has a /run of its own, so that several live beside each other.
Debian 12 has the algorithms in plugins of their own, Debian 13 in openssl's: what is not there is not loaded.
"""

import os

from netns import wait_for

CHARON = "/usr/lib/ipsec/charon"
TABLE, LINK, PORT = 220, "ipsec0", 4500
PROPOSAL = "aes128-sha256-modp2048"

SETTINGS = """\
charon {{
    load = random nonce drbg openssl kdf aes sha1 sha2 hmac gmp kernel-libipsec kernel-netlink socket-default vici
    port = 500
    port_nat_t = {port}
    filelog {{ stderr {{ default = 1 }} }}
    plugins {{ vici {{ socket = unix://{vici} }} }}
}}
swanctl {{ load = random nonce }}
"""
CONNECTION = """\
connections {{
    site {{
        version = 2
        local_addrs = {own}
        remote_addrs = {other}
        proposals = {proposal}
        mobike = no
        local {{ auth = psk
            id = {own} }}
        remote {{ auth = psk
            id = {other} }}
        children {{
            net {{
                local_ts = {here}
                remote_ts = {there}
                esp_proposals = {proposal}
                start_action = trap
                dpd_action = restart
            }}
        }}
    }}
}}
secrets {{ ike {{ secret = "not a secret" }} }}
"""


def fits(underlay, most):
    """The largest packet whose ESP in UDP over IPv4 is not larger than that: 20 + 8 + 8 + IV 16 + ICV 16 and a payload
    that is filled up, with its two bytes of trailer, to blocks of 16."""
    return min(most, (underlay - 68) // 16 * 16 - 2)


class Charon:
    """One end. start() returns when the configuration is loaded."""

    def __init__(self, host, own, other, here, there):
        self.host, self.process, self.starts = host, None, 0
        self.directory = os.path.join(host.directory, "ipsec")
        os.makedirs(os.path.join(self.directory, "swanctl"), exist_ok=True)
        self.vici = os.path.join(self.directory, "vici")
        self.settings = self._write("strongswan.conf", SETTINGS.format(port=PORT, vici=self.vici))
        self.connection = self._write("swanctl.conf", CONNECTION.format(own=own, other=other, here=here, there=there,
                                                                        proposal=PROPOSAL))

    def _write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def start(self):
        self.starts += 1
        if os.path.exists(self.vici):
            os.unlink(self.vici)
        self.process = self.host.spawn("unshare", "--mount", "sh", "-c", f"mount -t tmpfs tmpfs /run && exec {CHARON}",
                                       env={"STRONGSWAN_CONF": self.settings}, log=f"charon-{self.starts}")
        wait_for(lambda: os.path.exists(self.vici) or not self.process.alive(), what="charon listens")
        self.control("--load-all", "--file", self.connection)
        return self

    def control(self, *arguments, check=True):
        return self.host.run("env", f"STRONGSWAN_CONF={self.settings}", "swanctl", *arguments, "--uri",
                             f"unix://{self.vici}", check=check)

    def up(self):
        self.control("--initiate", "--child", "net", "--timeout", "10")
        return self

    def rekey(self):
        self.control("--rekey", "--child", "net")

    def spis(self):
        """The security associations in force, by their incoming SPI."""
        return {line.split()[1] for line in self.control("--list-sas").stdout.splitlines() if line.split()[:1] == ["in"]}

    def stop(self):
        return self.process.stop()

    def kill(self):
        return self.process.kill()


# The kernel's own IPsec, with keys and policies given by hand.

SPI, KEY, AUTHENTICATION = 0x5160, "0x" + "17" * 16, "0x" + "42" * 32


def state(own, other):
    """The command for one direction's security association."""
    return (f"xfrm state add src {own} dst {other} proto esp spi {SPI} reqid 1 mode tunnel "
            f"enc cbc(aes) {KEY} auth-trunc hmac(sha256) {AUTHENTICATION} 128")


def policies(own, other, here, there):
    """What leaves, what comes in and what is passed on."""
    ways = (("out", own, other, here, there), ("in", other, own, there, here), ("fwd", other, own, there, here))
    return [f"xfrm policy add src {a} dst {b} dir {way} tmpl src {x} dst {y} proto esp reqid 1 mode tunnel"
            for way, x, y, a, b in ways]


def in_kernel(host):
    """Whether this kernel has ESP: some have IPsec's policies without it."""
    done = host.ip(state("192.0.2.1", "192.0.2.2"), check=False)
    host.ip("xfrm state flush", check=False)
    return done.returncode == 0


def fits_in_kernel(underlay, most):
    """As fits(), without UDP."""
    return min(most, (underlay - 60) // 16 * 16 - 2)
