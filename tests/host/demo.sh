#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `sudo make demo` shows: the agent on the gateway of a cloudspace made of network namespaces.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
[ "$(id -u)" -eq 0 ] || { echo "the demo makes network namespaces: run it as root (sudo make demo)" >&2; exit 1; }
export VGW_AGENT=${VGW_AGENT:-$(cd ../.. && pwd)/build/vgw-agent}
[ -x "$VGW_AGENT" ] || { echo "$VGW_AGENT is not there: run make first" >&2; exit 1; }
PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 demo.py
