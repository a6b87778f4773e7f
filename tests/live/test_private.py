"""What names a machine or a part leaves it only in private files, and not in redacted ones."""

from __future__ import annotations

import gzip
import json
import re
import stat
from pathlib import Path

from fake_nvml import Change
from machine import Machine, call

from gpuscan.recording import load

A = "0000:1b:00.0"
PLANTED = {
    "a GUID": "b83f:d203:0000:0004", "a GUID in one": "0xb83fd20300000005", "a GID": "fe80::b83f:d203:0:6",
    "a MAC": "3c:ec:ef:12:34:56", "an interface": "enx3cecef123458", "a WWN": "0x5000c500a1b2c3d4", "an NQN": "nqn.2014-08.org.acme:uuid:7",
    "a host": "storage-acme-01", "a domain": "prod.acme.internal", "a user": "jdoe", "an address": "10.20.30.40",
    "an IPv6 address": "2001:db8:1:2:3:4:5:6", "a disk": "S4EVNX0R123456", "a UUID": "6d4d0f3e-1a2b-4c3d-8e9f-0a1b2c3d4e5f",
}  # fmt: skip
LINES = (
    "mlx5_core 0000:18:00.0: node_guid {}", "audit: user={} op=login", "nfs: server {} not responding",
    "eth0: address {} is up", "usb 1-1: SerialNumber: {}",
)  # fmt: skip
NAMED = re.compile(
    r"nvml:nvmlDeviceGet(?:Serial|UUID)\(|file:\S+(?:/hostname|/machine-id|_serial|_uuid|/serial|_guid)$"
)


def planted(node: Machine) -> dict[str, str]:
    """Let the node's kernel log and files name all kinds of things; return all that is secret."""
    node.log_lines(*(line.format(secret) for secret in PLANTED.values() for line in LINES))
    for name, text in {
        "proc/cmdline": "root=UUID=6d4d0f3e-1a2b-4c3d-8e9f-0a1b2c3d4e5f nfsroot=10.20.30.40:/x\n",
        "sys/class/dmi/id/chassis_asset_tag": "S4EVNX0R123456\n",
    }.items():
        path = node.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    named = {
        reading.key: str(reading.value).strip().removeprefix("GPU-")
        for reading in node.recording
        if reading.error is None and NAMED.match(reading.key)
    }
    return {**PLANTED, **{key: name for key, name in named.items() if len(name) > 4}}


def found(secrets: dict[str, str], path: Path) -> list[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("latin-1")
    return [what for what, name in secrets.items() if name.lower() in text.lower()]


def test_nothing_is_left_in_a_redacted_recording(eight: Machine) -> None:
    secrets = planted(eight)
    file, open_file = eight.folder / "a.json.gz", eight.folder / "open.json"
    assert eight.plain("collect", str(open_file)).code == 0
    assert len(found(secrets, open_file)) > 30, "they are all read"
    assert eight.plain("collect", str(file), "--redact").code == 0
    assert found(secrets, file) == []
    assert load(str(file)).meta.redacted


def test_what_names_parts_is_private_and_the_status_names_none(eight: Machine) -> None:
    """Whatever the umask, and every file that a failing run writes."""
    secrets = planted(eight)
    eight.nvml({call("RemappedRows", A): Change(value=[0, 1, 0, 1])})
    state, evidence = eight.folder / "state", eight.folder / "evidence"
    evidence.mkdir(mode=0o700)
    done = eight.plain(
        "run", "--state-dir", str(state), "--collect-on-fail", str(evidence),
        "--record", str(eight.file), "--output", str(eight.folder / "out.txt"),
        "--report", f"json={eight.folder / 'out.json'}", "--report", f"junit={eight.folder / 'out.xml'}",
        before=("bash", "-c", 'umask 0; exec "$0" "$@"'),
    )  # fmt: skip
    assert done.code == 41, done.err
    written = [
        path for top in (state, evidence) for path in (top, *top.rglob("*"))
    ] + [eight.file, *eight.folder.glob("out.*")]  # fmt: skip
    assert len([path for path in written if path.is_file()]) >= 10
    public = [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert {path.name for path in public} == {"state", "status.json"}
    assert [path for path in public if path.stat().st_mode & 0o022] == []
    assert found(secrets, state / "status.json") == []
    assert json.loads((state / "status.json").read_text())
