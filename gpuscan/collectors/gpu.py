"""The GPUs: found on PCI, asked through NVML one by one, each named by the slot it sits in."""

import re
from typing import Any

from gpuscan.collectors import bus, gpu_facts
from gpuscan.collectors.kernel import INIT, NVML_COUNT, UNKNOWN_ERROR, access
from gpuscan.collectors.log import suspects
from gpuscan.collectors.reading import Sources, count, names, take, text
from gpuscan.model import Driver, Gpu, Unread, is_unread
from gpuscan.recording import Recording

PCI = "/sys/bus/pci/devices"
SLOTS = "/sys/bus/pci/slots"
TOLD = (
    "import:cards"  # the GPUs that an imported text speaks of; by index where it gives no address
)
NVIDIA = "10DE"
NO_SUCH_GPU = (6, 28)  # NVML_ERROR_NOT_FOUND, NVML_ERROR_GPU_NOT_FOUND
UNTOLD: Any = Unread("", "not-found", "the kernel log was not asked")  # log.facts fills it in
CALLS = tuple(ask for ask in gpu_facts.EVERY if not ask.call.startswith("/"))
FILES = tuple(ask for ask in gpu_facts.EVERY if ask.call.startswith("/"))


def plan(known: Recording) -> list[str]:
    """Return the PCI listing, then each device's identity, then each NVIDIA GPU's keys, suspects
    last.
    """
    keys = [f"dir:{PCI}", f"dir:{SLOTS}", "dir:/dev"]
    keys += [f"file:{SLOTS}/{slot}/address" for slot in _listed(known, f"dir:{SLOTS}")]
    keys += [f"file:{PCI}/{device}/uevent" for device in _listed(known, f"dir:{PCI}")]
    if f"dir:{PCI}" not in known or not all(key in known for key in keys):
        return keys  # NVML is asked GPU by GPU, so the GPUs must be known first
    found = _on_pci(known)
    for address in () if is_unread(found) else found:
        keys += [f"link:{PCI}/{address}", f"file:/proc/driver/nvidia/gpus/{address}/information"]
        keys += [ask.key(address) for ask in FILES]
    if is_unread(known.get(INIT)) or NVML_COUNT not in known:
        return keys
    if is_unread(found) or not found:
        keys += _by_index(known)
        found = _enumerated(known)
    doubtful = suspects(known)
    for address in sorted(found, key=lambda address: address in doubtful):
        keys.append(_handle(address))
        keys += [ask.key(address) for ask in CALLS]
    return keys


def scope() -> list[str]:
    """Return patterns of what `plan` can want."""
    found = [
        f"dir:{PCI}",
        f"dir:{SLOTS}",
        "dir:/dev",
        f"file:{SLOTS}/*/address",
        f"file:{PCI}/*/uevent",
        f"link:{PCI}/*",
    ]
    found += [
        "file:/proc/driver/nvidia/gpus/*/information",
        "nvml:nvmlDeviceGetHandleByIndex(*)",
        _handle("*"),
    ]
    return found + [ask.key("*") for ask in gpu_facts.EVERY]


def again(known: Recording) -> list[str]:
    """Return the counters of the GPUs that are read a second time, those of one call together."""
    return [
        ask.key(address) for address in _addresses(known) for ask in gpu_facts.EVERY if ask.twice
    ]


def after_load(known: Recording) -> list[str]:
    """Return what of the GPUs is read anew after a burn-in: all but what shows that they have
    just been loaded.
    """
    asks = [ask for ask in gpu_facts.EVERY if not ask.momentary]
    keys = [
        key
        for address in _addresses(known)
        for key in (_handle(address), *(ask.key(address) for ask in asks))
    ]
    return [key for key in (NVML_COUNT, *keys) if key in known]


def _addresses(known: Recording) -> tuple[str, ...]:
    found = _on_pci(known)
    return _enumerated(known) if is_unread(found) or not found else found


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
    """Return the addresses of NVIDIA's display and 3D controllers (class 03), or Unread: one
    unread device hides a GPU.
    """
    devices = take(recording, f"dir:{PCI}", names)
    if is_unread(devices):
        return devices
    found = []
    for device in devices:
        identity = take(recording, f"file:{PCI}/{device}/uevent", _identity)
        if is_unread(identity):
            return identity
        if (
            identity["PCI_ID"].startswith(f"{NVIDIA}:")
            and int(identity["PCI_CLASS"], 16) >> 16 == 3
        ):
            found.append(device)
    return tuple(found)


def _by_index(recording: Recording) -> list[str]:
    number = take(recording, NVML_COUNT, count)
    return (
        []
        if is_unread(number)
        else [f"nvml:nvmlDeviceGetHandleByIndex({n})" for n in range(number)]
    )


def _enumerated(recording: Recording) -> tuple[str, ...]:
    """Return the addresses that NVML gave by index: the only list where PCI cannot be seen (some
    containers).
    """
    answers = [take(recording, key, text) for key in _by_index(recording)]
    return tuple(address for address in answers if not is_unread(address))


def device_minors(recording: Recording, sources: Sources) -> Any:
    """Return the numbers of the device files /dev/nvidiaN."""
    sources["device_minors"] = ("dir:/dev",)
    listed = take(recording, "dir:/dev", names)
    if is_unread(listed):
        return listed
    return tuple(
        sorted(int(hit[1]) for name in listed if (hit := re.fullmatch(r"nvidia([0-9]{1,4})", name)))
    )


def facts(recording: Recording, driver: Driver, sources: Sources) -> Any:
    """Make the GPUs' records, in the order of their addresses; Unread where neither PCI nor NVML
    lists them.
    """
    found = _on_pci(recording)
    sources["gpus"] = (
        f"dir:{PCI}",
        *(f"file:{PCI}/{d}/uevent" for d in _listed(recording, f"dir:{PCI}")),
    )
    if (is_unread(found) or not found) and _enumerated(recording):
        found = _enumerated(recording)
        sources["gpus"] = (NVML_COUNT, *_by_index(recording))
    told = take(recording, TOLD, names)
    if not is_unread(told):
        found = tuple(dict.fromkeys([*(() if is_unread(found) else found), *told]))
        sources["gpus"] = (*sources["gpus"], TOLD)
    if is_unread(found):
        return found
    gpus = [_gpu(recording, address, driver) for address in sorted(found)]
    labels = [gpu.label for gpu in gpus]
    named = [
        gpu._replace(label=gpu.address) if labels.count(gpu.label) > 1 else gpu for gpu in gpus
    ]
    for gpu in named:
        _book(gpu, sources)
    return tuple(named)


def _gpu(recording: Recording, address: str, driver: Driver) -> Gpu:
    uevent = f"file:{PCI}/{address}/uevent"
    answers = gpu_facts.facts(recording, address)
    slot = _physical_slot(recording, address)
    return Gpu(
        address=address,
        label=_label(answers, slot, address),
        device_id=take(recording, uevent, _device_id),
        bus=bus.link(recording, address),
        kernel_driver=take(recording, uevent, lambda value: _identity(value).get("DRIVER", "")),
        root_port=take(recording, f"link:{PCI}/{address}", _root_port),
        physical_slot=slot,
        access=_access(recording, address, driver),
        logged_serial=UNTOLD,
        logged_uuid=UNTOLD,
        **answers,
    )


def _device_id(value: Any) -> Any:
    """`PCI_ID=10DE:2335` is 10de:2335; lspci may name a GPU without its number."""
    found = _identity(value)["PCI_ID"].lower()
    return (
        Unread("", "not-recorded", "lspci names no device id here")
        if found.endswith(":")
        else found
    )


def _label(answers: dict[str, Any], slot: Any, address: str) -> str:
    """Name a GPU by the module number on its board, else by the chassis slot, else by its address.

    Only boards of SXM modules number them so that it helps; a PCIe GPU says so in its name.
    """
    module, name = answers["module_id"], answers["name"]
    if (
        type(module) is int
        and module
        and type(name) is str
        and not any(w in name for w in ("PCIe", "NVL"))
    ):
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
    """Return whether the driver can talk to the GPU (`ok`, `lost`, ...): by its handle, then by the
    answers to its calls. Unread if nobody could ask.
    """
    handle = recording.get(_handle(address))
    if is_unread(driver.access):
        return driver.access
    if is_unread(handle):
        return _access_without_handle(recording, address, driver.access, handle)
    if handle is not True:
        return Unread(_handle(address), "garbled", f"makes no sense: {handle!r:.80}")
    # an older recording may lack a call that is asked today: that is one unread fact, not a GPU
    # that does not answer
    answers = [recording.get(key) for ask in CALLS if (key := ask.key(address)) in recording]
    errors = {answer.kind: answer for answer in answers if is_unread(answer)}
    for kind in ("lost", "timed-out", "reset-required"):
        if kind in errors:
            return kind
    return errors.get("blocked-behind", "ok")


def _access_without_handle(
    recording: Recording, address: str, driver_access: str, handle: Unread
) -> Any:
    blocked = driver_access == "timed-out" and handle.kind == "blocked-behind"
    if blocked or (driver_access == "ok" and handle.kind == "not-recorded"):
        return handle  # the GPU was never asked: NVML hung on another one, or nobody recorded it
    if driver_access != "ok":
        return driver_access
    absent = handle.kind == "not-found" or handle.code in NO_SUCH_GPU
    if not absent and handle.code != UNKNOWN_ERROR:
        return access(handle)
    if _is_hidden(recording, address):
        return handle._replace(kind="no-permission", text="hidden from this container")
    return "lost" if absent else "unopened"


def _is_hidden(recording: Recording, address: str) -> bool:
    """Return whether the kernel drives the GPU but its device file is missing, as in a container."""
    minor = take(recording, f"file:/proc/driver/nvidia/gpus/{address}/information", _minor)
    if is_unread(minor):
        identity = take(recording, f"file:{PCI}/{address}/uevent", _identity)
        return not is_unread(identity) and identity.get("DRIVER") == "nvidia"
    return f"nvidia{minor}" not in _listed(recording, "dir:/dev")


def _minor(value: Any) -> int:
    """`Device Minor: 	 3` is 3."""
    line = next(line for line in text(value).splitlines() if line.startswith("Device Minor"))
    return count(line.split(":")[1].strip())


def _book(gpu: Gpu, sources: Sources) -> None:
    """Name the readings behind each fact of a GPU."""
    path, address = f"gpus[{gpu.label}]", gpu.address
    uevent = f"file:{PCI}/{address}/uevent"
    sources[f"{path}.device_id"] = sources[f"{path}.kernel_driver"] = (uevent,)
    sources[f"{path}.access"] = (INIT, _handle(address))
    bus.book(path, address, sources)
    sources[f"{path}.root_port"] = (f"link:{PCI}/{address}",)
    sources.update({f"{path}.{fact}": keys for fact, keys in gpu_facts.sources(address).items()})
