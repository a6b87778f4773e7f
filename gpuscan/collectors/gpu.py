"""The cards: found on PCI, asked through NVML one by one, each named by the slot it sits in."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuscan.collectors.kernel import INIT, NVML_COUNT, access, suspects
from gpuscan.collectors.reading import Sources, count, flag, integer, names, parsed, take, text
from gpuscan.facts import ClockReasons, Driver, EccErrors, Gpu, Mode, NvLink, Pcie, Power, RemappedRows, Unread, is_unread
from gpuscan.recording import Recording

PCI = "/sys/bus/pci/devices"
SLOTS = "/sys/bus/pci/slots"
NVIDIA = "10DE"
LINKS = 18  # the most that any generation has; asked in one batch, cut to the card's own number (field 91)
SAMPLED_TWICE = ("nvmlDeviceGetCurrentClocksEventReasons",)


class Ask(NamedTuple):
    """One fact: the NVML call behind it (arguments after the card), how to parse, the first driver branch that has it."""

    fact: str
    call: str
    parse: Callable[[Any], Any]
    args: str = ""
    since: int = 0

    def key(self, address: str) -> str:
        """Return the reading's key for one card."""
        return f"nvml:{self.call}({address}{self.args})"


def _mode(value: Any) -> Mode:
    current, pending = value
    return Mode(flag(current), flag(pending))


def _rows(value: Any) -> RemappedRows:
    correctable, uncorrectable, pending, failed = value
    return RemappedRows(count(correctable), count(uncorrectable), flag(pending), flag(failed))


def _total_mib(value: Any) -> int:
    return count(value["total"]) >> 20


def _watts(value: Any) -> float:
    return count(value) / 1000


def _lanes(value: Any) -> int:
    """The widths that PCIe has; a card off the bus reads as ones, which is x63."""
    if count(value) not in (1, 2, 4, 8, 12, 16, 32):
        raise ValueError(value)
    return count(value)


def _active(value: Any) -> bool:
    """NVML_NVLINK state: 0 is down, 1 up, 2 asleep (up, and woken by traffic)."""
    if integer(value) not in (0, 1, 2):
        raise ValueError(value)
    return bool(value)


FIELD = "nvmlDeviceGetFieldValues"
ASKS = (
    Ask("nvml_index", "nvmlDeviceGetIndex", count),
    Ask("minor", "nvmlDeviceGetMinorNumber", count),
    Ask("module_id", "nvmlDeviceGetModuleId", count),
    Ask("name", "nvmlDeviceGetName", text),
    Ask("uuid", "nvmlDeviceGetUUID", text),
    Ask("serial", "nvmlDeviceGetSerial", text),
    Ask("part_number", "nvmlDeviceGetBoardPartNumber", text),
    Ask("vbios", "nvmlDeviceGetVbiosVersion", text),
    Ask("inforom", "nvmlDeviceGetInforomImageVersion", text),
    Ask("gsp_firmware", "nvmlDeviceGetGspFirmwareVersion", text),
    Ask("memory_mib", "nvmlDeviceGetMemoryInfo", _total_mib),
    Ask("ecc_mode", "nvmlDeviceGetEccMode", _mode),
    Ask("mig_mode", "nvmlDeviceGetMigMode", _mode),
    Ask("persistence", "nvmlDeviceGetPersistenceMode", flag),
    Ask("remapped_rows", "nvmlDeviceGetRemappedRows", _rows, since=450),
    Ask("recovery_action", FIELD, count, ",230,0", since=565),
    Ask("temperature_c", "nvmlDeviceGetTemperature", count, ",0"),
    Ask("performance_state", "nvmlDeviceGetPerformanceState", count),
)
ECC = (  # NVML: error type 1 uncorrected, 0 corrected; counter 0 volatile, 1 aggregate
    Ask("uncorrected_volatile", "nvmlDeviceGetTotalEccErrors", count, ",1,0"),
    Ask("uncorrected_aggregate", "nvmlDeviceGetTotalEccErrors", count, ",1,1"),
    Ask("corrected_volatile", "nvmlDeviceGetTotalEccErrors", count, ",0,0"),
    Ask("corrected_aggregate", "nvmlDeviceGetTotalEccErrors", count, ",0,1"),
)
PCIE = (
    Ask("width", "nvmlDeviceGetCurrPcieLinkWidth", _lanes),
    Ask("max_width", "nvmlDeviceGetMaxPcieLinkWidth", _lanes),
    Ask("generation", "nvmlDeviceGetCurrPcieLinkGeneration", count),
    Ask("max_generation", "nvmlDeviceGetGpuMaxPcieLinkGeneration", count),
    Ask("replays", "nvmlDeviceGetPcieReplayCounter", count),
)
POWER = (
    Ask("usage_w", "nvmlDeviceGetPowerUsage", _watts),
    Ask("limit_w", "nvmlDeviceGetPowerManagementLimit", _watts),
    Ask("default_limit_w", "nvmlDeviceGetPowerManagementDefaultLimit", _watts),
)
CLOCKS = Ask("clock_reasons", "nvmlDeviceGetCurrentClocksEventReasons", count, since=535)
LINK_COUNT = Ask("nvlinks", FIELD, count, ",91,0")
LINK_STATES = tuple(Ask("active", FIELD, _active, f",165,{number}") for number in range(LINKS))
EVERY = (*ASKS, *ECC, *PCIE, *POWER, CLOCKS, LINK_COUNT, *LINK_STATES)


def plan(known: Recording) -> list[str]:
    """Return the PCI listing, then each device's identity, then each NVIDIA card's keys, suspects last."""
    keys = [f"dir:{PCI}", f"dir:{SLOTS}", "dir:/dev"]
    keys += [f"file:{SLOTS}/{slot}/address" for slot in _listed(known, f"dir:{SLOTS}")]
    keys += [f"file:{PCI}/{device}/uevent" for device in _listed(known, f"dir:{PCI}")]
    if f"dir:{PCI}" not in known or not all(key in known for key in keys):
        return keys  # NVML is asked card by card, so the cards must be known first
    found = _on_pci(known)
    for address in () if is_unread(found) else found:
        keys += [f"link:{PCI}/{address}", f"file:/proc/driver/nvidia/gpus/{address}/information"]
    if is_unread(known.get(INIT)) or NVML_COUNT not in known:
        return keys
    if is_unread(found) or not found:
        keys += _by_index(known)
        found = _enumerated(known)
    doubtful = suspects(known)
    for address in sorted(found, key=lambda address: address in doubtful):
        keys.append(_handle(address))
        keys += [ask.key(address) for ask in EVERY]
    return keys


def _handle(address: str) -> str:
    return f"nvml:nvmlDeviceGetHandleByPciBusId({address})"


def _listed(recording: Recording, key: str) -> tuple[str, ...]:
    listed = take(recording, key, names)
    return () if is_unread(listed) else listed


def _identity(value: Any) -> dict[str, str]:
    pairs = dict(line.split("=", 1) for line in text(value).splitlines())
    int(pairs["PCI_CLASS"], 16)
    pairs["PCI_ID"].split(":")[1]
    return pairs


def _on_pci(recording: Recording) -> Any:
    """Return the addresses of NVIDIA's display and 3D controllers (class 03), or Unread: one unread device hides a card."""
    devices = take(recording, f"dir:{PCI}", names)
    if is_unread(devices):
        return devices
    found = []
    for device in devices:
        identity = take(recording, f"file:{PCI}/{device}/uevent", _identity)
        if is_unread(identity):
            return identity
        if identity["PCI_ID"].startswith(f"{NVIDIA}:") and int(identity["PCI_CLASS"], 16) >> 16 == 3:
            found.append(device)
    return tuple(found)


def _by_index(recording: Recording) -> list[str]:
    number = take(recording, NVML_COUNT, count)
    return [] if is_unread(number) else [f"nvml:nvmlDeviceGetHandleByIndex({n})" for n in range(number)]


def _enumerated(recording: Recording) -> tuple[str, ...]:
    """Return the addresses that NVML gave by index: the only list where PCI cannot be seen (some containers)."""
    answers = [take(recording, key, text) for key in _by_index(recording)]
    return tuple(address for address in answers if not is_unread(address))


def device_minors(recording: Recording, sources: Sources) -> Any:
    """Return the numbers of the device files /dev/nvidiaN."""
    sources["device_minors"] = ("dir:/dev",)
    listed = take(recording, "dir:/dev", names)
    if is_unread(listed):
        return listed
    return tuple(sorted(int(name[6:]) for name in listed if name.startswith("nvidia") and name[6:].isdigit()))


def facts(recording: Recording, driver: Driver, sources: Sources) -> Any:
    """Make the cards' records, in the order of their addresses; Unread where neither PCI nor NVML lists them."""
    found = _on_pci(recording)
    sources["gpus"] = (f"dir:{PCI}", *(f"file:{PCI}/{d}/uevent" for d in _listed(recording, f"dir:{PCI}")))
    if (is_unread(found) or not found) and _enumerated(recording):
        found = _enumerated(recording)
        sources["gpus"] = (NVML_COUNT, *_by_index(recording))
    if is_unread(found):
        return found
    cards = [_card(recording, address, driver) for address in sorted(found)]
    labels = [card.label for card in cards]
    named = [c._replace(label=c.address) if labels.count(c.label) > 1 else c for c in cards]
    for card in named:
        _book(recording, card, sources)
    return tuple(named)


def _card(recording: Recording, address: str, driver: Driver) -> Gpu:
    uevent = f"file:{PCI}/{address}/uevent"
    answers = {ask.fact: take(recording, ask.key(address), ask.parse, ask.since) for ask in ASKS}
    slot = _physical_slot(recording, address)
    return Gpu(
        address=address,
        label=_label(answers, slot, address),
        device_id=take(recording, uevent, lambda value: _identity(value)["PCI_ID"].lower()),
        kernel_driver=take(recording, uevent, lambda value: _identity(value).get("DRIVER", "")),
        root_port=take(recording, f"link:{PCI}/{address}", _root_port),
        physical_slot=slot,
        access=_access(recording, address, driver),
        ecc_errors=EccErrors(*(take(recording, ask.key(address), ask.parse) for ask in ECC)),
        pcie=Pcie(*(take(recording, ask.key(address), ask.parse) for ask in PCIE)),
        power=Power(*(take(recording, ask.key(address), ask.parse) for ask in POWER)),
        nvlinks=_links(recording, address),
        clock_reasons=_clock_reasons(recording, address),
        **answers,
    )


def _label(answers: dict[str, Any], slot: Any, address: str) -> str:
    """Name a card by the module number on its board, else by the chassis slot, else by its address.

    Only boards of SXM modules number them so that it helps; a PCIe card says so in its name.
    """
    module, name = answers["module_id"], answers["name"]
    if type(module) is int and module and type(name) is str and not any(w in name for w in ("PCIe", "NVL")):
        return f"SXM{module}"
    return f"slot{slot}" if type(slot) is str else address


def _root_port(value: Any) -> str:
    """`../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0` hangs below 0000:15:01.0."""
    parts = text(value).split("/")
    bridge = next(n for n, part in enumerate(parts) if part.startswith("pci"))
    return parts[bridge + 1]


def _physical_slot(recording: Recording, address: str) -> Any:
    for slot in _listed(recording, f"dir:{SLOTS}"):
        if take(recording, f"file:{SLOTS}/{slot}/address", text) == address.rsplit(".", 1)[0]:
            return slot
    return Unread(f"dir:{SLOTS}", "not-found", "no chassis slot has this address")


def _access(recording: Recording, address: str, driver: Driver) -> Any:
    """Tell whether the driver can talk to the card: by its handle, then by what its calls answered."""
    if is_unread(driver.access):
        return driver.access
    handle = recording.get(_handle(address))
    if is_unread(handle):
        if driver.access == "timed-out" and handle.kind == "blocked-behind":
            return handle  # another card made NVML hang: this one was never asked
        if driver.access != "ok":
            return driver.access
        if handle.kind == "not-found" or handle.code in (6, 28):
            hidden = _hidden(recording, address)
            return handle._replace(kind="no-permission", text="hidden from this container") if hidden else "lost"
        return access(handle)
    if handle is not True:
        return Unread(_handle(address), "garbled", f"makes no sense: {handle!r:.80}")
    answers = [recording.get(ask.key(address)) for ask in EVERY]
    errors = {answer.kind: answer for answer in answers if is_unread(answer)}
    for kind in ("lost", "timed-out", "reset-required"):
        if kind in errors:
            return kind
    return errors.get("blocked-behind", "ok")


def _hidden(recording: Recording, address: str) -> bool:
    """Tell whether the kernel drives the card but this container does not show it: its device file is missing."""
    information = recording.get(f"file:/proc/driver/nvidia/gpus/{address}/information")
    if is_unread(information):
        identity = take(recording, f"file:{PCI}/{address}/uevent", _identity)
        return not is_unread(identity) and identity.get("DRIVER") == "nvidia"
    minors = [line.split(":")[1].strip() for line in information.splitlines() if line.startswith("Device Minor")]
    return bool(minors) and f"nvidia{minors[0]}" not in _listed(recording, "dir:/dev")


def _links(recording: Recording, address: str) -> Any:
    number = take(recording, LINK_COUNT.key(address), LINK_COUNT.parse)
    if is_unread(number):
        return number
    return tuple(NvLink(n, take(recording, ask.key(address), ask.parse)) for n, ask in enumerate(LINK_STATES[:number]))


def _clock_reasons(recording: Recording, address: str) -> Any:
    """Combine the samples: a brake that flashes while the P-state changes is no brake, so all must show it."""
    key = CLOCKS.key(address)
    newest = take(recording, key, CLOCKS.parse, CLOCKS.since)
    if is_unread(newest):
        return newest
    bits = newest
    for reading in recording.all(key):
        sample = parsed(key, reading.value, CLOCKS.parse) if reading.error is None else reading.error
        if is_unread(sample):
            return sample
        bits &= sample
    return ClockReasons(bool(bits & 0x8), bool(bits & 0x20), bool(bits & 0x40), bool(bits & 0x80))


def _book(recording: Recording, card: Gpu, sources: Sources) -> None:
    """Name the readings behind each fact of a card."""
    path, address = f"gpus[{card.label}]", card.address
    uevent = f"file:{PCI}/{address}/uevent"
    sources[f"{path}.device_id"] = sources[f"{path}.kernel_driver"] = (uevent,)
    sources[f"{path}.access"] = (INIT, _handle(address))
    sources[f"{path}.root_port"] = (f"link:{PCI}/{address}",)
    for area, asks in ((f"{path}", (*ASKS, CLOCKS, LINK_COUNT)), (f"{path}.ecc_errors", ECC), (f"{path}.pcie", PCIE)):
        sources.update({f"{area}.{ask.fact}": (ask.key(address),) for ask in asks})
    sources.update({f"{path}.power.{ask.fact}": (ask.key(address),) for ask in POWER})
    sources.update({f"{path}.nvlinks[{n}]": (ask.key(address),) for n, ask in enumerate(LINK_STATES)})
