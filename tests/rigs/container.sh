#!/bin/bash
# Real systemd as PID 1 in a throw-away container, also where this host's PID 1 is not systemd.
#   container.sh build ROOT        once: a Debian 12 root with systemd and python3 (about 260 MB)
#   container.sh up NAME ROOT ...  boot it; further words go to systemd-nspawn; every change goes to
#                                  an overlay in memory and is gone after `down`
#   container.sh exec NAME CMD...  run a command inside; its exit status is passed on
#   container.sh down NAME         power off, remove its cgroups
# Needs root and: apt-get install -y --no-install-recommends systemd-container mmdebstrap
set -u
command=$1 name=$2
shift 2
state=${RIG_STATE:-/run/vllm-warden-rig}/$name

# PID 1 of the container is the only child of systemd-nspawn that is called systemd.
leader() {
    local child
    for child in $(cat "/proc/$(cat "$state/pid")/task/"*/children 2>/dev/null); do
        [ "$(cat "/proc/$child/comm" 2>/dev/null)" = systemd ] && echo "$child" && return
    done
}

# Cgroups of its own: all containers would share /payload otherwise.
groups() {
    for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
        [ -e "$hierarchy/cgroup.procs" ] && echo "$hierarchy/rig-$name"
    done
}

case $command in
build)
    rm -rf "$name"
    mmdebstrap --quiet --variant=minbase \
        --include=systemd,systemd-sysv,dbus,libpam-systemd,python3,python3-systemd,procps,curl,libnuma1 \
        bookworm "$name" || exit
    echo rig >"$name/etc/hostname"
    : >"$name/etc/machine-id"
    ;;
up)
    root=$1
    shift
    mkdir -p "$state"
    # CAP_BPF and bpf(2) let DeviceAllow= be enforced; without them systemd skips it silently.
    (
        for group in $(groups); do
            mkdir -p "$group" && echo $BASHPID >"$group/cgroup.procs"
        done
        SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec setsid systemd-nspawn --quiet --register=no \
            --keep-unit -D "$root" -M "$name" --volatile=overlay --private-network \
            --console=pipe --capability=all --drop-capability=CAP_SYS_MODULE \
            --system-call-filter=bpf "$@" --boot </dev/null >"$state/console.log" 2>&1
    ) &
    echo $! >"$state/pid"
    found=''
    for _ in $(seq 600); do
        pid=$(leader)
        [ -n "$pid" ] && found=$(nsenter -t "$pid" -a systemctl is-system-running 2>/dev/null)
        case $found in
        running) exit 0 ;;
        degraded)
            nsenter -t "$pid" -a systemctl --failed --no-pager
            exit 1
            ;;
        esac
        kill -0 "$(cat "$state/pid")" 2>/dev/null || {
            cat "$state/console.log"
            exit 1
        }
        sleep 0.1
    done
    echo "the container is not up: ${found:-no state}" >&2
    exit 1
    ;;
exec)
    exec nsenter -t "$(leader)" -a -- "$@"
    ;;
down)
    outer=$(cat "$state/pid")
    pid=$(leader)
    [ -n "$pid" ] && kill -s RTMIN+4 "$pid"
    for _ in $(seq 100); do
        kill -0 "$outer" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$outer" 2>/dev/null
    sleep 0.1
    for group in $(groups); do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    rm -rf "$state"
    ;;
esac
