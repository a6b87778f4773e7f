"""Stories of swaps (`swaps/*.yaml`): two recordings patched from one, what was said to be done,
and what is judged of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml
from nodes_recordings import base
from nodes_synthetic import CX7, vpd
from paths import TESTS

from gpuscan import renderers
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.recording import Recording, patch
from gpuscan.recording.meta import dump_meta
from gpuscan.swap import compare as comparing

STORIES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((TESTS / "swaps").glob("*.yaml"))
}
GPUS = {  # of h100-8x-ib
    "SXM3": "0000:1b:00.0", "SXM1": "0000:43:00.0", "SXM4": "0000:52:00.0", "SXM2": "0000:61:00.0",
    "SXM7": "0000:9d:00.0", "SXM5": "0000:c3:00.0", "SXM8": "0000:d1:00.0", "SXM6": "0000:df:00.0",
}  # fmt: skip
GPU = {  # what a story may say of a GPU, and the reading that tells it
    "serial": "nvml:nvmlDeviceGetSerial({})",
    "uuid": "nvml:nvmlDeviceGetUUID({})",
    "part_number": "nvml:nvmlDeviceGetBoardPartNumber({})",
    "vbios": "nvml:nvmlDeviceGetVbiosVersion({})",
    "inforom": "nvml:nvmlDeviceGetInforomImageVersion({})",
    "gsp": "nvml:nvmlDeviceGetGspFirmwareVersion({})",
    "rows": "nvml:nvmlDeviceGetRemappedRows({})",
    "ecc_lifetime": "nvml:nvmlDeviceGetTotalEccErrors({},1,1)",
    "persistence": "nvml:nvmlDeviceGetPersistenceMode({})",
    "compute_mode": "nvml:nvmlDeviceGetComputeMode({})",
    "width": "nvml:nvmlDeviceGetCurrPcieLinkWidth({})",
    "everything": "nvml:*({}*",
}
ADAPTER = {
    "guid": "file:/sys/class/infiniband/{}/node_guid",
    "psid": "file:/sys/class/infiniband/{}/board_id",
    "firmware": "file:/sys/class/infiniband/{}/fw_ver",
    "rate": "file:/sys/class/infiniband/{}/ports/1/rate",
    "link_layer": "file:/sys/class/infiniband/{}/ports/1/link_layer",
    "state": "file:/sys/class/infiniband/{}/ports/1/state",
}
LATER = {"file:/proc/sys/kernel/random/boot_id": "99999999-2222-4333-8444-555555555555\n"}
DAY_S = 86400.0


def recorded(name: str, told: Mapping[str, Any], *, later: bool) -> Recording:
    """One side of a story: the healthy node with what is told of it."""
    whole = base(name)
    changes = dict(LATER) if later and name != "demo" else {}
    changes |= told.get("set", {})
    for slot, facts in told.get("gpus", {}).items():
        changes |= {GPU[fact].format(GPUS.get(slot, slot)): value for fact, value in facts.items()}
    for hca, facts in told.get("adapters", {}).items():
        address = str(whole.get(f"link:/sys/class/infiniband/{hca}/device")).rpartition("/")[2]
        serial = (
            {f"file:/sys/bus/pci/devices/{address}/vpd": vpd(CX7, facts["serial"])}
            if "serial" in facts
            else {}
        )
        changes |= serial | {
            ADAPTER[fact].format(hca): value for fact, value in facts.items() if fact != "serial"
        }
    for slot in told.get("gone", ()):
        changes |= _gone(whole, GPUS[slot])
    if "cables" in told:
        changes |= _swept(whole, told["cables"])
    made = patch(whole, changes, told.get("log", ()))
    scope = (
        (*made.scope, "run:ibnetdiscover*", "file:/sys/class/infiniband/*/ports/*/gids/0")
        if "cables" in told
        else made.scope
    )
    meta = {
        **dump_meta(made.meta),
        "made_at": (made.meta.made_at or 0.0) + DAY_S * later,
        **({"cables": True} if "cables" in told else {}),
    }
    return Recording({**meta, **told.get("meta", {})}, scope, made)


def _gone(whole: Recording, address: str) -> dict[str, Any]:
    """A GPU that is not on PCI: the listings lack it, and nobody answers for it."""
    listed = [device for device in whole.get("dir:/sys/bus/pci/devices") if device != address]
    minor = whole.get(f"nvml:nvmlDeviceGetMinorNumber({address})")
    return {
        "dir:/sys/bus/pci/devices": listed,
        "dir:/dev": [name for name in whole.get("dir:/dev") if name != f"nvidia{minor}"],
        f"file:*{address}*": None,
        f"link:*{address}*": None,
        f"nvml:*({address}*": None,
        "nvml:nvmlDeviceGetCount()": whole.get("nvml:nvmlDeviceGetCount()") - 1,
    }


def _swept(whole: Recording, ends: Mapping[str, str]) -> dict[str, Any]:
    """What a sweep of the fabric shows: port 1 of each adapter leads to its own leaf, but for
    those that are told.
    """
    rows = []
    for number in range(8):
        guid = (
            str(whole.get(f"file:/sys/class/infiniband/mlx5_{number}/node_guid"))
            .strip()
            .replace(":", "")
        )
        leaf, port = ends.get(f"mlx5_{number}", f"leaf{number} 17").split()
        far = f"0xb83fd20300{int(leaf[4:]):06x}"
        rows.append(
            f"CA   {number + 10}  1 0x{guid} 4x NDR - SW  {number + 90} {port} {far} ( 'gpu-042"
            f" mlx5_{number}' - '{leaf}' )"
        )
    none = {"error": ["not-found", "No such file or directory"]}
    return {
        "run:ibnetdiscover -p": "\n".join(rows) + "\n",
        "run:lldpcli -f json0 show neighbors": none,
    }


@cache
def told(name: str) -> Report:
    """What is judged of a story."""
    return of(STORIES[name])


@cache
def _plan(profile: str, settings: tuple[str, ...]) -> judging.Plan:
    return judging.prepare(judging.Selection(profile=profile, settings=settings))


def of(story: Mapping[str, Any], **wish: Any) -> Report:
    """What is judged of two recordings and a wish."""
    before = recorded(story["base"], story.get("before", {}), later=False)
    after = recorded(story["base"], story.get("after", {}), later=True)
    plan = _plan(story.get("profile", "auto"), tuple(story.get("settings", ())))
    files = {name: str(TESTS / "swaps" / file) for name, file in story.get("files", {}).items()}
    whole = comparing.SwapOptions(expected=tuple(story.get("expect", ())), **files)._replace(**wish)
    return comparing.compare_recordings(
        before, after, plan, whole, ("before.json.gz", "after.json.gz")
    )


def printed(name: str) -> str:
    """What is printed of a story below the node's own lines, without the counts of checks that
    grow with every release.
    """
    whole = renderers.find("text")([told(name)], verbosity=0).partition("\n\n")[2]
    return re.sub(r"^(Verdict: .*?\)); .*$", r"\1", whole, flags=re.MULTILINE)


def findings(report: Report) -> dict[str, str]:
    """The heaviest action of each result that found something: {check[subject]: action}."""
    found = {}
    for result in report.results:
        if result.findings:
            worst = max(result.findings, key=lambda finding: finding.action.rank)
            found[f"{result.check}[{result.subject}]"] = worst.action.value
    return found


def sentences(report: Report) -> list[str]:
    """Every sentence that was said, with its part."""
    return [
        f"{result.subject}: {finding.message}"
        for result in report.results
        for finding in result.findings
    ]
