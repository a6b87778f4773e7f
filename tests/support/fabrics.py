"""Generated InfiniBand fabrics of an eight-GPU node: rails, storage, spares, virtual functions, and
one fault or none, with the exit codes that are right for it by rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from nodes_recordings import base

from gpuscan.recording import Recording, patch

ROOT, PCI = "/sys/class/infiniband", "/sys/bus/pci/devices"
SEATS = [f"0000:{bus}:00" for bus in ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")]
STORAGE_SEATS = [f"0000:{bus}:00" for bus in ("29", "2c", "aa", "ad")]
NAMES = {
    400: "400 Gb/sec (4X NDR)",
    200: "200 Gb/sec (4X HDR)",
    100: "100 Gb/sec (4X EDR)",
    10: "10 Gb/sec (4X SDR)",
}
LACKS = {"error": ["not-found", "No such file or directory", 2]}


class Port(NamedTuple):
    """One port and its HCA; *number* is its number on the HCA."""

    hca: str
    address: str
    board: str
    rate: int
    number: int = 1
    state: str = "4: ACTIVE"
    phys: str = "5: LinkUp"
    layer: str = "InfiniBand"
    downed: int = 0
    symbols: int = 0
    width: int = 16
    speed: str = "32.0"
    virtual: bool = False
    driver: str = "mlx5_core"
    listed: bool = True
    on_pci: bool = True

    def down(self, phys: str = "2: Polling", downed: int = 1) -> Port:
        return self._replace(state="1: DOWN", phys=phys, rate=10, downed=downed)


class Fabric(NamedTuple):
    """A node, the `--set` options and profile that it is judged by, and the right exit codes."""

    about: str
    recording: Recording
    profile: str
    settings: tuple[str, ...]
    right: frozenset[int]


class Plan(NamedTuple):
    """What a fabric is drawn from: how many ports of each kind, and how they are expected."""

    rails: int
    rate: int
    storage: int
    storage_rate: int
    spares: int
    virtual: int
    ethernet: int
    expected: str  # named, named and counted, counted, rate only, nothing
    replaced: bool  # one rail's HCA was replaced by one of another board type


def draw_plan(random: Random) -> Plan:
    rate = random.choice((400, 200))
    return Plan(
        rails=random.choice((2, 4, 8, 8, 8)),
        rate=rate,
        storage=random.choice((0, 0, 1, 2, 4)),
        storage_rate=random.choice((rate, rate // 2)),
        spares=random.choice((0, 0, 1, 2)),
        virtual=random.choice((0, 0, 2, 8)),
        ethernet=random.choice((0, 2)),
        expected=random.choice(("named", "both", "counted", "counted", "nothing")),
        replaced=random.random() < 0.15,
    )


def healthy(plan: Plan, random: Random) -> tuple[list[Port], list[Port], list[Port]]:
    """The rails, the storage ports and all others of a healthy node, their names shuffled."""
    seats = SEATS[: plan.rails]
    numbers = list(range(len(seats) + plan.storage))
    random.shuffle(numbers)
    names = iter(f"mlx5_{number}" for number in numbers)
    rails = [
        Port(next(names), f"{seat}.0", "BOARD-A", plan.rate, downed=random.choice((0, 0, 1)))
        for seat in seats
    ]
    if plan.replaced and plan.rails > 2:
        rails[1] = rails[1]._replace(board="BOARD-D")
    storage = [
        Port(next(names), f"{STORAGE_SEATS[n]}.0", "BOARD-B", plan.storage_rate)
        for n in range(plan.storage)
    ]
    others = [
        Port(f"mlx5_{30 + n}", f"{STORAGE_SEATS[n]}.1", "BOARD-B", 200, layer="Ethernet")
        for n in range(plan.ethernet)
    ]
    for n in range(plan.spares):
        active = Port(f"mlx5_{40 + n}", f"0000:e{n + 1}:00.0", f"BOARD-C{n}", 100)
        others += [active, active._replace(number=2).down(downed=0)]
    for n in range(plan.virtual):
        owner = rails[n % len(rails)]
        others.append(
            Port(
                f"mlx5_{50 + n}", f"{owner.address[:-1]}{1 + n // len(rails)}", owner.board, 10,
                virtual=True,
            )._replace(state="1: DOWN")
        )  # fmt: skip
    return rails, storage, others


Ports = list[Port]


def one(change: Callable[[Port], Port]) -> Callable[[Ports, Random], Ports]:
    """A fault of one rail."""

    def plant(rails: Ports, random: Random) -> Ports:
        hit = random.randrange(len(rails))
        return [change(port) if n == hit else port for n, port in enumerate(rails)]

    return plant


def every(change: Callable[[Port], Port], share: float = 1.0) -> Callable[[Ports, Random], Ports]:
    """A fault of the first rails."""
    return lambda rails, random: [
        change(port) if n < share * len(rails) else port for n, port in enumerate(rails)
    ]


FAULTS: dict[str, tuple[Callable[[Ports, Random], Ports], set[int]]] = {
    "down": (one(lambda port: port.down()), {40}),
    "never came up": (one(lambda port: port.down(downed=0)), {40}),
    "disabled": (one(lambda port: port.down("3: Disabled")), {20}),
    "waits for the subnet manager": (one(lambda port: port._replace(state="2: INIT")), {20}),
    "armed": (one(lambda port: port._replace(state="3: ARMED")), {20}),
    "INIT without a link": (
        one(lambda port: port._replace(state="2: INIT", phys="2: Polling", rate=10)),
        {40},
    ),
    "half rate": (one(lambda port: port._replace(rate=port.rate // 2)), {40}),
    "Ethernet": (one(lambda port: port._replace(layer="Ethernet")), {20}),
    "absent": (one(lambda port: port._replace(listed=False, on_pci=False)), {40}),
    "no driver": (one(lambda port: port._replace(listed=False, driver="")), {20}),
    "no port": (one(lambda port: port._replace(listed=False)), {20}),
    "all without driver": (every(lambda port: port._replace(listed=False, driver="")), {20}),
    "all down": (every(lambda port: port.down()), {20}),
    "half down": (every(lambda port: port.down(), 0.5), {20}),
    "narrow": (one(lambda port: port._replace(width=8)), {40}),
    "slow PCIe": (one(lambda port: port._replace(speed="8.0")), {40}),
    "symbol errors": (one(lambda port: port._replace(symbols=50000)), {40}),
}
UNIVERSAL = ("narrow", "slow PCIe", "symbol errors")  # faults whatever a profile expects
SHARED_FROM = 3


def draw(number: int, *, faulty: bool) -> Fabric:
    """The fabric of a number, with a fault or without; the same number gives the same."""
    random = Random(number)
    plan = draw_plan(random)
    rails, storage, others = healthy(plan, random)
    names = sorted(port.hca for port in rails)
    about, right = "healthy", {0}
    if faulty:
        about = random.choice(sorted(FAULTS))
        plant, right = FAULTS[about]
        rails = plant(rails, random)
        if about in ("all down", "half down") and _kind(rails) < SHARED_FROM:
            right = {20, 40} if plan.storage or plan.spares else {40}
        if about == "half down" and plan.replaced:
            right = {20, 40}
        if plan.expected == "nothing" and about not in UNIVERSAL:
            right = {0}
    settings = {
        "named": (f"infiniband.hcas=[{', '.join(names)}]", "infiniband.ports=null"),
        "both": (f"infiniband.hcas=[{', '.join(names)}]", f"infiniband.ports={plan.rails}"),
        "counted": (f"infiniband.ports={plan.rails}",),
        "nothing": (),
    }[plan.expected]
    if settings:
        settings = (*settings, f"infiniband.rate_gbps={plan.rate}")
    profile = "h100-8x" if settings else "default"
    ports = [*rails, *storage, *others]
    return Fabric(f"{about}: {plan}", recorded(ports), profile, settings, frozenset(right))


def _kind(rails: Sequence[Port]) -> int:
    return max(sum(port.board == one.board for port in rails) for one in rails)


def recorded(ports: Sequence[Port]) -> Recording:
    """The recording of the eight-GPU node with these ports in place of its own."""
    bare = base("h100-8x-ib")
    old = {
        str(bare.get(f"link:{ROOT}/{hca}/device")).rpartition("/")[2]
        for hca in bare.get(f"dir:{ROOT}")
    }
    recording = patch(
        bare,
        {f"*{ROOT}/*": None, **{f"*{PCI}/{address}*": None for address in old}},
    )
    listed = [port for port in ports if port.listed]
    devices = {port.address for port in ports if port.on_pci}
    kept = [address for address in bare.get(f"dir:{PCI}") if address not in old]
    changes: dict[str, Any] = {
        f"dir:{PCI}": sorted({*kept, *devices}),
        f"dir:{ROOT}": sorted({port.hca for port in listed}) or LACKS,
    }
    for port in ports:
        changes |= _of_device(port) if port.on_pci else {}
        changes |= _of_port(port, listed) if port.listed else {}
    return patch(recording, changes)


def _of_device(port: Port) -> dict[str, Any]:
    base_path = f"{PCI}/{port.address}"
    device = "101E" if port.virtual else "1021"
    pci_class = "20000" if port.layer == "Ethernet" and not port.listed else "20700"
    driver = f"DRIVER={port.driver}\n" if port.driver else ""
    owner = f"../{port.address[:-1]}0"
    return {
        f"file:{base_path}/uevent": (
            f"{driver}PCI_CLASS={pci_class}\nPCI_ID=15B3:{device}\nPCI_SUBSYS_ID=15B3:0041\n"
            f"PCI_SLOT_NAME={port.address}\n"
        ),
        f"file:{base_path}/vpd": LACKS,
        f"link:{base_path}/physfn": owner if port.virtual else LACKS,
        f"file:{base_path}/current_link_width": f"{port.width}\n",
        f"file:{base_path}/max_link_width": "16\n",
        f"file:{base_path}/current_link_speed": f"{port.speed} GT/s PCIe\n",
        f"file:{base_path}/max_link_speed": "32.0 GT/s PCIe\n",
    }


def _of_port(port: Port, listed: Sequence[Port]) -> dict[str, Any]:
    hca = f"{ROOT}/{port.hca}"
    own = f"file:{hca}/ports/{port.number}"
    return {
        f"dir:{hca}/ports": sorted(str(one.number) for one in listed if one.hca == port.hca),
        f"link:{hca}/device": f"../../../{port.address}",
        f"dir:{hca}/device/net": [],
        f"file:{hca}/fw_ver": "28.43.2026\n",
        f"file:{hca}/board_id": f"{port.board}\n",
        f"file:{hca}/hca_type": "MT4126\n" if port.virtual else "MT4129\n",
        f"file:{hca}/node_guid": "0c42:a103:00ab:0000\n",
        f"{own}/link_layer": f"{port.layer}\n",
        f"{own}/state": f"{port.state}\n",
        f"{own}/phys_state": f"{port.phys}\n",
        f"{own}/rate": f"{NAMES[port.rate]}\n",
        f"{own}/counters/link_downed": {"samples": [f"{port.downed}\n", f"{port.downed}\n"]},
        f"{own}/counters/symbol_error": {"samples": ["0\n", f"{port.symbols}\n"]},
    }
