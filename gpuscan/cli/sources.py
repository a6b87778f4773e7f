"""What can be judged: this machine, a recording, a kernel log, two recordings, a swap."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuscan.cli.options import Options
from gpuscan.cli.pipeline import PASSIVE, Judgement, Source
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.errors import GpuscanError, RecordingError, complain
from gpuscan.importers.load import open_inputs, open_recording
from gpuscan.importers.part import Input
from gpuscan.live.deadline import bounded
from gpuscan.live.machine import ScanOptions, read_keys, scan_machine
from gpuscan.recording import Recording
from gpuscan.state.access import begin_run, forget_run, is_this_machine, load_history

if TYPE_CHECKING:
    from gpuscan.burnin.proving import Wish
    from gpuscan.live.logfile import LogFile
    from gpuscan.state.store import Store
    from gpuscan.swap.compare import SwapOptions

SETTLE_PAUSE_S = 5.0  # between two scans of a node that is still settling
LoadStore = Callable[[Recording], "Store | None"]
JudgeRecording = Callable[[Recording, "Store | None"], Report]


def this_machine(plan: judging.Plan, options: Options) -> Judgement:
    """Scan this machine, and exercise its GPUs if the level asks for it."""

    options = options._replace(history=begin_run(options.history))

    def load(recording: Recording) -> "Store | None":
        store = load_history(recording, options.history, own=True)
        if store is not None and store.wants_the_sel:
            _add_event_log(recording, options.scan)
        return store

    def judge(recording: Recording, _: "Store | None") -> Report:
        return judging.judge_recording(recording, "", plan)

    try:
        judgement = _scan_until_settled(plan, options, load, judge)
    except GpuscanError:
        forget_run(options.history)
        raise
    return judgement._replace(report=_without_vain_proposal(judgement.report))


def _without_vain_proposal(report: Report) -> Report:
    """Return the report without a proposal that needs a program which is not on this machine."""
    if report.proposed is None or not report.proposed.needs:
        return report
    from gpuscan.burnin.tools.run import program

    return report if program(report.proposed.needs) else report._replace(proposed=None)


def input_file(file: str) -> list[Source]:
    """Return a source for each node in a file: a recording, another tool's output, a directory or
    tar of these. What is wrong with the file is raised by its source.
    """
    try:
        inputs = open_inputs(file)
    except RecordingError as error:
        return [_refusing(error)]
    return [_input(one) for one in inputs]


def _input(one: Input) -> Source:
    def judge(plan: judging.Plan, options: Options) -> Judgement:
        if one.note:
            complain(f"gpuscan: {one.note}")
        return _judge_input(one.load(), one.name, plan, options)

    return judge


def _refusing(error: RecordingError) -> Source:
    def judge(plan: judging.Plan, options: Options) -> Judgement:
        raise error

    return judge


def recording_file(file: str) -> Source:
    """Return the source that loads a recording, or imports another tool's output."""

    def judge(plan: judging.Plan, options: Options) -> Judgement:
        return _judge_input(open_recording(file), file, plan, options)

    return judge


def kernel_log(log: "LogFile", *, current_boot: bool) -> Source:
    """Return the source that reads a kernel log: its last boot, or all of it."""

    def judge(plan: judging.Plan, options: Options) -> Judgement:
        from gpuscan.live.kernel_log import record_log

        return _judge_input(record_log(log, current=current_boot), log.name, plan, options)

    return judge


def comparison(before: str, after: str, swap: "SwapOptions") -> Source:
    """Return the source that judges the recording *after* a swap against the one *before* it."""

    def judge(plan: judging.Plan, options: Options) -> Judgement:
        from gpuscan.swap.compare import compare_recordings

        recording = open_recording(after)
        report = compare_recordings(open_recording(before), recording, plan, swap, (before, after))
        return Judgement(recording, report)

    return judge


def proof(wish: "Wish") -> Source:
    """Return the source that scans this machine and exercises what it is held for."""

    def judge(plan: judging.Plan, options: Options) -> Judgement:
        from gpuscan.burnin.exercise import run_proof
        from gpuscan.state.elsewhere import told_elsewhere

        history = begin_run(options.history)
        try:
            recording, signal = scan_machine(options.scan)
            store = load_history(recording, history, own=True)
            if not signal:
                folder = options.history.folder
                signal = run_proof(options.scan, wish, recording, lambda: told_elsewhere(folder))
            report = judging.judge_recording(recording, "", plan)
        except GpuscanError:
            forget_run(history)
            raise
        return Judgement(recording, report, store, "live", signal)

    return judge


def swap_verification(swap: "SwapOptions") -> Source:
    """Return the source that scans this machine and judges it against what it was before the swap.

    The node is judged without its hold: whether the hold goes is what this judgement decides.
    """
    from gpuscan.swap import session

    def judge(plan: judging.Plan, options: Options) -> Judgement:
        history = begin_run(options.history)

        def load(recording: Recording) -> "Store | None":
            return load_history(recording, history, own=True, hold=False)

        def prove(recording: Recording, store: "Store | None") -> Report:
            return session.prove(session.need_store(store), recording, plan, swap)

        try:
            judgement = _scan_until_settled(plan, options, load, prove, proves=True)
            store = session.need_store(judgement.store)
            report = session.release(store, judgement.report, judgement.recording, plan)
        except GpuscanError:
            forget_run(history)
            raise
        return judgement._replace(report=report)

    return judge


def swap_drill(file: str, swap: "SwapOptions") -> Source:
    """Return the source that judges a recording as `swap verify` would judge this machine."""
    from gpuscan.swap import session

    def judge(plan: judging.Plan, options: Options) -> Judgement:
        recording = open_recording(file)
        own = is_this_machine(recording)
        store = load_history(recording, options.history, own=own, hold=False)
        report = session.prove(store, recording, plan, swap, file)
        if store is not None:
            report = session.release(store, report, recording, plan)
        return Judgement(recording, report, store)

    return judge


def _judge_input(
    recording: Recording, name: str, plan: judging.Plan, options: Options
) -> Judgement:
    store = load_history(recording, options.history, own=is_this_machine(recording))
    return Judgement(recording, judging.judge_recording(recording, name, plan), store)


def _scan_until_settled(
    plan: judging.Plan,
    options: Options,
    load: LoadStore,
    judge: JudgeRecording,
    *,
    proves: bool = False,
) -> Judgement:
    """Scan and judge, again and again until nothing is wrong or the time to settle is over; then
    exercise the GPUs if the level asks for it, and judge once more. What *proves* a swap also
    exercises what the node was held for.
    """
    scan = options.scan
    ends_s = time.monotonic() + options.history.settle_s
    while True:
        began_s = scan.scanner.child.started_s if scan.scanner else time.monotonic()
        recording, signal = scan_machine(scan, _addresses(options.selection.gpus))
        with bounded(began_s, scan.limit_s()):
            store = load(recording)
            report = judge(recording, store)
        if signal or report.exit_code == 0 or time.monotonic() >= ends_s:
            break
        scan = scan._replace(scanner=None)
        time.sleep(min(SETTLE_PAUSE_S, max(ends_s - time.monotonic(), 0)))
    if options.burn_in.level != PASSIVE and not signal:
        from gpuscan.burnin.exercise import run_burnin

        held = store.unproven if store is not None and proves else ()
        signal = run_burnin(options.scan, options.burn_in, recording, plan, held)
        report = judge(recording, store)
    return Judgement(recording, report, store, "live", signal)


def _addresses(gpus: str) -> tuple[str, ...]:
    """Return the PCI addresses in `--gpus`; none (all GPUs are read) if it names any by slot,
    UUID or serial, which must be looked up first.
    """
    names = judging.parse_gpu_names(gpus) if gpus else []
    return tuple(names) if all(":" in name for name in names) else ()


def _add_event_log(recording: Recording, scan: ScanOptions) -> None:
    """Read the BMC's event log: slow, and so only if the history needs to know whether the machine
    was without power.
    """
    from gpuscan.collectors.past import SEL

    for reading in read_keys(scan, (SEL,)):
        recording.add(reading)
