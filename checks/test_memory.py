"""GPU memory: every faulty row found a spare, none waits for a reset, and no error went
uncorrected.
"""

from gpuscan import Action, Gpu, Profile, check, fail, warn
from gpuscan.model.outcome import TO_REPLACE

GUIDE = "NVIDIA GPU memory error management guide"


@check(
    action=Action.REPLACE,
    needs="driver.gpu_access",
    source=f"{GUIDE}: a row remapping failure is a criterion for RMA",
    impact="correctness",
    shared=False,
    aliases=["memory.no_row_remap_failed"],
)
def test_row_remap(gpu: Gpu) -> None:
    """Every faulty row found a spare row."""
    if gpu.remapped_rows.failed:
        fail(
            "a row remap failed: the bank has no spare row left, or 512 rows are remapped",
            observed=True,
            expected=False,
        )


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs="driver.gpu_access",
    source=f"{GUIDE}: the row is out of use after the next reset, programs may go on until then",
    impact="correctness",
    shared=False,
    ladder=TO_REPLACE,
    same=("remapped_rows.correctable", "remapped_rows.uncorrectable"),
    aliases=["memory.no_row_remap_is_pending"],
)
def test_row_remap_pending(gpu: Gpu) -> None:
    """No faulty row waits for a GPU reset."""
    if gpu.remapped_rows.pending:
        fail("a row remap waits for a reset of the GPU", observed=True, expected=False)


@check(
    action=Action.RESET_GPU,
    needs="driver.gpu_access",
    source="DCGM health watch: volatile uncorrectable errors fail; the aggregate is history",
    impact="correctness",
    shared=False,
    ladder=(),
    aliases=["memory.no_uncorrectable_ecc"],
)
def test_uncorrectable_ecc(gpu: Gpu) -> None:
    """No memory error went uncorrected since the driver was loaded."""
    errors = gpu.ecc_errors.uncorrected_volatile
    if errors:
        fail(
            f"{errors} uncorrectable ECC errors since the driver was loaded",
            observed=errors,
            expected=0,
        )


@check(
    action=Action.REPLACE,
    needs="driver.gpu_access",
    source=f"{GUIDE}: SRAM uncorrectable error threshold, a criterion for RMA once the field diagnostic confirms it",
    impact="correctness",
    shared=False,
    aliases=["memory.sram_threshold_is_not_exceeded"],
)
def test_sram_threshold(gpu: Gpu) -> None:
    """NVIDIA's threshold of uncorrectable SRAM errors is not passed."""
    if gpu.sram.threshold_exceeded:
        where = f" (in {gpu.sram.sources})" if gpu.sram.sources else ""
        fail(
            f"the threshold of uncorrectable SRAM errors is passed{where}",
            observed=True,
            expected=False,
        )


@check(
    action=Action.RESET_GPU,
    needs=("driver.gpu_access", "memory.sram_threshold"),
    source=f"{GUIDE}: an uncorrectable SRAM error wants a reset; Azure drains at any",
    impact="correctness",
    shared=False,
    ladder=(),
    aliases=["memory.no_uncorrectable_sram"],
)
def test_uncorrectable_sram(gpu: Gpu) -> None:
    """No SRAM error went uncorrected since the driver was loaded."""
    errors = gpu.sram.uncorrectable_volatile
    if errors:
        fail(
            f"{errors} uncorrectable SRAM errors since the driver was loaded",
            observed=errors,
            expected=0,
        )


@check(
    action=Action.REPLACE,
    needs=("driver.gpu_access", "memory.row_remap"),
    source=f"{GUIDE}: 512 rows can be remapped for uncorrectable errors in all",
    impact="correctness",
    shared=False,
    aliases=["memory.rows_are_left_to_remap"],
)
def test_remapped_rows(gpu: Gpu, profile: Profile) -> None:
    """Fewer rows are remapped for uncorrectable errors than can be in all."""
    rows, limit = gpu.remapped_rows.uncorrectable, profile.limits.remapped_rows
    if rows >= limit:
        fail(
            f"{rows} rows are remapped for uncorrectable errors, {limit} can be",
            observed=rows,
            expected=f"<{limit}",
        )


@check(
    action=Action.MONITOR,
    needs="driver.gpu_access",
    source=f"{GUIDE}: no threshold is set",
    impact="none",
    aliases=["memory.every_bank_has_a_spare_row"],
)
def test_spare_rows(gpu: Gpu) -> None:
    """Every memory bank has a spare row left for the next faulty one."""
    banks = gpu.spare_rows.none
    if banks:
        warn(
            f"{banks} memory banks have no spare row left: the next faulty row there is an RMA",
            observed=banks,
            expected=0,
        )


@check(
    action=Action.REPLACE,
    needs="driver.gpu_access",
    source="DCGM: 63 retired pages fail (Volta, Turing)",
    impact="correctness",
    shared=False,
    aliases=["memory.few_pages_are_retired"],
)
def test_retired_pages(gpu: Gpu, profile: Profile) -> None:
    """Fewer pages are retired than a GPU may have (GPUs before Ampere)."""
    pages, limit = (
        gpu.retired_pages.single_bit + gpu.retired_pages.double_bit,
        profile.limits.retired_pages,
    )
    if pages >= limit:
        fail(
            f"{pages} pages are retired, {limit} are too many", observed=pages, expected=f"<{limit}"
        )


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs="driver.gpu_access",
    source="NVIDIA dynamic page retirement: the page is out of use after the next load of the driver",
    impact="correctness",
    shared=False,
    ladder=TO_REPLACE,
    same=("retired_pages.single_bit", "retired_pages.double_bit"),
    aliases=["memory.no_page_retirement_is_pending"],
)
def test_page_retirement_pending(gpu: Gpu) -> None:
    """No page waits to be retired (GPUs before Ampere)."""
    if gpu.retired_pages.pending:
        fail("a page waits for a reset to be retired", observed=True, expected=False)


@check(
    action=Action.REPLACE,
    needs="driver.gpu_access",
    source="DCGM: unrepairable memory isolates the GPU",
    impact="correctness",
    shared=False,
    aliases=["memory.no_memory_is_unrepairable"],
)
def test_unrepairable(gpu: Gpu) -> None:
    """The GPU does not report memory that cannot be repaired."""
    if gpu.unrepairable_memory:
        fail("the GPU reports memory that cannot be repaired", observed=True, expected=False)


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs="driver.gpu_access",
    source="NVML repair status: the repair is made at a reset",
    impact="correctness",
    shared=False,
    ladder=TO_REPLACE,
    aliases=["memory.no_repair_is_pending"],
)
def test_repair_pending(gpu: Gpu) -> None:
    """No repair of a memory channel or a TPC waits for a reset."""
    waiting = [
        name
        for name, on in (
            ("memory channel", gpu.repair.channel_pending),
            ("TPC", gpu.repair.tpc_pending),
        )
        if on
    ]
    if waiting:
        fail(f"the repair of a {' and a '.join(waiting)} waits for a reset", observed=waiting)


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    source=f"{GUIDE}: without ECC faults go unseen",
    impact="correctness",
    aliases=["memory.ecc_is_as_expected"],
)
def test_ecc_mode(gpu: Gpu, profile: Profile) -> None:
    """ECC is on or off as the profile wants it."""
    mode, wanted = gpu.ecc_mode.current, profile.gpu.ecc
    if mode != wanted:
        fail(f"ECC is {'on' if mode else 'off'}", observed=mode, expected=wanted)


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs=("driver.gpu_access", "memory.ecc_mode"),
    source="NVML: a change of the ECC mode takes effect at a reset",
    impact="correctness",
    aliases=["memory.no_ecc_change_is_pending"],
)
def test_ecc_mode_pending(gpu: Gpu) -> None:
    """No change of the ECC mode waits for a reset."""
    if gpu.ecc_mode.current != gpu.ecc_mode.pending:
        fail(
            f"ECC will be {'on' if gpu.ecc_mode.pending else 'off'} after the next reset",
            observed=gpu.ecc_mode.pending,
        )
