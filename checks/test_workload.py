"""Workload: a drained node is empty."""

from gpuscan import Action, Gpu, check, fail


@check(action=Action.FIX_CONFIG, needs="driver.every_card_answers", impact="capacity", jobs=True)
def test_no_program_computes(gpu: Gpu) -> None:
    """No program computes on the card."""
    pids = [process.pid for process in gpu.processes]
    if pids:
        fail(f"programs compute on the card (pid {', '.join(map(str, pids))})", observed=len(pids), expected=0)
