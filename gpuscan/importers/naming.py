"""One name for each card: parts of an input know it by address, index or UUID, and one may not
know which it is about.
"""

from collections.abc import Iterable, Sequence

from gpuscan.importers.part import NAMELESS, TOLD_CARDS, by_index
from gpuscan.recording import Reading

BY_INDEX = "nvml:nvmlDeviceGetHandleByIndex("
UUID = "nvml:nvmlDeviceGetUUID("


def joined(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings with every card under its best name, and one list of the cards that were
    told of.
    """
    names = _aliases(readings)
    kept, cards = [], list[str]()
    for reading in readings:
        if reading.key == TOLD_CARDS:
            cards += [names.get(card, card) for card in reading.value]
        else:
            kept.append(_renamed(reading, names))
    return [*kept, Reading(TOLD_CARDS, list(dict.fromkeys(cards)))] if cards else kept


def _aliases(readings: Sequence[Reading]) -> dict[str, str]:
    """Return other names and the name to use: an address where one is known."""
    uuids = {
        _card(r.key): str(r.value) for r in readings if r.key.startswith(UUID) and r.error is None
    }
    addresses = {uuid: card for card, uuid in uuids.items() if _is_address(card)}
    names = {
        card: addresses[uuid]
        for card, uuid in uuids.items()
        if uuid in addresses and not _is_address(card)
    }
    names |= {
        uuid: card for card, uuid in uuids.items() if card != uuid and not card.startswith("GPU-")
    }
    names |= addresses
    for reading in readings:
        if reading.key.startswith(BY_INDEX) and _is_address(reading.value):
            names.setdefault(by_index(_card(reading.key)), reading.value)
    others = {names.get(card, card) for card in _told(readings)} - {NAMELESS}
    if len(others) == 1:
        names[NAMELESS] = others.pop()
    return {other: names.get(name, name) for other, name in names.items()}


def _told(readings: Sequence[Reading]) -> Iterable[str]:
    return (card for reading in readings if reading.key == TOLD_CARDS for card in reading.value)


def _card(key: str) -> str:
    return key.partition("(")[2].rstrip(")").partition(",")[0]


def _is_address(name: object) -> bool:
    return isinstance(name, str) and name.count(":") > 1


def _renamed(reading: Reading, names: dict[str, str]) -> Reading:
    """Put a card's name into a key: behind the bracket of an NVML call, between the slashes of a
    file, behind a command.
    """
    key = reading.key
    if key.startswith(BY_INDEX):
        return reading._replace(value=names.get(reading.value, reading.value))
    if key.startswith("nvml:"):
        card = _card(key)
        name = names.get(card, card)
        key = key.replace(f"({card}", f"({name}", 1)
    elif NAMELESS in names:
        key = key.replace(NAMELESS, names[NAMELESS])
    error = reading.error._replace(key=key) if reading.error is not None else None
    return reading._replace(key=key, error=error)
