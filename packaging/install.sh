#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the program and what goes with it where a Debian system looks for them, below DESTDIR. Called by `make install`
# with DESTDIR, PREFIX, SYSCONFDIR and BIN. A configuration that is there already is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
root=${DESTDIR:-}
prefix=${PREFIX:-/usr}
etc=${SYSCONFDIR:-/etc}
bin=${BIN:-build/vgw-agent}
[ -x "$bin" ] || { echo "install: $bin is not there: run make first" >&2; exit 1; }

file() { install -D -m "$1" "$2" "$root$3"; }

file 755 "$bin" "$prefix/sbin/vgw-agent"
file 644 packaging/vgw-agent.8 "$prefix/share/man/man8/vgw-agent.8"
file 644 packaging/agent.json "$prefix/share/doc/vgw-agent/examples/agent.json"
file 644 packaging/spec.json "$prefix/share/doc/vgw-agent/examples/spec.json"
file 644 LICENSE "$prefix/share/doc/vgw-agent/LICENSE"
file 644 packaging/sysusers.d/vgw-agent.conf "$prefix/lib/sysusers.d/vgw-agent.conf"
file 644 packaging/tmpfiles.d/vgw-agent.conf "$prefix/lib/tmpfiles.d/vgw-agent.conf"
file 644 packaging/networkd.conf.d/vgw-agent.conf "$prefix/lib/systemd/networkd.conf.d/vgw-agent.conf"
file 644 packaging/rt_protos.d/vgw-agent.conf "$etc/iproute2/rt_protos.d/vgw-agent.conf"

unit="$prefix/lib/systemd/system/vgw-agent.service"
file 644 packaging/vgw-agent.service "$unit"
[ "$prefix" = /usr ] || sed -i "s|^ExecStart=/usr/|ExecStart=$prefix/|" "$root$unit"

install -d -m 755 "$root$etc/vgw-agent"
install -d -m 750 "$root$etc/vgw-agent/tls"
[ -e "$root$etc/vgw-agent/agent.json" ] || file 644 packaging/agent.json "$etc/vgw-agent/agent.json"
