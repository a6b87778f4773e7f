"""GPU memory: every faulty row found a spare, none waits for a reset, and no error went uncorrected."""

from gpuscan import Action, Gpu, check, fail

GUIDE = "NVIDIA GPU memory error management guide"


@check(
    action=Action.REPLACE,
    needs="driver.every_card_answers",
    source=f"{GUIDE}: a row remapping failure is a criterion for RMA",
    impact="correctness",
    shared=False,
)
def test_no_row_remap_failed(gpu: Gpu) -> None:
    """Every faulty row found a spare row."""
    if gpu.remapped_rows.failed:
        fail("a row remap failed: the bank has no spare row left, or 512 rows are remapped", observed=True, expected=False)


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs="driver.every_card_answers",
    source=f"{GUIDE}: the row is out of use after the next reset, programs may go on until then",
    impact="correctness",
    shared=False,
)
def test_no_row_remap_is_pending(gpu: Gpu) -> None:
    """No faulty row waits for a GPU reset."""
    if gpu.remapped_rows.pending:
        fail("a row remap waits for a reset of the card", observed=True, expected=False)


@check(
    action=Action.RESET_GPU,
    needs="driver.every_card_answers",
    source="DCGM health watch: volatile uncorrectable errors fail; the aggregate is history",
    impact="correctness",
    shared=False,
)
def test_no_uncorrectable_ecc(gpu: Gpu) -> None:
    """No memory error went uncorrected since the driver was loaded."""
    errors = gpu.ecc_errors.uncorrected_volatile
    if errors:
        fail(f"{errors} uncorrectable ECC errors since the driver was loaded", observed=errors, expected=0)
