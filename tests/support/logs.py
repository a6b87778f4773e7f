"""Kernel logs made up for tests and for the bench: every way that a line is written, and a journal
of any size.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=812, name=python, GPU has fallen off the bus."
WAYS: dict[
    str, Callable[[str], str]
] = {  # what writes it: the line of a message 3600.25 s after boot
    "dmesg": lambda text: f"[ 3600.250000] {text}",
    "dmesg with caller": lambda text: f"[ 3600.250000] [ T1946] {text}",
    "dmesg with caller, glued": lambda text: f"[ 3600.250000][  C7] {text}",
    "dmesg -d": lambda text: f"[ 3600.250000 <    0.000844>] {text}",
    "dmesg --raw": lambda text: f"<3>[ 3600.250000] {text}",
    "dmesg -x": lambda text: f"kern  :err   : [ 3600.250000] {text}",
    "dmesg -T": lambda text: f"[Sun Feb 23 16:24:18 2025] {text}",
    "dmesg --human, delta": lambda text: f"[  +0.000844] {text}",
    "dmesg --human, full": lambda text: f"[Feb23 16:24] {text}",
    "dmesg, iso": lambda text: f"2025-02-23T16:24:18,123456+00:00 {text}",
    "dmesg -x, iso": lambda text: f"kern  :err   : 2025-02-23T16:24:18,123456+00:00 {text}",
    "journalctl": lambda text: f"Feb 23 16:24:18 node01 kernel: {text}",
    "journalctl, precise": lambda text: f"Feb 23 16:24:18.123456 node01 kernel: {text}",
    "journalctl, iso": lambda text: f"2025-02-23T16:24:18+0000 node01 kernel: {text}",
    "journalctl, full": lambda text: f"Sun 2025-02-23 16:24:18 UTC node01 kernel: {text}",
    "journalctl, monotonic": lambda text: f"[ 3600.250000] node01 kernel: {text}",
    "journalctl, no host": lambda text: f"Feb 23 16:24:18 kernel: {text}",
    "rsyslog": lambda text: f"Feb 23 16:24:18 node01 kernel: [ 3600.250000] {text}",
    "rsyslog, iso": lambda text: (
        f"2025-02-23T16:24:18.123456+01:00 node01 kernel: [ 3600.250000] {text}"
    ),
    "rsyslog, RFC 5424": lambda text: (
        f"<3>1 2025-02-23T16:24:18.123456Z node01 kernel - - - {text}"
    ),
    "Talos": lambda text: f"10.0.0.9: kern:     err: [2025-02-23T16:24:18.466440686Z]: {text}",
    "/dev/kmsg": lambda text: f"3,1227,3600250000,-;{text}",
    "/dev/kmsg, caller": lambda text: f"3,1227,3600250000,c,caller=T12;{text}",
    "journalctl -o json": lambda text: journal(text),
    "journalctl -o json, bytes": lambda text: journal(list(text.encode("utf-8"))),
    "kernel alone": lambda text: f"kernel: {text}",
    "time alone": lambda text: f"16:24:18 node01 kernel: {text}",
    "ESXi": lambda text: f"2025-02-23T16:24:18.123Z cpu12:2098765){text}",
    "ESXi 8": lambda text: f"2025-02-23T16:24:18.123Z In(182) vmkernel: cpu12:2098765){text}",
    "no prefix": lambda text: text,
    "syslogd's call": lambda text: f" kernel:[ 3600.250000] {text}",
}
USERS: dict[str, Callable[[str], str]] = {  # who only quotes it
    "a program": lambda text: f"Feb 23 16:24:18 node01 monitor[2222]: {text}",
    "a program, iso": lambda text: f"2025-02-23T16:24:18+00:00 node01 monitor[2222]: {text}",
    "a program without number": lambda text: f"Feb 23 16:24:18 node01 monitor: {text}",
    "a program's JSON": lambda text: (
        f"Feb 23 16:24:18 node01 npd[7]: {json.dumps({'message': text})}"
    ),
    "a program in dmesg": lambda text: f"[ 3600.250000] monitor[2222]: {text}",
    "a program in /dev/kmsg": lambda text: f"12,1227,3600250000,-;{text}",
    "a program in the journal": lambda text: journal(text, _TRANSPORT="stdout"),
    "audit": lambda text: f"[ 3600.250000] audit: type=1400 audit(1.0:2): comm='{text}'",
    "audit in syslog": lambda text: (
        f"Feb 23 16:24:18 node01 kernel: audit: type=1400 audit(1.0:2): comm='{text}'"
    ),
    "docker": lambda text: json.dumps(
        {"log": f"{text}\n", "stream": "stdout", "time": "2025-02-23T16:24:18Z"}
    ),
    "kubernetes": lambda text: f"2025-02-23T16:24:18.123456789Z stdout F {text}",
    "a shell": lambda text: f'echo "{text}" >> /var/log/kern.log',
    "JSON": lambda text: json.dumps({"level": "error", "msg": text}),
    "dmesg -x of a program": lambda text: f"user  :err   : [ 3600.250000] {text}",
}


def journal(message: str | list[int], **changes: str) -> str:
    """Return a line of `journalctl -o json`."""
    head = {
        "__REALTIME_TIMESTAMP": "1740327858123456",
        "_TRANSPORT": "kernel",
        "_HOSTNAME": "node01",
    }
    return json.dumps(
        {**head, "_SOURCE_MONOTONIC_TIMESTAMP": "3600250000", **changes, "MESSAGE": message}
    )


NOISE = (
    "sshd[1234]: Accepted publickey for root from 192.0.2.7 port 51234 ssh2: ED25519",
    "systemd[1]: Started session-1234.scope - Session 1234 of User root.",
    "kernel: audit: type=1400 audit(1.0:2): apparmor=ALLOWED operation=open profile=containerd",
    'containerd[991]: time="2025-01-01T00:00:00Z" level=info msg="cleanup warnings"'
    " namespace=k8s.io",
    "kubelet[2022]: I0101 12:00:00.000000    2022 server.go:123] probe of container worker"
    " succeeded",
    "kernel: IPv6: ADDRCONF(NETDEV_CHANGE): cali1234: link becomes ready",
    "slurmd[77]: launch task StepId=12.0 request from UID:1000 GID:1000 HOST:192.0.2.9",
    "chronyd[801]: Selected source 192.0.2.1 (ntp.example)",
)
FAULTS = (
    "kernel: NVRM: Xid (PCI:0000:3b:00): 13, pid=812, name=python, Graphics SM Warp Exception on"
    " (GPC 1, TPC 0, SM 1): Illegal",
    "kernel: NVRM: Xid (PCI:0000:9b:00): 43, pid=813, name=python, Ch 00000018",
    "kernel: pcieport 0000:00:03.1: AER: Corrected error received: 0000:07:00.0",
    "kernel: nvme nvme0: 16/0/0 default/read/poll queues",
)
BOOT = "kernel: Linux version 6.8.0-31-generic (builder@host) #31"
EVERY = 5000  # lines between two that matter


def write_journal(path: Path, size: int) -> None:
    """Write a journal of about *size* bytes, as `journalctl -o short-precise` does: one line of
    some thousands matters.
    """
    chance = random.Random(7)
    bodies = [f"{text} {chance.random():.9f}" for text in NOISE for _ in range(500)]
    with open(path, "wb") as file:
        file.write(f"Jul  1 00:00:00.000001 node01 {BOOT}\n".encode())
        number = 0
        while file.tell() < size:
            lines = []
            for _ in range(20_000):
                number += 1
                hours, minutes, seconds = (
                    number // 360000 % 24,
                    number // 6000 % 60,
                    number // 100 % 60,
                )
                clock = f"{hours:02d}:{minutes:02d}:{seconds:02d}.{number % 100 * 10000:06d}"
                body = (
                    chance.choice(FAULTS) if number % EVERY == 0 else bodies[number % len(bodies)]
                )
                lines.append(f"Jul {1 + number // 8640000 % 28:2d} {clock} node01 {body}\n")
            file.write("".join(lines).encode())
