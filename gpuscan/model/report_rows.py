"""Rows of a report: what its lists hold besides results; fields are named like the JSON keys."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple


class BlindSpot(NamedTuple):
    """A fact that could not be read, and why.

    *fact* is its path without the subject (`gpus[].performance_state`), *kind* and *text* are
    those of the Unread, *subjects* the results that lacked it.
    """

    fact: str
    kind: str
    text: str
    subjects: tuple[str, ...]


class NotJudged(NamedTuple):
    """A part of the node that was not judged (`memory`, `number of GPUs`), and why not."""

    what: str
    why: str


class Measurement(NamedTuple):
    """A number that was read, with its unit.

    *name* is the fact (`power.usage_w`, `burnin.gemm_bf16_tflops`). *test* and *card* are set for
    what a burn-in measured: its test, and the GPU tested (`node` for what no GPU did alone); *to*
    is the GPU at the other end of a test between two.
    """

    name: str
    value: float
    unit: str
    subject: str
    address: str
    test: str | None = None
    card: str | None = None
    to: str | None = None


class ProfileInfo(NamedTuple):
    """The profile of a judgement: its name, whether it vouches for this machine, why it was
    chosen.
    """

    name: str = ""
    vouches: bool = False
    chosen: str = ""


class RunInfo(NamedTuple):
    """How a judgement came about.

    *started_at* is the start of the collection in UTC, *duration_s* its length in seconds, *level*
    how deep it looked. *recording* is the file judged, None for a live scan; *synthetic* data comes
    from no machine, and in a *drill* a fault was injected on purpose. *context* is idle or busy.
    *scope* holds globs of the readings, *selected* the selectors of `--only`, and *limited_to* the
    options and the kind of input that keep this from being a judgement of the whole node.
    *compared_with* and *expected* are set for a comparison, *fail_on* where `--fail-on` asked that
    warnings count, *require_full* where only a judgement of the whole node may pass, *proof*
    where it is to show that old faults are gone.
    """

    gpuscan_version: str = ""
    profile: ProfileInfo = ProfileInfo()
    started_at: str | None = None
    duration_s: float | None = None
    level: str = "passive"
    recording: str | None = None
    synthetic: bool = False
    context: str = "idle"
    drill: bool = False
    ended_by_signal: int | None = None
    scope: tuple[str, ...] = ()
    selected: tuple[str, ...] = ()
    limited_to: tuple[str, ...] = ()
    compared_with: str | None = None
    expected: tuple[str, ...] | None = None
    fail_on: str | None = None
    require_full: bool | None = None
    proof: bool | None = None


class ReportedGpu(NamedTuple):
    """A GPU with what identifies it; None is not read.

    *slot* is its name to people (SXM3, or the address). *serial_source* says where the serial
    number is from if the GPU itself did not give it (`kernel log`, `history`), *usual_slot* the
    slot at this address when the GPU last named it.
    """

    kind: Literal["gpu"]
    slot: str
    address: str
    device_id: str | None = None
    physical_slot: str | None = None
    module_id: int | None = None
    access: str | None = None
    nvml_index: int | None = None
    name: str | None = None
    uuid: str | None = None
    serial: str | None = None
    part_number: str | None = None
    vbios: str | None = None
    inforom: str | None = None
    gsp_firmware: str | None = None
    memory_mib: int | None = None
    usual_slot: str | None = None
    serial_source: str | None = None


class ReportedPort(NamedTuple):
    """An InfiniBand port with what identifies its adapter, *hca*; None is not read."""

    kind: Literal["port"]
    slot: str
    address: str
    hca: str
    firmware: str | None = None
    board_id: str | None = None
    hca_type: str | None = None
    hca_serial: str | None = None
    hca_part_number: str | None = None
    node_guid: str | None = None


class ReportedDisk(NamedTuple):
    """An NVMe disk with what identifies it; None is not read."""

    kind: Literal["disk"]
    slot: str
    address: str | None
    serial: str | None = None
    model: str | None = None
    firmware: str | None = None


ReportPart = ReportedGpu | ReportedPort | ReportedDisk


class ChangeRow(NamedTuple):
    """What became of a slot, part or cable since an earlier recording; see `Change`.

    *before* and *after* hold what was read of the part, by keys that depend on its kind; they are
    empty where there is none. *reseated*: it was expected back in its slot, not replaced.
    """

    kind: str
    slot: str
    address: str
    what: str
    expected: bool
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    reseated: bool = False


# fields that are not in the JSON where they are None; any other None is null there
OMITTED_IF_NONE: dict[type, tuple[str, ...]] = {
    Measurement: ("test", "card", "to"),
    ReportedGpu: ("usual_slot", "serial_source"),
    RunInfo: ("compared_with", "expected", "fail_on", "require_full", "proof"),
}
