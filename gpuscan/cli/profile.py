"""`gpuscan profile`: list, show, validate, compare and capture profiles."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import (
    GROUP,
    REQUIRED,
    CommandGroup,
    Declared,
    argument,
    command,
    list_option,
)
from gpuscan.errors import GpuscanError, UsageError, complain

if TYPE_CHECKING:
    from gpuscan.burnin.request import BurnInOptions
    from gpuscan.live.machine import ScanOptions
    from gpuscan.model import Node
    from gpuscan.model.outcome import Result
    from gpuscan.recording import Recording

profile = typer.Typer(
    cls=CommandGroup, help="List, show, validate, compare and capture profiles.", **GROUP
)

NAME = argument(metavar="NAME|FILE")
GOOD_NODES: Declared = {
    "recordings": (
        list_option(
            "--from",
            paths=True,
            panel=given.INPUT,
            metavar="RECORDING,...",
            help="recordings of good nodes (one, or three and more) instead of this machine",
        ),
        [],
    )
}


@command(profile, given.FORMAT, name="list", examples="gpuscan profile list")
def list_profiles(format_: str) -> None:
    """List the profiles that can be named."""
    from gpuscan.cli.output import terminal_width, write
    from gpuscan.profile import listing

    write(listing.render_list(format_, terminal_width()), "")


@command(
    profile,
    {"name": (NAME, REQUIRED), "settings": given.PROFILE["settings"]},
    given.FORMAT,
    name="show",
    examples="gpuscan profile show h100-8x --set gpu.count=4",
)
def show_profile(name: str, settings: Sequence[str], format_: str) -> None:
    """Show a profile with everything that it inherits."""
    from gpuscan.cli.output import write
    from gpuscan.profile import listing

    write(listing.render_profile(name, settings, format_), "")


@command(
    profile,
    {"names": (argument(list[str], metavar="NAME|FILE..."), REQUIRED)},
    name="validate",
    examples="gpuscan profile validate site.yaml",
)
def validate_profiles(names: Sequence[str]) -> int:
    """Check profiles and report every mistake as file:line:column.

    The exit code is 2 if there is one.
    """
    from gpuscan import profile as profiles
    from gpuscan.cli.output import write
    from gpuscan.engine import judging

    code = 0
    checks = judging.all_checks()
    for name in names:
        try:
            loaded = profiles.load(name, objection=judging.objection(checks))
            judging.refuse_unknown_checks(loaded, checks)
            write(f"{name}: valid\n", "")
        except GpuscanError as error:
            code = 2
            complain("\n".join(f"gpuscan: {line}" for line in str(error).split("\n")))
    return code


@command(
    profile,
    {"first": (NAME, REQUIRED), "second": (NAME, REQUIRED)},
    given.FORMAT,
    name="diff",
    examples="gpuscan profile diff h100-8x site.yaml",
)
def compare_profiles(first: str, second: str, format_: str) -> None:
    """Show the expectations in which two profiles differ."""
    from gpuscan.cli.output import write
    from gpuscan.profile import listing

    write(listing.render_difference(first, second, format_), "")


@command(
    profile,
    GOOD_NODES,
    given.SCAN,
    given.LEVEL,
    given.FORCE,
    given.FILE_OUTPUT,
    name="capture",
    examples=(
        "gpuscan profile capture --output site.yaml\n"
        "gpuscan profile capture --level quick --output site.yaml\n"
        "gpuscan profile capture --from a.json.gz --from b.json.gz --from c.json.gz"
    ),
)
def capture(recordings: Sequence[str], output: str | None, **values: Any) -> None:
    """Write a profile from this node, or from recordings, known to be good.

    With --level, it includes performance floors.
    """
    from gpuscan.cli.options import read_burn_in_options, read_scan_options
    from gpuscan.cli.output import check_writable, write
    from gpuscan.importers.load import open_recording
    from gpuscan.profile.capture import capture_profile

    if recordings and values["level"] != "passive":
        raise UsageError(
            f"--level {values['level']} cannot be combined with --from: it needs this machine's"
            " GPUs"
        )
    burn_in = read_burn_in_options(values)
    if output and output != "-":
        check_writable(output)
    if recordings:
        good = [_good_node(file, open_recording(file)) for file in recordings]
    else:
        good = [_scan_good_node(read_scan_options(values), burn_in)]
    warned = sorted({check for _, checks in good for check in checks})
    write(capture_profile([node for node, _ in good], warned), output or "")


# a setting that the profile captures, and so states
STATED = ("power.limit_lowered",)
# siblings that differ are only watched on a node in service, and no pattern for others
ODD = ("driver.inforom_match", "infiniband.firmware_match", "infiniband.port_rate_match")


def _scan_good_node(
    scan: "ScanOptions", burn_in: "BurnInOptions"
) -> tuple["Node", tuple[str, ...]]:
    """Return this node, exercised if the level asks for it, and the checks that warned."""
    from gpuscan.cli.pipeline import PASSIVE
    from gpuscan.live.machine import scan_machine

    recording, signal = scan_machine(scan)
    if burn_in.level != PASSIVE and not signal:
        from gpuscan.burnin.exercise import run_burnin
        from gpuscan.engine.judging import Selection, prepare
        from gpuscan.profile.capture import capture_profile

        capture_profile(
            [_good_node("this node", recording)[0]]
        )  # refuses now, before minutes are spent
        signal = run_burnin(scan, burn_in, recording, prepare(Selection()))
    if signal:
        raise UsageError("interrupted: no profile written")
    return _good_node("this node", recording)


def _good_node(name: str, recording: "Recording") -> tuple["Node", tuple[str, ...]]:
    """Return the node of a recording, and the checks that warned of what needs no work on it.

    Raises UsageError where it fails a check, one could not be judged, or one warned of a setting or
    a part: a profile is a promise about good nodes, and must not bless an odd one.
    """
    from gpuscan import collectors
    from gpuscan import profile as profiles
    from gpuscan.engine import judging
    from gpuscan.engine.case import Case
    from gpuscan.engine.stages import judge
    from gpuscan.model.outcome import Status

    node = collectors.node(recording)
    chosen, _ = profiles.choose(node)
    report = judge(Case(node, chosen._replace(vouches=True), judging.all_checks()))
    wrong = [result for result in report.results if result.status in (Status.FAIL, Status.UNKNOWN)]
    warned = [result for result in report.results if result.status is Status.WARN]
    wrong += [result for result in warned if _needs_work(result)]
    if not wrong:
        return node, tuple(result.check for result in warned)
    first = wrong[0]
    message = first.findings[0].message if first.findings else first.reason
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    level = f" --level {recording.meta.level}" if recording.meta.level is not None else ""
    raise UsageError(
        f"{name} does not pass profile {chosen.name}, so it cannot be used as a reference:"
        f" {first.check} on {first.subject}: {message}{more};"
        f" see gpuscan run --profile {chosen.name}{level}"
    )


def _needs_work(result: "Result") -> bool:
    """Return whether a warning is of a setting or a part, not of a program or of what to watch."""
    from gpuscan.model.outcome import Action

    heavy = any(each.action.rank >= Action.FIX_CONFIG.rank for each in result.findings)
    return result.check in ODD or (heavy and result.check not in STATED)
