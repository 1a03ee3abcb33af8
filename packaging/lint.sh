#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh MODEL_LIB FILES...: the format of the files, and two promises of the layout: code in a model/ folder is pure,
# and netcfg/ knows nothing of vgw/.
set -uo pipefail
[ $# -ge 1 ] || { echo "usage: $0 MODEL_LIB FILES..." >&2; exit 2; }
cd "$(dirname "$0")/.." || exit 1
model_lib=$1
shift
failed=0
complain() { printf '%s\n' "$@" >&2; failed=1; }

if [ $# -gt 0 ]; then
	clang-format --dry-run -Werror "$@" || failed=1
fi

# What pure code must not ask for: sockets and files, clocks, the environment, processes, randomness, the log.
impure='socket|socketpair|bind|listen|accept4?|connect|send(to|msg|mmsg)?|recv(from|msg|mmsg)?|[gs]etsockopt|shutdown
poll|ppoll|p?select|epoll_.*|ioctl|fcntl|nl_.*|rtnl_.*|mnl_.*|nftnl_.*|ev_.*|mbedtls_.*|getaddrinfo|getnameinfo|if_nametoindex|if_indextoname
open(at)?|creat|close|read|write|p?readv?|p?writev?|pread|pwrite|unlink(at)?|rename(at2?)?|mkdir(at)?|opendir|readdir.*|(f|l)?stat(at)?|truncate|ftruncate|fsync|mmap|munmap
fopen|fdopen|freopen|fmemopen|fclose|fread|fwrite|fflush|fputs|fputc|putc|_IO_.*|puts|putchar|perror|fgets|fgetc|getc|getline|getdelim|v?f?printf|v?dprintf|std(in|out|err)|tmpfile|popen|pclose|syslog|vsyslog|openlog
time|gettimeofday|clock|clock_gettime|clock_getres|ftime|localtime(_r)?|mktime|nanosleep|u?sleep|alarm|setitimer|timer_.*|timerfd_.*
exit|_exit|_Exit|quick_exit|abort|atexit|at_quick_exit|fork|vfork|exec.*|posix_spawn.*|system|kill|raise|signal|sigaction|wait(pid)?|getpid|get[eg]?uid|pthread_.*
getenv|secure_getenv|setenv|unsetenv|putenv|environ|rand(om)?|s?rand(om)?|getrandom|getentropy|arc4random.*|syscall
log_.*|vgw_log.*|netcfg_log.*'
impure=$(printf '%s' "$impure" | tr '\n' '|')

# Fortified builds call __printf_chk for printf, 64-bit time and files have names of their own: compare the bare name.
bare() { sed -E 's/@.*$//; s/^__isoc(99|23)_//; s/^__(.*)_chk$/\1/; s/^(.*)64$/\1/'; }
if [ ! -f "$model_lib" ]; then
	complain "lint: $model_lib is not there: build it first"
elif [ -z "$(nm "$model_lib" 2>/dev/null)" ]; then
	complain "lint: $model_lib holds no symbol"
else
	while read -r object symbol; do
		name=$(printf '%s' "$symbol" | bare)
		if [[ $name != __stack_fail && $name =~ ^($impure)$ ]]; then
			complain "lint: $object is in a model/ folder and asks for $symbol"
		fi
	done < <(nm -u --print-file-name "$model_lib" | awk '{ split($1, part, ":"); print part[2], $NF }' | sort -u)
	# The log's own functions, whatever they are called.
	base_lib=$(dirname "$model_lib")/libbase.a
	if [ -f "$base_lib" ]; then
		while read -r symbol; do
			complain "lint: pure code calls the log: $symbol"
		done < <(comm -12 <(nm "$base_lib" 2>/dev/null | awk '/^log\.o:$/ { on = 1; next } /:$/ { on = 0 } on && $2 == "T" { print $3 }' | sort -u) \
			<(nm -u "$model_lib" | awk '$1 == "U" { print $2 }' | sort -u))
	fi
fi

# Which rooms may know which: pure code sees only the ground floor and other pure code; netcfg/ sees no vgw/.
shopt -s nullglob
includes() { grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$@" /dev/null; }
while IFS= read -r line; do
	complain "lint: pure code includes a room with side effects: $line"
done < <(includes netcfg/model/*.[ch] vgw/model/*.[ch] | grep -E '"([^"]*/)?((kernel|control|probe|report)/[^"]*|log\.h)"')
while IFS= read -r line; do
	complain "lint: netcfg/ includes from vgw/: $line"
done < <(includes netcfg/*/*.[ch] | grep -E '"(\.\./)*vgw/')
exit $failed
