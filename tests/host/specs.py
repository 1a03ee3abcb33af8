# SPDX-License-Identifier: Apache-2.0
"""Specs as the contract writes them. Each has a higher generation than the one before."""

import itertools

from lab import CONTROL_PLANE, CONTROL_PLANE6, GATEWAY, GATEWAY6

_generations = itertools.count(1)
QUICK = {"interval": "200ms", "timeout": "400ms", "rise": 1, "fall": 2}


def backend(name, port=6443, **extra):
    """cp1..cp3, cp1v6.. or an address."""
    known = {**CONTROL_PLANE, **{f"{n}v6": a for n, a in CONTROL_PLANE6.items()}}
    return {"address": known.get(name, name), "port": port, **extra}


def backends(port=6443, names=tuple(CONTROL_PLANE), **extra):
    return [backend(name, port, **extra) for name in names]


def kube(check=None, **extra):
    """The control-plane frontend on 6443, checked often."""
    return {"name": "kube-apiserver", "port": 6443, "protocol": "TCP",
            "healthCheck": {"type": "https", "path": "/readyz", "expect": [200], **QUICK, **(check or {})},
            "backends": backends(), **extra}


def tcp(name, port, to=7000, check=None, **extra):
    """A frontend on the beacons."""
    return {"name": name, "port": port, "protocol": "TCP", "healthCheck": {"type": "tcp", **QUICK, **(check or {})},
            "backends": backends(to), **extra}


def udp(name, port, to=5353, **extra):
    return {"name": name, "port": port, "protocol": "UDP", "backends": backends(to), **extra}


def tunnel(interface=None, mtu=1400, network="192.168.10.0/24", address="192.168.10.1", **extra):
    row = {"name": "mgmt", "mtu": mtu,
           "peer": {"cloudspaceId": "cs-7f2a", "privateNetwork": network, "address": address}, **extra}
    if interface:
        row["interface"] = interface
    return row


def spec(*frontends, tunnels=(), cloudspace=None, **extra):
    whole = {"apiVersion": "vgw-agent/v1", "generation": next(_generations), "cluster": "private-demo",
             "controlPlaneExposure": "private",
             "cloudspace": {"id": "cs-1a2b", "privateNetwork": "192.168.150.0/24", **(cloudspace or {})},
             "clusterNetwork": {"pods": ["10.244.0.0/16"], "services": ["10.96.0.0/12"]},
             "frontends": list(frontends), **extra}
    if tunnels:
        whole["tunnels"] = list(tunnels)
    if extra.get("cloudspace_networks"):
        del whole["cloudspace_networks"]
        whole["cloudspace"] = {"id": "cs-1a2b", "privateNetworks": extra["cloudspace_networks"]}
    return whole


def dual_stack(*frontends, **extra):
    """The same cloudspace with both families."""
    return spec(*frontends, cloudspace_networks=["192.168.150.0/24", "fd00:150::/64"], **extra)


ADDRESS = {4: GATEWAY, 6: GATEWAY6}
