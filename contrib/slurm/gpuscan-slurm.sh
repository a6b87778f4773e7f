# shellcheck shell=bash disable=SC2034 # what is set here is used in the scripts
# Shared by the gpuscan scripts beside it. The site's settings go into gpuscan.env, beside it too:
# slurmd starts its programs with next to no environment. What may be set there (export what
# gpuscan itself is to see, such as GPUSCAN_STATE_DIR and GPUSCAN_CONFIG, and SLURM_CONF):
#   GPUSCAN              the command, if gpuscan is not on the PATH (a virtual environment)
#   GPUSCAN_SLURM_STATE  where these scripts keep their own notes
#   GPUSCAN_SLURM_LOG    what they did and why
#   GPUSCAN_UNKNOWN      how many checks in a row may end without a verdict before a node is drained
#   GPUSCAN_LIMIT        the seconds after which a health check's gpuscan is killed (48: slurmd kills
#                        the health check itself after 60)
#   GPUSCAN_REBOOT       no: drain a node that needs a reboot instead of asking Slurm to reboot it
#   GPUSCAN_REBOOT_CMD   what reboots the node
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
here=$(dirname "${BASH_SOURCE[0]}")
if [ -r "$here/gpuscan.env" ]; then
    # shellcheck source=/dev/null
    . "$here/gpuscan.env"
fi
gpuscan=${GPUSCAN:-gpuscan}
notes=${GPUSCAN_SLURM_STATE:-/var/lib/gpuscan-slurm}
log=${GPUSCAN_SLURM_LOG:-/var/log/gpuscan-slurm.log}
node=${SLURMD_NODENAME:-$(hostname -s)}
: "${GPUSCAN_UNKNOWN:=3}" "${GPUSCAN_LIMIT:=48}" "${GPUSCAN_REBOOT:=yes}"
(umask 077 && mkdir -p "$notes") 2>/dev/null

# Say something on standard error, which slurmd keeps of a failed program, and in the log.
say() {
    local line
    line="$(date +%FT%T%z) $node ${0##*/}: $*"
    echo "$line" >&2
    { echo "$line" >>"$log"; } 2>/dev/null || echo "$log cannot be written" >&2
}

# Write a note for later; 1 and a word about it where that is not possible.
note() {
    { echo "$2" >"$notes/$1"; } 2>/dev/null && return
    say "$notes/$1 cannot be written"
    return 1
}

# Return gpuscan's one line out of all that it said, or the last of the others.
headline() {
    grep -m1 -E '^[a-z]+ \([0-9]+\)' <<<"$1" || echo "${1##*$'\n'}"
}

# ask SECONDS WORD...: run gpuscan and set what it said and its exit code. Where not even SIGKILL
# ends it (a driver that hangs), it is left behind.
ask() {
    local limit=$1
    shift
    if IFS= read -r -d '' -t "$((limit + 2))" said < <(
        timeout -k 1 "$limit" "$gpuscan" "$@" 2>&1 9>&-
        printf '\n%s\0' "$?"
    ); then
        code=${said##*$'\n'}
        said=${said%$'\n'*}
        said=${said%$'\n'}
    else
        said='' code=124
    fi
    line=$(headline "${said:-nothing was said in $SECONDS s}")
}
