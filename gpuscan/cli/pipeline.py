"""One pipeline for every command that judges: read, judge, render, save.

A source reads what is to be judged (sources.py); the rest is the same for all of them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuscan import renderers
from gpuscan.burnin.request import BurnInOptions
from gpuscan.cli import output
from gpuscan.cli.options import Options
from gpuscan.engine import judging
from gpuscan.engine.hold import summary
from gpuscan.engine.report import Report
from gpuscan.errors import GpuscanError, UsageError, complain
from gpuscan.model import read_or
from gpuscan.model.outcome import FAILED
from gpuscan.recording import Recording, save
from gpuscan.renderers.headline import headline
from gpuscan.state.access import save_run
from gpuscan.text import printable

if TYPE_CHECKING:
    from gpuscan.state.store import Store

PASSIVE = BurnInOptions().level


class Judgement(NamedTuple):
    """One recording and its report; the state that its history came from (None: without history);
    `live` or `replay`; the signal that ended the scan (0: none).
    """

    recording: Recording
    report: Report
    store: "Store | None" = None
    origin: str = "replay"
    signal: int = 0


Source = Callable[[judging.Plan, Options], Judgement]


def run(sources: Sequence[Source], options: Options) -> int:
    """Judge what each source reads, and return the exit code of the worst.

    A source that cannot be read is reported on standard error. That makes the exit code 2, unless
    another one has failed. Raises GpuscanError for what cannot be done, where possible before
    anything is read.
    """
    plan = _prepare(options)
    several = len(sources) > 1
    judgements: list[Judgement] = []
    errors: list[str] = []
    for source in sources:
        try:
            judgement = source(plan, options)
        except GpuscanError as error:
            errors.append(str(error))
            continue
        except MemoryError:
            errors.append("an input is too large for this machine's memory: give a part of it")
            continue
        # before the report, which tells what became of it; the next one may be of the same machine
        judgements.append(_save(judgement, options))
    lost = [_record(judgement, plan, options) for judgement in judgements if options.record]
    try:
        reports = [judgement.report for judgement in judgements]
        code = output.write_reports(reports, options.output, many=several) if reports else 0
    finally:  # a closed pipe must not cost the evidence
        for judgement in judgements:
            _collect_evidence(judgement, plan, options)
            _tell_site(judgement, options)
    _complain_or_raise([*errors, *filter(None, lost)], judgements)
    signals = [judgement.signal for judgement in judgements if judgement.signal]
    for judgement in judgements:
        _end_checkpoint(judgement, options)
    return 128 + signals[0] if signals else code


def _prepare(options: Options) -> judging.Plan:
    """Load checks and profile, and refuse what cannot be done before any work begins."""
    output.check_options(options.output, options.record, options.burn_in.checkpoint)
    plan = judging.prepare(options.selection)
    if options.record:
        output.check_writable(options.record)
    if options.burn_in.level != PASSIVE:
        from gpuscan.burnin.exercise import require_burnin_checks

        require_burnin_checks(plan)
    if options.evidence_folder:
        from gpuscan.tickets.evidence import refuse_unusable

        refuse_unusable(options.evidence_folder)
    return plan


def _save(judgement: Judgement, options: Options) -> Judgement:
    report = save_run(judgement.store, judgement.report, judgement.origin, options.history)
    return judgement._replace(report=report)


def _record(judgement: Judgement, plan: judging.Plan, options: Options) -> str:
    """Save the recording and return what went wrong: that must not cost the verdict."""
    recording = judgement.recording
    recording.meta = recording.meta._replace(**judging.provenance(recording, plan))
    try:
        save(recording, options.record)
    except GpuscanError as error:
        return str(error)
    return ""


def _collect_evidence(judgement: Judgement, plan: judging.Plan, options: Options) -> None:
    """Keep the evidence of a failure, once the report is out. Trouble is reported on standard
    error.

    nvidia-bug-report.sh gets at most two minutes, no more than the scan had, and none after a
    signal.
    """
    folder = options.evidence_folder
    if not folder or judgement.report.exit_code < FAILED:
        return
    from gpuscan.tickets.evidence import BUG_REPORT_S, collect

    recording = judgement.recording
    recording.meta = recording.meta._replace(**judging.provenance(recording, plan))
    limit_s = 0.0 if judgement.signal else min(BUG_REPORT_S, options.scan.limit_s())
    complain(
        f"gpuscan: collecting evidence in {folder} (up to {limit_s:.0f} s for nvidia-bug-report.sh)"
    )
    try:
        place = collect(
            recording, judgement.report, folder, bug_report_s=limit_s, root=options.scan.root
        )
    except GpuscanError as error:
        complain(f"gpuscan: {error}")
    else:
        complain(f"gpuscan: evidence: {place}")


def _tell_site(judgement: Judgement, options: Options) -> None:
    """Run the site's own command on the verdict, once the report is out; its exit code is told and
    stored, and never ours. A scan that a signal ended has no verdict.
    """
    if not options.on_verdict:
        return
    from gpuscan.live.site_command import run_on_verdict

    if judgement.signal:
        complain("gpuscan: --on-verdict: not run: a signal ended the scan")
        return
    report = output.with_fail_on(judgement.report, options.output)
    document = renderers.find("json")([report], verbosity=0)
    told, printed = run_on_verdict(options.on_verdict, document.encode(), _facts(report))
    for line in printed.splitlines():
        complain(f"  {printable(line)}")
    complain(f"gpuscan: --on-verdict: {told}")
    if judgement.store is not None:
        judgement.store.note_command(told)


def _facts(report: Report) -> dict[str, str]:
    """Return what a command learns from its environment."""
    hold = summary(report.held)
    return {
        "GPUSCAN_VERDICT": report.verdict,
        "GPUSCAN_EXIT_CODE": str(report.exit_code),
        "GPUSCAN_HOLD": str(hold["code"] if hold else 0),
        "GPUSCAN_HOST": read_or(report.host.hostname, ""),
        "GPUSCAN_HEADLINE": headline(report),
    }


def _complain_or_raise(errors: Sequence[str], judgements: Sequence[Judgement]) -> None:
    """Report errors; they decide the exit code unless a failure is proven."""
    if not errors:
        return
    lines = [line for error in errors for line in error.split("\n")]
    if not any(judgement.report.exit_code >= FAILED for judgement in judgements):
        raise UsageError(*lines)
    complain("\n".join(f"gpuscan: {line}" for line in lines))


def _end_checkpoint(judgement: Judgement, options: Options) -> None:
    """Remove the checkpoint of a finished burn-in, only now that its report is out."""
    if options.burn_in.checkpoint:
        from gpuscan.burnin.exercise import remove_finished_checkpoint

        remove_finished_checkpoint(options.burn_in, judgement.recording)
