#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make check` runs after the set-up: both compilers, lint, the unit tests with and without sanitizers, the host
# tests. Every stage runs even when an earlier one failed. The last line is "N passed, N failed, N skipped".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
logs=${BUILD:-build}/check-logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0

say() { printf '\n== %s\n' "$*"; }
mk() { make --no-print-directory -j2 CC=gcc WERROR=-Werror "$@"; }

# count FILE REGEX: how many lines match
count() { grep -cE "$2" "$1" || true; }
# words FILE WORD: the number before WORD in pytest's closing line
words() {
	local number
	number=$(grep -E '^=+ .* in [0-9.]+s' "$1" | tail -n 1 | grep -oE "[0-9]+ $2" | cut -d' ' -f1 | head -n 1)
	echo "${number:-0}"
}

# stage NAME COMMAND...: one check of its own, passed when the command ends with 0
stage() {
	local name=$1
	shift
	say "$name"
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $name"
	fi
}

# again LOG: the few host tests that failed, once more, on the machine as it is now; prints how many fail again. They drive
# real time-outs on two cores: what fails twice is a fault, what fails once is named.
again() {
	local ids number
	mapfile -t ids < <(sed -nE 's/^(FAILED|ERROR) ([^ ]+\.py::.*)$/\2/p' "$1" | sed 's/ - .*//' | sort -u)
	number=${#ids[@]}
	[ "$number" -ge 1 ] && [ "$number" -le 5 ] || { echo "$2"; return; }
	echo "once more: ${ids[*]}" >&2
	tests/host/run.sh "${ids[@]}" >"$logs/again.log" 2>&1
	tail -n 30 "$logs/again.log" >&2
	[ "$(words "$logs/again.log" passed)" -gt 0 ] || { echo "$2"; return; }
	echo $(($(words "$logs/again.log" failed) + $(words "$logs/again.log" 'errors?')))
}

# tests NAME KIND COMMAND...: counts what the command's own tests say
tests() {
	local name=$1 kind=$2 log=$logs/$2.log status ok=0 bad=0 skip=0
	shift 2
	say "$name"
	# V=1 shows every test by name; the compiler's command lines are of no interest here.
	"$@" 2>&1 | grep --line-buffered -vE '^(gcc|clang|cc|rm -f) ' | tee "$log"
	status=${PIPESTATUS[0]}
	case $kind in
	unit)
		skip=$(count "$log" '^[[:space:]]*(not )?ok [0-9]+.*# *(SKIP|skip)')
		ok=$(($(count "$log" '^[[:space:]]*ok [0-9]+') - skip))
		bad=$(count "$log" '^[[:space:]]*not ok [0-9]+')
		;;
	host)
		ok=$(words "$log" passed)
		bad=$(($(words "$log" failed) + $(words "$log" 'errors?')))
		skip=$(words "$log" skipped)
		if [ "$bad" -gt 0 ]; then
			local left
			left=$(again "$log" "$bad")
			ok=$((ok + bad - left)) bad=$left
			[ "$left" -gt 0 ] || status=0
		fi
		;;
	esac
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
	# A crash, a build that failed, or no test at all is a failure that no test could report.
	if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$ok" -eq 0 ]; }; then
		failed=$((failed + 1))
		echo "FAILED: $name (status $status)"
	fi
}

stage "build with gcc, warnings are errors" mk all
stage "build with clang, warnings are errors" make --no-print-directory -j2 CC=clang WERROR=-Werror BUILD=build/clang all
stage "lint" mk lint
stage "fuzz corpora replayed" mk check-fuzz
tests "unit tests, also with sanitizers" unit mk check-unit V=1
tests "host tests" host mk check-host

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
