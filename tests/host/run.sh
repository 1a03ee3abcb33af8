#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The host tests: the real binary, the real kernel, network namespaces. As root. Arguments go to pytest:
#   tests/host/run.sh -k hairpin -x
set -uo pipefail
cd "$(dirname "$0")" || exit 1
[ "$(id -u)" -eq 0 ] || { echo "the host tests make network namespaces: run them as root" >&2; exit 1; }
export VGW_AGENT=${VGW_AGENT:-$(cd ../.. && pwd)/build/vgw-agent}
[ -x "$VGW_AGENT" ] || { echo "$VGW_AGENT is not there: run make first" >&2; exit 1; }
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 -m pytest -p no:cacheprovider -rsfE --durations=8 "$@"
