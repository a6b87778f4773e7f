"""What a judging command was asked to do: one record, assembled from its options in one place."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuscan.burnin.request import BurnInOptions
from gpuscan.cli import flags
from gpuscan.durations import read_duration
from gpuscan.errors import UsageError
from gpuscan.live.machine import ScanOptions
from gpuscan.model.outcome import LEVELS
from gpuscan.state.access import HistoryOptions

if TYPE_CHECKING:
    from gpuscan.cli.output import OutputOptions
    from gpuscan.engine.judging import Selection
    from gpuscan.profile.site import SiteConfig
    from gpuscan.swap.compare import SwapOptions

MIB = 1 << 20
Values = Mapping[str, Any]  # of a command's options, by parameter name, as typer parsed them


class Options(NamedTuple):
    """What is judged, what with, and where the result goes.

    *record*, *evidence_folder* and *burn_in* need a scan of this machine and are empty otherwise.
    """

    selection: "Selection"
    output: "OutputOptions"
    history: HistoryOptions = HistoryOptions()
    scan: ScanOptions = ScanOptions()
    burn_in: BurnInOptions = BurnInOptions()
    record: str = ""
    evidence_folder: str = ""
    on_verdict: tuple[str, ...] = ()


def read_options(values: Values) -> Options:
    """Assemble a command's options; raises UsageError where they are wrong or contradict each
    other.

    A command that scans this machine has `--root`; without it, or with `--replay`, an input is
    judged.
    """
    options = Options(_selection(values), _output(values), on_verdict=_on_verdict(values))
    scans = "root" in values and not values.get("replay")
    options = options._replace(history=_history(values, scans=scans))
    if values.get("replay"):
        refuse_scan_options(values)
    if not scans:
        return options
    return options._replace(
        scan=read_scan_options(values),
        burn_in=read_burn_in_options(values, busy=options.selection.busy),
        record=values.get("record") or "",
        evidence_folder=values.get("collect_on_fail") or "",
    )


def read_scan_options(values: Values) -> ScanOptions:
    """Return how this machine is to be scanned."""
    return ScanOptions(
        scanner=values.get("scanner"),
        root=values["root"],
        driver_root=values["driver_root"] or "",
        deadline_s=_site().deadline_s if values["deadline"] is None else values["deadline"],
        cables=values.get("cables", False),
    )


def read_burn_in_options(values: Values, *, busy: bool = False) -> BurnInOptions:
    """Return the burn-in that was asked for; *busy* says that jobs run on the node."""
    from gpuscan.burnin.request import default_swap_level, parse_options

    if "level" not in values:
        return BurnInOptions()
    return parse_options(
        values["level"] or default_swap_level(),
        values.get("duration") or "",
        values.get("checkpoint") or "",
        force=values["force"],
        busy=busy,
    )


def read_swap_options(values: Values) -> "SwapOptions":
    """Return what a swap is expected to change."""
    from gpuscan.swap.compare import SwapOptions

    return SwapOptions(
        values["expect"],
        values["known_bad"] or "",
        values["expected_parts"] or "",
        values["firmware_inventory"] or "",
    )


def refuse_scan_options(values: Values) -> None:
    """Raise UsageError for an option that needs a scan of this machine, given with --replay."""
    given = {
        "--record": values.get("record"),
        "--collect-on-fail": values.get("collect_on_fail"),
        flags.ROOT: values.get("root", "/") != "/",
        flags.DRIVER_ROOT: values.get("driver_root"),
        "--level": values.get("level") not in (None, LEVELS[0]),
        "--duration": values.get("duration"),
        "--checkpoint": values.get("checkpoint"),
        "--force": values.get("force"),
    }
    for flag, value in given.items():
        if value:
            raise UsageError(
                f"{flag} cannot be combined with --replay: it needs a scan of this machine"
            )


def _on_verdict(values: Values) -> tuple[str, ...]:
    if values.get("on_verdict") is None:
        return ()
    from gpuscan.live.site_command import read_command

    return read_command(values["on_verdict"])


def _site() -> "SiteConfig":
    from gpuscan.profile.site import load_site_config

    return load_site_config()


def _selection(values: Values) -> "Selection":
    from gpuscan.engine.judging import Selection

    checks = values.get("checks", ())
    return Selection(
        profile=values["profile"],
        settings=(*_site_skips(_site(), checks), *values["settings"]),
        only=values.get("only", ()),
        skip=values.get("skip", ()),
        gpus=",".join(values.get("gpus", ())),
        checks=checks,
        busy=values["node_context"] == "busy",
        require_full=values.get("require_full", False),
    )


def _site_skips(site: "SiteConfig", folders: Sequence[str]) -> list[str]:
    """Return what no profile judges at this site, as `--set` has it; raises ProfileError for what
    is no check.
    """
    if not site.skip:
        return []
    import json

    from gpuscan.engine import judging
    from gpuscan.errors import ProfileError

    object_to = judging.objection(judging.all_checks(folders))
    for name, (line, column) in site.skipped_at.items():
        if why := object_to(name):
            raise ProfileError(f"{site.path}:{line}:{column}: $.skip.{name}: {why}")
    return [f"skip.{name}={json.dumps(reason)}" for name, reason in site.skip.items()]


def _output(values: Values) -> "OutputOptions":
    from gpuscan.cli.output import OutputOptions, parse_report

    return OutputOptions(
        format=values["format_"] or _site().format or "text",
        output=values.get("output") or "",
        verbosity=-1 if values.get("quiet") else values.get("verbose", 0),
        exit_style=values.get("exit_style", "full"),
        fail_on=values.get("fail_on") or "",
        files=[parse_report(value) for value in values.get("report", ())],
    )


def _history(values: Values, *, scans: bool) -> HistoryOptions:
    """An input is judged without history unless the user names a state folder."""
    from gpuscan.state.place import node_state, state_dir

    named = values.get("state_dir") or ""
    forbidden = values.get("no_history", False)
    if forbidden and named:
        raise UsageError("--no-history cannot be combined with --state-dir: leave one of them out")
    folder = state_dir(named) if scans and not forbidden else named
    settle = values.get("settle") or ""
    return HistoryOptions(
        folder,
        values.get("tried", ()),
        read_duration("--settle", settle, "90s, 5m or 1h") if settle else 0.0,
        node_state(named, values["root"]) if scans and not forbidden else "",
        most_bytes=int(_site().archive_mib * MIB) if folder else 0,
    )
