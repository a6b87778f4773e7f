"""GPU memory: faulty rows are remapped, none is waiting for a reset, and ECC is as expected."""

from gpuscan import Action, Gpu, Node, Past, Profile, check, fail, read, warn
from gpuscan.model.outcome import TO_REPLACE
from gpuscan.text import counted

PAGES = "retired_pages.double_bit"
MANY_DOUBLE_BIT = 15
WEEK_S = 7 * 86400
GUIDE = "NVIDIA GPU memory error management guide"
# An error that takes its row out of use is a new one each time. Errors that return and retire
# nothing are for the field diagnostic (NVIDIA GPU debug guidelines).
NOT_REMAPPED = (Action.RESET_GPU, Action.REBOOT, Action.INSPECT, Action.REPLACE)


@check(
    action=Action.REPLACE,
    needs="driver.gpu_access",
    source=f"{GUIDE}: a row remapping failure is a criterion for RMA",
    impact="correctness",
    shared=False,
    aliases=["memory.no_row_remap_failed"],
)
def test_row_remap(gpu: Gpu) -> None:
    """Every faulty memory row was remapped to a spare row.

    Remapping fails when the bank has no spare row left, or when 512 rows are already remapped.
    """
    if gpu.remapped_rows.failed:
        fail(
            "row remapping failed: the GPU has run out of spare rows",
            observed=True,
            expected=False,
        )


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs="driver.gpu_access",
    source=f"{GUIDE}: the row is replaced at the next reset, and programs may run until then",
    impact="correctness",
    shared=False,
    ladder=TO_REPLACE,
    same=("remapped_rows.correctable", "remapped_rows.uncorrectable"),
    aliases=["memory.no_row_remap_is_pending"],
)
def test_row_remap_pending(gpu: Gpu) -> None:
    """No row remap is pending."""
    if gpu.remapped_rows.pending:
        fail(
            "a row remap is pending: it takes effect at the next GPU reset",
            observed=True,
            expected=False,
        )


@check(
    action=Action.RESET_GPU,
    needs="driver.gpu_access",
    source="DCGM health watch: volatile uncorrectable errors fail; the aggregate is history",
    impact="correctness",
    shared=False,
    ladder=NOT_REMAPPED,
    same=("remapped_rows.uncorrectable", "retired_pages.double_bit"),
    aliases=["memory.no_uncorrectable_ecc"],
)
def test_uncorrectable_ecc(gpu: Gpu) -> None:
    """No uncorrectable ECC error has occurred since the driver was loaded.

    Errors that return in later boots without a row being remapped for them climb the ladder.
    """
    errors = gpu.ecc_errors.uncorrected_volatile
    if errors:
        fail(
            f"uncorrectable ECC errors since the driver was loaded: {errors}",
            observed=errors,
            expected=0,
        )


@check(
    action=Action.REPLACE,
    needs=("driver.gpu_access", "memory.ecc_mode"),  # with ECC off nothing is counted
    source=f"{GUIDE}: the SRAM error threshold is a criterion for RMA once the field diagnostic "
    "confirms it",
    impact="correctness",
    shared=False,
    aliases=["memory.sram_threshold_is_not_exceeded"],
)
def test_sram_threshold(gpu: Gpu) -> None:
    """Uncorrectable SRAM errors are below NVIDIA's threshold."""
    if gpu.sram.threshold_exceeded:
        where = f" (in {gpu.sram.sources})" if gpu.sram.sources else ""
        fail(
            f"NVIDIA's threshold of uncorrectable SRAM errors is exceeded{where}",
            observed=True,
            expected=False,
        )


@check(
    action=Action.RESET_GPU,
    needs=("driver.gpu_access", "memory.sram_threshold"),
    source=f"{GUIDE}: an uncorrectable SRAM error requires a reset; Azure drains on any",
    impact="correctness",
    shared=False,
    ladder=(),
    aliases=["memory.no_uncorrectable_sram"],
)
def test_uncorrectable_sram(gpu: Gpu) -> None:
    """No uncorrectable SRAM error has occurred since the driver was loaded."""
    errors = gpu.sram.uncorrectable_volatile
    if errors:
        fail(
            f"uncorrectable SRAM errors since the driver was loaded: {errors}",
            observed=errors,
            expected=0,
        )


@check(
    action=Action.REPLACE,
    needs=("driver.gpu_access", "memory.row_remap"),
    source=f"{GUIDE}: at most 512 rows can be remapped for uncorrectable errors",
    impact="correctness",
    shared=False,
    aliases=["memory.rows_are_left_to_remap"],
)
def test_remapped_rows(gpu: Gpu, profile: Profile) -> None:
    """Rows remapped for uncorrectable errors are below the limit."""
    rows, limit = gpu.remapped_rows.uncorrectable, profile.limits.remapped_rows
    if rows >= limit:
        fail(
            f"{counted(rows, 'row is', 'rows are')} remapped for uncorrectable errors, the limit "
            f"is {limit}",
            observed=rows,
            expected=f"<{limit}",
        )


@check(
    action=Action.MONITOR,
    needs="driver.gpu_access",
    source=f"{GUIDE}: sets no threshold",
    impact="none",
    aliases=["memory.every_bank_has_a_spare_row"],
)
def test_spare_rows(gpu: Gpu) -> None:
    """Every memory bank has a spare row left."""
    banks = gpu.spare_rows.none
    if banks:
        warn(
            f"memory banks without a spare row: {banks}; their next faulty row means an RMA",
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
    """Retired pages are below the limit (GPUs before Ampere)."""
    pages, limit = (
        gpu.retired_pages.single_bit + gpu.retired_pages.double_bit,
        profile.limits.retired_pages,
    )
    if pages >= limit:
        fail(
            f"{counted(pages, 'page is', 'pages are')} retired, the limit is {limit}",
            observed=pages,
            expected=f"<{limit}",
        )


@check(
    action=Action.REPLACE,
    needs=("driver.gpu_access", "memory.retired_pages"),
    source="DCGM: more than 15 pages retired by double-bit errors, and more than one within a week;"
    " NVIDIA dynamic page retirement: growth past 15 is a criterion for RMA",
    impact="correctness",
)
def test_page_growth(node: Node) -> None:
    """No GPU with many pages retired by double-bit errors retires more (before Ampere)."""
    many = [
        (gpu, pages)
        for gpu, pages in read(node.gpus, "retired_pages.double_bit")
        if pages > MANY_DOUBLE_BIT
    ]
    for gpu, pages in many:
        earlier = [before for _, past in read([node], "past") for before in _pages(past, gpu)]
        grown = pages - min(earlier, default=pages)
        told = f"{gpu.label}: {counted(pages, 'page is', 'pages are')} retired by double-bit errors"
        if grown > 1:
            fail(f"{told}, {grown} more within a week", culprits=[gpu], observed=pages)
        else:
            warn(
                f"{told}; more within a week means an RMA",
                action=Action.MONITOR,
                culprits=[gpu],
                observed=pages,
            )


def _pages(past: Past, gpu: Gpu) -> list[float]:
    """Return the pages that runs of the last week counted of this GPU, not of one before it."""
    serial = next((known for _, known in read([gpu], "serial")), "")
    came = [part.first_s for part in past.parts if serial and part.serial == serial]
    since_s = max([past.at_s - WEEK_S, *came])
    return [
        one.value
        for one in past.measured
        if one.name == PAGES and one.subject == f"gpu:{gpu.label}" and one.at_s >= since_s
    ]


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs="driver.gpu_access",
    source="NVIDIA dynamic page retirement: the page is retired when the driver is next loaded",
    impact="correctness",
    shared=False,
    ladder=TO_REPLACE,
    same=("retired_pages.single_bit", "retired_pages.double_bit"),
    aliases=["memory.no_page_retirement_is_pending"],
)
def test_page_retirement_pending(gpu: Gpu) -> None:
    """No page retirement is pending (GPUs before Ampere)."""
    if gpu.retired_pages.pending:
        fail(
            "a page retirement is pending: it takes effect at the next GPU reset",
            observed=True,
            expected=False,
        )


@check(
    action=Action.REPLACE,
    needs="driver.gpu_access",
    source="DCGM: unrepairable memory isolates the GPU",
    impact="correctness",
    shared=False,
    aliases=["memory.no_memory_is_unrepairable"],
)
def test_unrepairable(gpu: Gpu) -> None:
    """The GPU reports no unrepairable memory."""
    if gpu.unrepairable_memory:
        fail("the GPU reports unrepairable memory", observed=True, expected=False)


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs="driver.gpu_access",
    source="NVML repair status: the repair takes effect at a reset",
    impact="correctness",
    shared=False,
    ladder=TO_REPLACE,
    aliases=["memory.no_repair_is_pending"],
)
def test_repair_pending(gpu: Gpu) -> None:
    """No repair of a memory channel or a TPC is pending."""
    waiting = [
        name
        for name, on in (
            ("memory channel", gpu.repair.channel_pending),
            ("TPC", gpu.repair.tpc_pending),
        )
        if on
    ]
    if waiting:
        fail(
            f"{' and '.join(waiting)} repair is pending: it takes effect at the next GPU reset",
            observed=waiting,
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    source=f"{GUIDE}: without ECC, memory errors go unnoticed",
    impact="correctness",
    aliases=["memory.ecc_is_as_expected"],
)
def test_ecc_mode(gpu: Gpu, profile: Profile) -> None:
    """ECC is on or off as the profile expects."""
    mode, expected = gpu.ecc_mode.current, profile.gpu.ecc
    if mode == expected:
        return
    now, should = ("on", "off") if mode else ("off", "on")
    if any(pending == expected for _, pending in read([gpu], "ecc_mode.pending")):
        fail(
            f"ECC is {now}, the profile expects {should}: the change is pending until a GPU reset",
            action=Action.RESET_GPU,
            urgency="next-idle",
            observed=mode,
            expected=expected,
        )
    else:
        fail(f"ECC is {now}, the profile expects {should}", observed=mode, expected=expected)


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs=("driver.gpu_access", "memory.ecc_mode"),
    source="NVML: an ECC mode change takes effect at a reset",
    impact="correctness",
    aliases=["memory.no_ecc_change_is_pending"],
)
def test_ecc_mode_pending(gpu: Gpu, profile: Profile) -> None:
    """No ECC mode change is pending.

    One to a mode that the profile does not want is to be taken back: a reset would carry it out.
    """
    pending, wanted = gpu.ecc_mode.pending, profile.gpu.get("ecc")
    if gpu.ecc_mode.current == pending:
        return
    mode, back = ("on", "0") if pending else ("off", "1")
    if wanted is None or pending == wanted:
        fail(f"an ECC mode change is pending: {mode} from the next GPU reset", observed=pending)
    else:
        fail(
            f"ECC will be {mode} after the next GPU reset, against the profile: take it back with "
            f"nvidia-smi -e {back}",
            action=Action.FIX_CONFIG,
            urgency="now",
            observed=pending,
            expected=wanted,
        )
