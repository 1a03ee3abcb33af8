#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The bench: the real binary beside its peers, in network namespaces. As root.
#   tests/bench/run.sh [--quick] [--only NAME]... [--output FILE]
# VGW_AGENT is the binary, VGW_AGENT_STATIC the static one, VGW_BENCH_TOOLS the folder of the load generators.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" -eq 0 ] || { echo "the bench makes network namespaces: run it as root" >&2; exit 1; }
export VGW_AGENT=${VGW_AGENT:-$root/build/vgw-agent}
export VGW_AGENT_STATIC=${VGW_AGENT_STATIC:-$root/build/vgw-agent.static}
export VGW_BENCH_TOOLS=${VGW_BENCH_TOOLS:-$root/build/bench}
for need in "$VGW_AGENT" "$VGW_BENCH_TOOLS"/{client,server,watch}; do
	[ -x "$need" ] || { echo "$need is not there: run make bench" >&2; exit 1; }
done
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 "$root/tests/bench/bench.py" "$@"
