"""No secret of any kind, in any shape, planted anywhere, survives `--redact`."""

import json
import re
import string
from typing import Any

import pytest
from paths import RECORDINGS

from gpuscan.engine import judging
from gpuscan.engine.judging import Selection
from gpuscan.importers.load import open_recording
from gpuscan.model import Unread
from gpuscan.recording import Reading, Recording, dump
from gpuscan.recording.meta import parse_meta
from gpuscan.recording.redaction import redact

SECRETS = {
    "uuid": ["6d4d0f3e-1a2b-4c3d-8e9f-0a1b2c3d4e5f", "6d4d0f3e_1a2b_4c3d_8e9f_0a1b2c3d4e5f"],
    "guid": ["0xb83fd20300000004", "b83f:d203:0000:0004", "b83fd20300000004"],
    "mac": ["3c:ec:ef:12:34:56", "3c-ec-ef-12-34-56", "3cecef123458", "3cec.ef12.3459", "enx3cecef123458"],
    "ip": ["10.20.30.40", "x10.20.30.41", "10.20.30.42:/export", "10.20.30.43/24"],
    "ipv6": ["2001:db8:aaaa::", "2001:db8:aaaa::/48", "fe80::baf6:3ff:feaa:1", "2001:db8:1:2:3:4:5:6"],
    "wwn": ["wwn-0x5000c500a1b2c3d4", "eui.0025385b71b0c1d2", "naa.5000c500a1b2c3d4", "0x5000c500a1b2c3d5"],
    "target": ["iqn.2004-10.com.acme:disk7", "nqn.2014-08.org.nvmexpress:uuid:acme7"],
    "serial": ["S4EVNX0R123456", "MT2333ZT00042", "1654000000042", "23214AB77777"],
    "container": ["4f1d" * 16, "cri-containerd-" + "9a3c" * 16, "pod6d4d0f3e_1a2b_4c3d_8e9f_0a1b2c3d4e5e"],
    "host": ["gpu-node-17", "gpu17.prod.acme.com", "storage-01", "acme-dgx-3"],
    "user": ["jdoe", "jdoe@acme.com"],
    "domain": ["acme.com", "prod.acme.internal"],
}  # fmt: skip
# the pseudonyms are keyed by the machine: without one each run of the tests would have others
MACHINE = Reading("file:/etc/machine-id", "c0ffee" * 5 + "00")
LINES = (
    "eth0: address {} is up", "nfs: server {} not responding, still trying", "LustreError: {}: lost",
    "usb 1-1: SerialNumber: {}", "sd 0:0:0:0: [sda] {}", "Killed process 17 (python) in {}, uid 1",
    "NVRM: Xid (PCI:0000:1b:00): 31, pid=1, name={}, Ch 00000008", "systemd: hostname set to <{}>",
    "NVRM: GPU Board Serial Number: {}", "EXT4-fs ({}): error", "audit: user={} op=login", "{}",
)  # fmt: skip
KEYS = (
    "kmsg:/dev/kmsg", "log:/var/log/syslog", "run:journalctl -k -o json", "run:dmesg",
    "file:/proc/cmdline", "file:/proc/self/mounts", "run:ipmitool sel list", "file:/etc/fstab",
    "run:new-tool --all", "file:/new",
)  # fmt: skip


def text_of(key: str, line: str) -> Any:
    if key.startswith("kmsg:"):
        return [f"4,7,9000000,-;{line}"]
    if key.startswith("log:"):
        return {"lines": [[1, f"Nov 28 10:00:00 other-host kernel: {line}"]], "total_lines": 1}
    if "json" in key:
        return json.dumps({"MESSAGE": line, "_HOSTNAME": line, "__REALTIME_TIMESTAMP": "1"})
    return f"{line}\n"


def planted() -> list[tuple[str, str, Recording]]:
    """Return (secret, where, recording) for each kind, shape, line and key."""
    rows = []
    for secret in (shape for shapes in SECRETS.values() for shape in shapes):
        for line in LINES:
            told = line.format(secret)
            for key in KEYS:
                rows.append((secret, f"{key}: {line}", [Reading(key, text_of(key, told))]))
        error = Unread("file:/x", "garbled", f"no answer from {secret}")
        rows.append((secret, "an error", [Reading("file:/x", None, error)]))
        asset = "file:/sys/class/dmi/id/chassis_asset_tag"
        rows.append((secret, "an asset tag", [Reading(asset, f"{secret}\n")]))
        lspci = f"\t\t[V2] Vendor specific: {secret}\n\t\t[SN] Serial number: {secret}\n"
        rows.append((secret, "lspci", [Reading("run:lspci -vvv", lspci)]))
    return [
        (secret, where, Recording({}, ["*"], [MACHINE, *found])) for secret, where, found in rows
    ]


def core(secret: str) -> str:
    """Return the part of a secret that must not be found."""
    return secret.lower().removeprefix("0x").removesuffix(":/export").removesuffix("/24")


def test_no_secret_survives() -> None:
    everything = planted()
    left = [
        (secret, where)
        for secret, where, recording in everything
        if core(secret) in json.dumps(dump(redact(recording))).lower()
    ]
    assert len(everything) > 4000
    assert left == [], f"{len(left)} of {len(everything)} left, as {left[:20]}"


SPELLINGS = (
    "0xb83fd20300000004", "b83fd20300000004", "B83FD20300000004", "b83f:d203:0000:0004", "B83F:D203:0000:0004",
    "0xb83f:d203:0000:0004", "b8:3f:d2:03:00:00:00:04", "b8-3f-d2-03-00-00-00-04", "b83f-d203-0000-0004",
    "b83f.d203.0000.0004", "0xb83f_d203_0000_0004", "S-b83fd20300000004", "fe80:0000:0000:0000:b83f:d203:0000:0004",
    "fe80::b83f:d203:0000:0004", "FE80::B83F:D203:0:4", "fe80::b83f:d203:0:4%ib0", "[fe80::b83f:d203:0:4]:4791",
    "fe80000000000000b83fd20300000004", "0xfe80000000000000:0xb83fd20300000004",
    "fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:00:00:04", "254:128:00:00:00:00:00:00:184:63:210:03:00:00:00:04",
    "00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:00:00:04", "0000:0000:0000:0000:0000:ffff:0a14:1e28",
    "3c:ec:ef:12:34:56", "3C-EC-EF-12-34-56", "3cecef123456", "3cecef-123456", "3cec.ef12.3456", "enx3cecef123456",
    "6d4d0f3e-1a2b-4c3d-8e9f-0a1b2c3d4e5f", "6D4D0F3E1A2B4C3D8E9F0A1B2C3D4E5F", "GPU-6d4d0f3e-1a2b-4c3d-8e9f-0a1b2c3d4e5f",
)  # fmt: skip
NEIGHBOURS = [*string.punctuation, *" \tafxZ09"]
BEFORE = ("user=", "user: ", "host=", "serial: ", "SN", "pod ", "GUID:", "guid_", "GID[0]:\t")
WHERE = ("log:/var/log/syslog", "run:new-tool", "run:lspci -vvv", "file:/sys/x", "run:ib_write_bw")


def digits(text: str) -> str:
    return re.sub(r"[^0-9a-z]", "", text.lower().removeprefix("0x"))


@pytest.mark.parametrize("key", WHERE)
def test_no_spelling_of_a_guid_or_address_survives_beside_any_character(key: str) -> None:
    """Not whole, nor its last eight digits, which alone tell one part from another."""
    rows = [(secret, around) for secret in SPELLINGS for around in NEIGHBOURS]
    lines = [(secret, f"port {around}{secret} is up") for secret, around in rows]
    lines += [(secret, f"port {secret}{around} is up") for secret, around in rows]
    lines += [(secret, f"port {word}{secret}") for secret in SPELLINGS for word in BEFORE]
    left = []
    # names that were found in one line are hidden in the others, too: two recordings
    for part in lines[: 2 * len(rows)], lines[2 * len(rows) :]:
        value: Any = "".join(f"{line}\n" for _, line in part)
        if key.startswith("log:"):
            value = {"lines": [[n, line] for n, (_, line) in enumerate(part)]}
        after = redact(Recording({}, ["*"], [MACHINE, Reading(key, value)])).get(key)
        told = [row[1] for row in after["lines"]] if key.startswith("log:") else after.split("\n")
        for (secret, line), other in zip(part, told, strict=False):
            if digits(secret)[-8:] in digits(other):
                left.append((line, other))
    assert len(lines) > 2000
    assert left == [], f"{len(left)} of {len(lines)} left, as {left[:10]}"


def test_nothing_survives_in_what_a_recording_says_of_itself() -> None:
    secrets = ("gpu-node-17", "jdoe", "0xb83fd20300000004", "10.20.30.40", "3c:ec:ef:12:34:56")
    for secret in secrets:
        lines = {"lines": [[1, f"Nov 28 10:00:00 {secret} kernel: boot"]], "total_lines": 1}
        meta = {
            "about": f"taken on {secret} before the repair",
            "imported": {"kinds": ["kernel log"], "unrecognised": [f"{secret}/a.txt"], "unread": []},
            "later": {"kept by": f"user {secret}"},
        }  # fmt: skip
        key = f"log:/home/{secret}/{secret}.log"
        journal = json.dumps({"MESSAGE": "up", secret: "1", "_TRANSPORT": secret})
        recording = Recording(
            parse_meta(meta),
            [key, "run:*"],
            [MACHINE, Reading(key, lines), Reading("run:journalctl -k -o json", journal)],
        )
        after = redact(recording)
        assert core(secret) not in json.dumps(dump(after)).lower()
        assert after.scope[0] in after.keys(), "and its scope still holds its keys"


def test_a_count_is_no_serial_number() -> None:
    rows = [
        Reading("file:/proc/meminfo", "MemTotal:       1056270552 kB\n"),
        Reading("file:/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "8123456789012\n"),
        Reading("nvml:nvmlDeviceGetPciInfo(0000:1b:00.0)", {"busId": "00000000:1B:00.0"}),
    ]  # fmt: skip
    after = redact(Recording({}, ["*"], [MACHINE, *rows]))
    assert [after.get(row.key) for row in rows] == [row.value for row in rows]


RECORDED = ("demo", "demo-broken", *sorted(map(str, RECORDINGS.glob("*.json.gz"))))


@pytest.mark.parametrize("name", RECORDED)
def test_a_redacted_recording_has_the_same_verdict_and_findings(name: str) -> None:
    plan = judging.prepare(Selection())
    before = open_recording(name)
    reports = [judging.judge_recording(one, "", plan) for one in (before, redact(before))]
    told = [
        (
            report.exit_code,
            report.complete,
            [
                (r.check, r.subject, r.status, [f.action for f in r.findings])
                for r in report.results
            ],
        )
        for report in reports
    ]
    assert told[0] == told[1]
