"""Rows of a report: what its lists hold besides results; fields are named like the JSON keys."""

from typing import NamedTuple


class BlindSpot(NamedTuple):
    """A fact that could not be read, and why.

    *fact* is its path without the subject (`gpus[].performance_state`), *kind* and *text* are
    those of the Unread, *subjects* the results that lacked it.
    """

    fact: str
    kind: str
    text: str
    subjects: tuple[str, ...]


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
    *scope* holds globs of the readings, *selected* the selectors of `--only`, and *limited_to* says
    in words what keeps this from being a judgement of the whole node. *compared_with* and
    *expected* are set for a comparison, *fail_on* where `--fail-on` asked that warnings count.
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


# fields that are not in the JSON where they are None; any other None is null there
OMITTED_IF_NONE: dict[type, tuple[str, ...]] = {
    Measurement: ("test", "card", "to"),
    RunInfo: ("compared_with", "expected", "fail_on"),
}
