"""Cables: the far end of each port, by a sweep of the InfiniBand fabric or by LLDP.

A sweep is slow on a large fabric, so it is made only on request (`cables` in the recording's meta).
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from gpuscan.collectors.reading import take, text
from gpuscan.model import Unread, is_unread
from gpuscan.recording import Recording

SWEEPS = {"InfiniBand": "run:ibnetdiscover -p", "Ethernet": "run:lldpcli -f json0 show neighbors"}
# The ports report of infiniband-diags: type, LID, port number and GUID of one end, width and speed
# of the link, then the same of the other end and both node descriptions; a port without a link has
# its own description only.
END = r"(?P<{0}type>[A-Z]{{2}}|\?+) +\d+ +(?P<{0}port>\d+) +(?P<{0}guid>0x[0-9a-f]{{16}})"
CABLE = rf"(?m)^ *{END.format('')} .*? - +{END.format('far_')} +\( '.*' - '(?P<far_name>.*)' \)\s*$"


def wanted(known: Recording) -> bool:
    """Return whether this recording sets out to read the far ends."""
    return known.meta.cables is True


def gid(port: str) -> str:
    """Return the key of a port's first GID, whose second half is the port's GUID."""
    return f"file:{port}/gids/0"


def plan(layers: Sequence[Any]) -> list[str]:
    """Return the sweeps for these link layers, once all are known, so that nothing waits behind a
    sweep.
    """
    return (
        [sweep for layer, sweep in SWEEPS.items() if layer in layers]
        if not any(map(is_unread, layers))
        else []
    )


def scope(port: str) -> list[str]:
    """Return all keys that `plan` can return."""
    return [gid(port), *SWEEPS.values()]


def sources(port: str, layer: str) -> tuple[str, ...]:
    """Return the readings behind a port's far end."""
    return (SWEEPS[layer], gid(port)) if layer in SWEEPS else ()


def far_end(recording: Recording, port: str, layer: Any, node_guid: Any, netdev: Any) -> Any:
    """Return the far end of a port, or Unread; a tool that is not installed is `not-recorded`, not
    a fault.
    """
    if is_unread(layer):
        return layer
    key = SWEEPS[layer]
    if not wanted(recording):
        return Unread(key, "not-recorded", "cables were not asked for")
    lack = recording.get(key)
    if is_unread(lack):
        tool = key.removeprefix("run:").partition(" ")[0]
        return (
            lack._replace(kind="not-recorded", text=f"{tool}: {lack.text}")
            if lack.kind in ("not-found", "not-supported")
            else lack
        )
    if layer == "Ethernet":
        return (
            netdev
            if is_unread(netdev)
            else take(recording, key, lambda value: _announced(value, netdev))
        )
    ours = {
        guid for guid in (take(recording, gid(port), _port_guid), node_guid) if not is_unread(guid)
    }
    return take(
        recording,
        key,
        lambda value: _swept(value, port, {f"0x{guid.replace(':', '')}" for guid in ours}),
    )


def _port_guid(value: Any) -> str:
    """`fe80:0000:0000:0000:b8ce:f603:00aa:bbcc` ends in the GUID."""
    return ":".join(text(value).split(":")[4:8])


def _swept(value: Any, port: str, ours: set[str]) -> Any:
    number = port.rsplit("/", 1)[1]
    for hit in re.finditer(CABLE, text(value)):
        if hit["guid"] in ours and hit["port"] == number:
            return f"{hit['far_type']} {hit['far_name']} ({hit['far_guid']}) port {hit['far_port']}"
    return Unread("", "not-found", "the sweep found no far end of this port")


def _announced(value: Any, netdev: str) -> Any:
    """Parse lldpcli's json0, in which everything is a list; protocols other than LLDP are
    skipped.
    """
    for listing in json.loads(text(value))["lldp"]:
        for heard in listing.get("interface", ()):
            if heard["name"] == netdev and heard.get("via", "LLDP") == "LLDP":
                chassis, port = heard["chassis"][0], heard["port"][0]
                name = (chassis.get("name") or chassis["id"])[0]["value"]
                return f"{text(name)} port {text(port['id'][0]['value'])}"
    return Unread("", "not-found", f"no neighbour announces itself on {netdev}")
