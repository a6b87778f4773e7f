"""No secret of any kind, in any shape, planted anywhere, survives `--redact`."""

import json
from typing import Any

import pytest
from paths import RECORDINGS

from gpuscan.engine import judging
from gpuscan.engine.judging import Selection
from gpuscan.importers.load import open_recording
from gpuscan.model import Unread
from gpuscan.recording import Reading, Recording, dump
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
    return [(secret, where, Recording({}, ["*"], found)) for secret, where, found in rows]


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
