#!/bin/bash
# journald.sh CMD...: run CMD with a private, real systemd-journald. Needs root and the package systemd; touches
# nothing of the host: own mount namespace, own tmpfs on /run, journal in memory. RIG_JOURNALD_CONF adds lines to [Journal].
set -eu
if [ -z "${RIG_IN_NS:-}" ]; then RIG_IN_NS=1 exec unshare -m --propagation private -- bash "$0" "$@"; fi
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/log/journal /run/systemd/units
printf '[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\nForwardToSyslog=no\nForwardToConsole=no\nRateLimitIntervalSec=0\n%s\n' \
  "${RIG_JOURNALD_CONF:-}" >/run/systemd/journald.conf.d/rig.conf
/lib/systemd/systemd-journald & j=$!
trap 'kill $j; wait $j 2>/dev/null || true' EXIT
for _ in $(seq 200); do [ -S /run/systemd/journal/stdout ] && break; sleep 0.02; done
"$@"
