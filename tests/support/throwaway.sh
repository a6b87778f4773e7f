#!/bin/bash
# Usage: throwaway.sh FOLDER SCRIPT [SHARED...]: run SCRIPT as PID 1 of new namespaces, on this
# machine's files, with all writes thrown away at the end. Only FOLDER/share and the SHARED folders,
# which may lie on other file systems, are the same inside. Needs root and overlayfs.
set -u
folder=$1 script=$2
shift 2

if [ -z "${THROWAWAY_INSIDE:-}" ]; then
    # A cgroup of its own, so that a systemd inside makes its groups in there.
    for top in /sys/fs/cgroup/unified /sys/fs/cgroup; do
        [ -e "$top/cgroup.procs" ] || continue
        mkdir "$top/throwaway-$$" 2>/dev/null && group=$top/throwaway-$$
        break
    done
    (
        [ -z "${group:-}" ] || echo "$BASHPID" >"$group/cgroup.procs"
        THROWAWAY_INSIDE=yes exec unshare --mount --pid --fork --kill-child --uts --ipc --net \
            --cgroup bash "$0" "$folder" "$script" "$@"
    )
    code=$?
    [ -z "${group:-}" ] || find "$group" -depth -type d -exec rmdir {} +
    exit "$code"
fi

set -e
unset THROWAWAY_INSIDE
mount --make-rprivate /
mount -t tmpfs none "$folder/over"
mkdir "$folder/over/up" "$folder/over/work" "$folder/over/root"
root=$folder/over/root
mount -t overlay none "$root" \
    -o "lowerdir=/,upperdir=$folder/over/up,workdir=$folder/over/work"
for shared in "$folder/share" "$@"; do
    mkdir -p "$root$shared"
    mount --rbind "$shared" "$root$shared"
done
for own in run var/tmp; do mount -t tmpfs -o mode=1777 none "$root/$own"; done
mount -t proc none "$root/proc"
mount -t sysfs -o ro none "$root/sys"
mount -t cgroup2 none "$root/sys/fs/cgroup" || true # only a systemd needs it
mount --rbind /dev "$root/dev"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
ip link set lo up 2>/dev/null || true
cd "$root"
mkdir -p .before
pivot_root . .before
umount -l .before
rm -rf /var/lib/gpuscan # a history of this machine is none of the tests'
exec /bin/bash "$script"
