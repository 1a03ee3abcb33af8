#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need from Debian 12 or 13, and only what is missing: with everything in place it
# asks nobody and needs no network. As another user than root it names what is missing.
#   setup.sh          what `make check` needs
#   setup.sh bench    the peers of `make bench` as well
set -euo pipefail

build=(build-essential pkg-config clang clang-format libclang-rt-dev
	libnl-3-dev libnl-route-3-dev libmnl-dev libnftnl-dev
	libmbedtls-dev libcjson-dev libev-dev libhttp-parser-dev libcmocka-dev)
tests=(nftables iproute2 iputils-ping wireguard-tools wireguard-go nginx haproxy
	strongswan-charon strongswan-swanctl libcharon-extra-plugins
	tcpdump conntrack curl openssl python3 python3-pytest perl man-db)
bench=(libnginx-mod-stream nftlb iputils-tracepath)
[ "${1:-}" = bench ] && tests+=("${bench[@]}")

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

command -v dpkg-query >/dev/null || { echo "setup: this is no Debian: install by hand: ${build[*]} ${tests[*]}" >&2; exit 1; }
missing=()
for package in "${build[@]}" "${tests[@]}"; do
	installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "setup: missing packages: ${missing[*]}" >&2
	echo "setup: as root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi

# The tests start their own servers: nginx, haproxy and strongSwan must not begin to serve on this machine because of them.
policy=/usr/sbin/policy-rc.d
made_policy=
cleanup() {
	if [ -n "$made_policy" ]; then rm -f "$policy"; fi
}
trap cleanup EXIT
if [ ! -e "$policy" ]; then
	made_policy=yes
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
for package in "${missing[@]}"; do
	# Not every Debian has this peer: the bench says that it went without.
	if [ "$package" = nftlb ] && ! apt-cache show nftlb >/dev/null 2>&1; then
		echo "setup: nftlb is not in this Debian: make bench will skip it" >&2
		mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -vx nftlb)
	fi
done
[ ${#missing[@]} -gt 0 ] || exit 0
apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null

# Not at the next boot either, where they came only for the tests.
for package in "${missing[@]}"; do
	case $package in
	nginx | haproxy | nftlb) unit=$package ;;
	strongswan-charon) unit=strongswan-starter ;;
	*) continue ;;
	esac
	if command -v systemctl >/dev/null; then systemctl disable --now --quiet "$unit" 2>/dev/null || true; fi
done
