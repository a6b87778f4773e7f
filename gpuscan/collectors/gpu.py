"""The GPUs: found on PCI, read through NVML one by one, each named by its slot."""

import re
from collections.abc import Iterable
from typing import Any

from gpuscan.collectors import bus, gpu_facts, link, pci
from gpuscan.collectors.host import NAMESPACE, container
from gpuscan.collectors.kernel import KIND_ACCESS, access
from gpuscan.collectors.log import suspects
from gpuscan.collectors.reading import Sources, count, gpu_count, names, samples, take, text
from gpuscan.collectors.silent import name_silent
from gpuscan.model import Driver, Fact, Gpu, Past, Process, Unread, is_unread, read_or
from gpuscan.model.nvml import ACCESS, UNKNOWN_ERROR, meaning_of
from gpuscan.recording import Recording
from gpuscan.recording.keys import COUNT, IMPORTED_GPUS, INIT, handle, handle_by_index

SLOTS = "/sys/bus/pci/slots"
NO_SUCH_GPU = (6, 28)  # NVML_ERROR_NOT_FOUND, NVML_ERROR_GPU_NOT_FOUND
PROCESS_LISTS = ("processes", "graphics_processes", "mps_processes")
MOST_NAMED = 8  # programs of one list of one GPU whose names are read
NOT_LOGGED = Unread("", "not-found", "the kernel log was not read")  # log.facts replaces it
CALLS = tuple(ask for ask in gpu_facts.EVERY if not ask.call.startswith("/"))
FILES = tuple(ask for ask in gpu_facts.EVERY if ask.call.startswith("/"))


def plan(known: Recording) -> list[str]:
    """Return the PCI listing, then each device's identity, then each NVIDIA GPU's keys, suspects
    last.
    """
    keys = [pci.LISTING, f"dir:{SLOTS}", "dir:/dev"]
    keys += [f"file:{SLOTS}/{slot}/address" for slot in pci.listed(known, f"dir:{SLOTS}")]
    keys += [pci.uevent(device) for device in pci.listed(known, pci.LISTING)]
    if pci.LISTING not in known or not all(key in known for key in keys):
        return keys  # NVML is asked GPU by GPU, so the GPUs must be known first
    on_pci = _on_pci(known)
    for address in read_or(on_pci, ()):
        keys += [f"link:{pci.DEVICES}/{address}", _information(address)]
        keys += [ask.key(address) for ask in FILES]
        keys += [key for key in [link.slot_key(known, address)] if key]
    if is_unread(known.get(INIT)) or COUNT not in known:
        return keys
    addresses = read_or(on_pci, ())
    if not addresses:
        keys += _by_index(known)
        addresses = _enumerated(known)
    may_hang = suspects(known)
    for address in sorted(addresses, key=lambda address: address in may_hang):
        keys.append(handle(address))
        keys += [ask.key(address) for ask in CALLS]
    for address in addresses:
        keys += gpu_facts.further_keys(known, address)
    keys += [gpu_facts.MARGIN.key(a) for a in addresses if gpu_facts.wants_margin(known, a)]
    keys += [_comm(pid) for pid in _pids(known, addresses)]
    return keys


def scope() -> list[str]:
    """Return patterns of all keys that `plan` can return."""
    return [
        pci.LISTING,
        f"dir:{SLOTS}",
        "dir:/dev",
        f"file:{SLOTS}/*/address",
        pci.uevent("*"),
        f"link:{pci.DEVICES}/*",
        f"file:{pci.DEVICES}/*/max_link_width",
        "file:/proc/driver/nvidia/gpus/*/information",
        "nvml:nvmlDeviceGetHandleByIndex(*)",
        handle("*"),
        gpu_facts.MARGIN.key("*"),
        _comm("*"),
        *(key for ask in (*gpu_facts.EVERY, *gpu_facts.FURTHER) for key in ask.keys("*")),
    ]


def _comm(pid: object) -> str:
    return f"file:/proc/{pid}/comm"


def _pids(known: Recording, addresses: Iterable[str]) -> list[int]:
    """Return the programs on the GPUs, the first MOST_NAMED of each list of one GPU."""
    found: dict[int, None] = {}
    for address in addresses:
        for ask in gpu_facts.OWN:
            if ask.fact in PROCESS_LISTS:
                listed: Fact[tuple[Process, ...]] = take(known, ask.key(address), ask.parse)
                found |= dict.fromkeys(p.pid for p in read_or(listed, ())[:MOST_NAMED])
    return list(found)


def _named(recording: Recording, listed: Fact[tuple[Process, ...]]) -> Fact[tuple[Process, ...]]:
    """Return the programs with their names, where the kernel gave one."""
    if is_unread(listed):
        return listed
    names_ = (read_or(take(recording, _comm(one.pid), text), "") for one in listed)
    return tuple(one._replace(name=name) for one, name in zip(listed, names_, strict=True))


def again(known: Recording) -> list[str]:
    """Return the counters of the GPUs that are read a second time, those of one call together."""
    return [
        key
        for address in _addresses(known)
        for ask in (*gpu_facts.EVERY, *gpu_facts.FURTHER)
        if ask.twice
        for key in ask.keys(address)
    ]


def doubtful(known: Recording) -> list[str]:
    """Return what two samples close together leave open: a hardware slowdown that both show, which
    may be a change of the P-state, and counters that grew, of which the rate is not known.
    """
    return [
        ask.key(address)
        for address in _addresses(known)
        for ask in gpu_facts.EVERY
        if ask.twice and _is_doubtful(known, address, ask)
    ]


def _is_doubtful(known: Recording, address: str, ask: gpu_facts.Query) -> bool:
    read = samples(known, ask.key(address), ask.parse)
    if len(read) < 2 or any(is_unread(sample) for sample in read):
        return False
    if ask is gpu_facts.CLOCKS:
        return all(sample & gpu_facts.HARDWARE for sample in read)
    return bool(read[-1] != read[0])


def after_load(known: Recording) -> list[str]:
    """Return what is read again after a burn-in: all but momentary facts, which show the load."""
    asks = [ask for ask in gpu_facts.EVERY if not ask.momentary]
    keys = [
        key
        for address in _addresses(known)
        for key in (handle(address), *(key for ask in asks for key in ask.keys(address)))
    ]
    return [key for key in (COUNT, *keys) if key in known]


def _addresses(known: Recording) -> tuple[str, ...]:
    return read_or(_on_pci(known), ()) or _enumerated(known)


def _on_pci(recording: Recording) -> Fact[tuple[str, ...]]:
    """Return the addresses of NVIDIA's display and 3D controllers; Unread if one device's identity
    is, because it could be a GPU.
    """
    devices: Fact[tuple[str, ...]] = take(recording, pci.LISTING, names)
    if is_unread(devices):
        return devices
    addresses = []
    for device in devices:
        identity: Fact[dict[str, str]] = take(recording, pci.uevent(device), pci.identity)
        if is_unread(identity):
            return identity
        if pci.is_gpu(identity):
            addresses.append(device)
    return tuple(addresses)


def _by_index(recording: Recording) -> list[str]:
    number = read_or(take(recording, COUNT, gpu_count), 0)
    return [handle_by_index(n) for n in range(number)]


def _enumerated(recording: Recording) -> tuple[str, ...]:
    """Return the addresses that NVML gives by index, the only list if PCI cannot be read (in some
    containers).
    """
    answers = [take(recording, key, text) for key in _by_index(recording)]
    return tuple(address for address in answers if not is_unread(address))


def device_minors(recording: Recording, sources: Sources) -> Fact[tuple[int, ...]]:
    """Return the numbers of the device files /dev/nvidiaN."""
    sources["device_minors"] = ("dir:/dev",)
    listing: Fact[tuple[str, ...]] = take(recording, "dir:/dev", names)
    if is_unread(listing):
        return listing
    matches = (re.fullmatch(r"nvidia([0-9]{1,4})", name) for name in listing)
    return tuple(sorted(int(match[1]) for match in matches if match))


def facts(
    recording: Recording, driver: Driver, past: Fact[Past], sources: Sources
) -> Fact[tuple[Gpu, ...]]:
    """Return the GPUs in the order of their addresses; Unread if neither PCI nor NVML lists
    them. *past* names the slot of a GPU that does not.
    """
    addresses = _listing(recording, sources)
    if is_unread(addresses):
        return addresses
    compute = any(pci.class_of(recording, address) == pci.COMPUTE for address in addresses)
    gpus = name_silent(
        [_gpu(recording, address, driver, compute=compute) for address in sorted(addresses)], past
    )
    labels = [gpu.label for gpu in gpus]
    named = [
        gpu._replace(label=gpu.address) if labels.count(gpu.label) > 1 else gpu for gpu in gpus
    ]
    for gpu in named:
        _add_sources(recording, gpu, sources)
        link.book(gpu, sources)
    return tuple(link.with_siblings(named))


def _listing(recording: Recording, sources: Sources) -> Fact[tuple[str, ...]]:
    """Return the GPUs' addresses by PCI, else by NVML, and those in an imported text."""
    addresses = _on_pci(recording)
    uevents = (pci.uevent(device) for device in pci.listed(recording, pci.LISTING))
    sources["gpus"] = (pci.LISTING, *uevents)
    if not read_or(addresses, ()) and (enumerated := _enumerated(recording)):
        addresses = enumerated
        sources["gpus"] = (COUNT, *_by_index(recording))
    imported: Fact[tuple[str, ...]] = take(recording, IMPORTED_GPUS, names)
    if is_unread(imported):
        return addresses
    sources["gpus"] = (*sources["gpus"], IMPORTED_GPUS)
    return tuple(dict.fromkeys([*read_or(addresses, ()), *imported]))


def _gpu(recording: Recording, address: str, driver: Driver, *, compute: bool) -> Gpu:
    """Return one GPU of a node that has *compute* GPUs, or none but VGA adapters."""
    uevent = pci.uevent(address)
    answers = gpu_facts.facts(recording, address)
    answers |= {name: _named(recording, answers[name]) for name in PROCESS_LISTS}
    slot = _physical_slot(recording, address)
    on_bus = bus.link(recording, address)
    return Gpu(
        address=address,
        label=_label(answers, slot, address),
        device_id=take(recording, uevent, _device_id),
        role=_role(recording, address, compute=compute),
        bus=on_bus,
        link=link.link(recording, address, answers, on_bus),
        model=_model_of(recording, address, answers),
        kernel_driver=take(recording, uevent, lambda value: pci.identity(value).get("DRIVER", "")),
        root_port=take(recording, f"link:{pci.DEVICES}/{address}", _root_port),
        physical_slot=slot,
        access=_access(recording, address, driver),
        logged_serial=NOT_LOGGED,
        logged_uuid=NOT_LOGGED,
        **answers,
    )


def _role(recording: Recording, address: str, *, compute: bool) -> str:
    """Return what the GPU serves for; what PCI does not show of it (an import) leaves `compute`."""
    uevent = pci.uevent(address)
    bound = take(recording, uevent, lambda value: pci.identity(value).get("DRIVER", ""))
    if read_or(bound, "") not in ("", "nvidia"):
        return "lent"
    unlisted = is_unread(recording.get(handle(address)))
    if unlisted and not is_unread(recording.get(INIT)) and _is_hidden(recording, address):
        return "hidden"
    return "display" if compute and pci.class_of(recording, address) == pci.VGA else "compute"


def _device_id(value: Any) -> Any:
    """`PCI_ID=10DE:2335` is 10de:2335; in an imported lspci the number may be missing."""
    found = pci.identity(value)["PCI_ID"].lower()
    return (
        Unread("", "not-recorded", "lspci names no device id here")
        if found.endswith(":")
        else found
    )


def _model_of(recording: Recording, address: str, answers: dict[str, Any]) -> str:
    """Return what GPUs of one model share: the device id, else the name, else nothing."""
    named = read_or(answers["name"], "")
    uevent = pci.uevent(address)
    return str(read_or(take(recording, uevent, _device_id), named))


def _label(answers: dict[str, Any], slot: Any, address: str) -> str:
    """Name a GPU by the module number on its board, else by the chassis slot, else by its address.

    Module numbers help only on boards of SXM modules; a PCIe GPU is recognised by its name.
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
    for slot in pci.listed(recording, f"dir:{SLOTS}"):
        if take(recording, f"file:{SLOTS}/{slot}/address", text) == address.rsplit(".", 1)[0]:
            return slot
    return Unread(f"dir:{SLOTS}", "not-found", "no chassis slot has this address")


def _access(recording: Recording, address: str, driver: Driver) -> Any:
    """Return whether the driver can talk to the GPU (`ok`, `lost`, ...): by its handle, then by the
    answers to its calls. Unread if nobody could ask.
    """
    opened = recording.get(handle(address))
    if is_unread(driver.access):
        return driver.access
    if is_unread(opened):
        return _access_without_handle(recording, address, driver.access, opened)
    if opened is not True:
        return Unread(handle(address), "garbled", f"makes no sense: {opened!r:.80}")
    # an older recording may lack a call that is asked today: that is one unread fact, not a GPU
    # that does not answer
    keys = [key for ask in CALLS for key in ask.keys(address) if key in recording]
    unread = [answer for key in keys if is_unread(answer := recording.get(key))]
    told = [word for answer in unread if (word := _word(answer))]
    if _errs_alone(recording, address):
        told.append("erring")
    if told:
        return max(told, key=lambda word: ACCESS[word].action.rank)
    return next((answer for answer in unread if answer.kind == "blocked-behind"), "ok")


def _word(answer: Unread) -> str:
    """Return the access that an error in any call of a GPU tells of, "" for none."""
    if answer.kind in KIND_ACCESS:
        return answer.kind
    meant = meaning_of(answer.code or 0)
    return meant.access if meant.of_gpu else ""


def _errs_alone(recording: Recording, address: str) -> bool:
    """Return whether a call fails with "unknown error" that succeeds for another GPU of the same
    model. If it succeeds for none, the driver is at fault, or does not know the call.
    """
    answers = ((ask, recording.get(ask.key(address))) for ask in CALLS)
    erring = [ask for ask, one in answers if is_unread(one) and one.code == UNKNOWN_ERROR]
    if not erring:
        return False
    model = _model(recording, address)
    beside = [other for other in _addresses(recording) if _model(recording, other) == model]
    return any(
        other != address and not is_unread(recording.get(ask.key(other)))
        for ask in erring
        for other in beside
    )


def _model(recording: Recording, address: str) -> str:
    return str(read_or(take(recording, pci.uevent(address), _device_id), ""))


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
    if _lacks_device_file(recording, address):
        return "no-device-file"
    return "lost" if absent else "unopened"


def _is_hidden(recording: Recording, address: str) -> bool:
    """Return whether a container hides the GPU: the kernel drives it, and either the driver's
    folder of it or its device file is not there.

    The driver's folder is never missing outside a container. A device file may be: a single one is
    hidden only where the scan is known to run in a container.
    """
    if is_unread(take(recording, _information(address), _minor)):
        identity = take(recording, pci.uevent(address), pci.identity)
        return not is_unread(identity) and identity.get("DRIVER") == "nvidia"
    if not _lacks_device_file(recording, address):
        return False
    contained = take(recording, NAMESPACE, container)
    if not is_unread(contained):
        return bool(contained)
    return sum(_lacks_device_file(recording, other) for other in _addresses(recording)) > 1


def _lacks_device_file(recording: Recording, address: str) -> bool:
    minor = take(recording, _information(address), _minor)
    return not is_unread(minor) and f"nvidia{minor}" not in pci.listed(recording, "dir:/dev")


def _information(address: str) -> str:
    return f"file:/proc/driver/nvidia/gpus/{address}/information"


def _minor(value: Any) -> int:
    """`Device Minor: 	 3` is 3."""
    line = next(line for line in text(value).splitlines() if line.startswith("Device Minor"))
    return count(line.split(":")[1].strip())


def _add_sources(recording: Recording, gpu: Gpu, sources: Sources) -> None:
    """Add the reading keys behind each fact of a GPU."""
    path, address = f"gpus[{gpu.label}]", gpu.address
    uevent = pci.uevent(address)
    for fact in ("device_id", "kernel_driver", "role"):
        sources[f"{path}.{fact}"] = (uevent,)
    sources[f"{path}.access"] = (INIT, handle(address))
    bus.book(path, address, sources)
    sources[f"{path}.root_port"] = (f"link:{pci.DEVICES}/{address}",)
    sources.update(
        {f"{path}.{fact}": keys for fact, keys in gpu_facts.sources(recording, address).items()}
    )
