"""The checkpoint of a burn-in: a recording of what was done, whose meta says how far it came."""

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuscan import __version__, collectors
from gpuscan.burnin.plan import BurnInPlan, plan_reading
from gpuscan.burnin.results import BurnInResult
from gpuscan.errors import GpuscanError, UsageError
from gpuscan.model import is_unread, read_or
from gpuscan.recording import Recording, is_plausible_time, load, save


class EarlierWork(NamedTuple):
    """What an earlier call did before it was ended: its readings, full rounds, steps of the next
    round, seconds spent, and when it began (epoch).
    """

    recording: Recording
    rounds: int = 0
    steps: int = 0
    spent_s: float = 0.0
    began_at: float = 0.0


def identify(plan: BurnInPlan, scan: Recording) -> dict[str, Any]:
    """Return what tells this burn-in from any other: level, tests, version, and the GPUs by UUID.

    Raises UsageError where a UUID was not read: another GPU at that address would pass for tested.
    """
    uuids = {gpu.address: gpu.uuid for gpu in read_or(collectors.node(scan).gpus, ())}
    uuids = {address: uuid for address, uuid in uuids.items() if address in plan.gpus}
    unread = [address for address, uuid in uuids.items() if is_unread(uuid)]
    if unread:
        raise UsageError(
            f"--checkpoint: the UUID of {unread[0]} was not read, "
            "so the checkpoint could not say which GPU was tested"
        )
    return {
        "level": plan.level,
        "rounds_s": plan.rounds_s,
        "keys": plan_reading(plan)["keys"],
        "uuids": uuids,
        "version": __version__,
    }


def start_checkpoint(path: str, identity: Mapping[str, Any]) -> EarlierWork:
    """Return what the checkpoint has done, or begin one; no *path* means no checkpoint.

    Raises UsageError where it belongs to another burn-in or is no checkpoint, and RecordingError
    where it cannot be written.
    """
    nothing = EarlierWork(Recording({}, []), began_at=round(time.time(), 3))
    if not path:
        return nothing
    if not os.path.exists(path):
        save_checkpoint(path, Recording({}, []), identity, nothing)
        return nothing
    try:
        recording = load(path)
        done = dict(recording.meta.checkpoint or {})
        if not (is_plausible_time(done["began_at"]) and is_plausible_time(done["spent_s"])):
            raise ValueError(f"it began at {done['began_at']!r} and took {done['spent_s']!r} s")
        owner = done["of"]
        differing = sorted(
            name for name in {*identity, *owner} if identity.get(name, "") != owner.get(name, "")
        )
        earlier = EarlierWork(
            recording,
            int(done["rounds"]),
            int(done["steps"]),
            float(done["spent_s"]),
            float(done["began_at"]),
        )
        parse_results(recording)
    except (GpuscanError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{path}: no checkpoint of a burn-in ({error}): name another file, or delete it"
        ) from None
    if differing:
        raise UsageError(
            f"{path}: the checkpoint of another burn-in ({', '.join(differing)} differ): "
            "name another file, or delete it to start over"
        )
    return earlier


def save_checkpoint(
    path: str, recording: Recording, identity: Mapping[str, Any], done: EarlierWork
) -> None:
    """Write a checkpoint; RecordingError where that is not possible."""
    progress = {
        "of": dict(identity),
        "rounds": done.rounds,
        "steps": done.steps,
        "spent_s": round(done.spent_s, 1),
        "began_at": done.began_at,
    }
    recording.meta = recording.meta._replace(checkpoint=progress)
    save(recording, path)


def parse_results(recording: Recording) -> dict[str, BurnInResult]:
    """Return the results of our own tests in a recording, by key; ValueError where one is
    garbled.
    """
    return {
        reading.key: BurnInResult.from_json(reading.value)
        for reading in recording
        if reading.key.startswith("burnin:") and reading.error is None
    }
