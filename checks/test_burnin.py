"""Burn-in: the GPUs compute, remember and move data right, at speed, and stay cool; only where
--level exercised them.
"""

from gpuscan import Action, BurnTest, Profile, Rate, check, fail, read, warn
from gpuscan.burnin.rates import floor_labels, is_below_median
from gpuscan.engine.lens import NotJudged
from gpuscan.engine.measurements import unit_of
from gpuscan.model import Ending
from gpuscan.model.outcome import TO_REPLACE

ANSWERS = "driver.gpu_access"
ENGINE = "gpuscan's burn-in"
SDC = f"{ENGINE}: every word is compared, and a flip was injected and found first"
COMPUTED = ("exact", "stress", "pulse", "nccl")
SPEEDS = ("stress", "hbm", "pcie", "peer", "nccl", "tool")
LOADED = ("exact", "stress", "pulse")
FAIL_SHARE = 0.90  # of the node's median
UNCORRECTABLE = "uncorrectable ECC errors"
SOME = 0.01  # of the time under load
FLASH = 1  # sample
ENDS = {
    "pcie": "the GPU, the host or the link",
    "peer": "this GPU, {} or what links them",
    "nccl": "a GPU or a link",
}
SHARED = (
    "pcie_both",
    "pcie_together",
)  # the host's memory is in it: these differ by 8 % from one try to the next
MOST = {  # more of it fails; a few are noted
    "PCIe replays": 80,
    "NVLink replays": 1000,
    "NVLink CRC errors": 100,
    "corrected ECC errors": 100,
    "rows remapped after correctable errors": 8,
}
SETUP = {  # CUDA's words for a GPU that cannot be opened, and what they ask for
    "CUDA_ERROR_SYSTEM_NOT_READY": (
        Action.FIX_CONFIG,
        "the Fabric Manager has not set the NVSwitches up",
    ),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        Action.FIX_CONFIG,
        "the CUDA library and the kernel module are of different versions",
    ),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": (Action.FIX_CONFIG, "another program has the GPU for itself"),
    "CUDA_ERROR_OUT_OF_MEMORY": (Action.FIX_CONFIG, "another program has the GPU's memory"),
    "CUDA_ERROR_STUB_LIBRARY": (
        Action.FIX_CONFIG,
        "the libcuda.so.1 that was found is the toolkit's stub, not the driver's",
    ),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": (
        Action.FIX_CONFIG,
        "libcuda.so.1 is newer than the driver",
    ),
    "NOT_STARTED": (
        Action.INVESTIGATE,
        "the CUDA driver does not start: is nvidia-uvm loaded, may /dev/nvidia-uvm be opened?",
    ),
    "NO_DRIVER": (Action.FIX_CONFIG, "libcuda.so.1 is not installed"),
    "NO_BINDING": (Action.FIX_CONFIG, "cuda-bindings is not installed"),
}


@check(
    action=Action.RESET_GPU,
    needs=ANSWERS,
    source=f"{ENGINE}: no test of ours takes the GPU longer than a second at a time, and none of its kernels faults",
    kinds=("open", "exact", "stress", "pulse", "memory", "hbm", "pcie", "peer", "nccl"),
    same=("ended",),
    aliases=["burnin.runs_to_its_end"],
)
def test_completion(test: BurnTest) -> None:
    """The test ran to its end: the GPU was neither stuck nor lost in it."""
    if test.kind == "nccl" and test.ended != Ending.RAN:
        fail(
            f"NCCL did not come to its end: {test.text}",
            action=Action.INVESTIGATE,
            observed=test.ended.value,
        )
    elif test.kind == "peer" and test.ended != Ending.RAN:
        told = f"from {test.gpu} to {test.to} the test did not come to its end, and either may be at fault: {test.text}"
        fail(told, culprits=_ends(test), observed=test.error or test.ended.value)
    elif test.ended == Ending.STUCK:
        fail(f"the GPU got stuck: {test.text}", observed=test.ended.value)
    elif test.error in SETUP:
        action, why = SETUP[test.error]
        fail(f"the GPU cannot be used: {why} ({test.error})", action=action, observed=test.error)
    elif test.ended != Ending.RAN:
        what = "could not be opened" if test.kind == "open" else "failed under load"
        fail(f"the GPU {what}: {test.text}", observed=test.error)


@check(
    action=Action.REPLACE,
    needs=(ANSWERS, "burnin.completion"),
    source=SDC,
    impact="correctness",
    kinds=("exact", "stress", "pulse", "memory", "hbm", "pcie", "peer", "nccl"),
    ladder=TO_REPLACE,
    aliases=["burnin.no_corruption_is_seen"],
)
def test_corruption(test: BurnTest) -> None:
    """No wrong word was seen.

    What came out wrong twice in the GPU's own arithmetic or memory is the GPU, when run again or
    in another test; once only it is suspect and stays drained. Where the GPU itself told of a
    memory error in it, that is mended by a reset as far as it can be: only then is it known.
    Between GPU and host or two GPUs either end, or what lies between them, may be at fault.
    """
    again = sum(test.mismatches_again)
    if not test.mismatches and not again:
        return
    told = f"{test.mismatches} wrong word{'s' if test.mismatches != 1 else ''} in {test.operations} {test.what}{_first(test)}"
    if test.kind in ENDS:
        blame = f"{told}: {ENDS[test.kind].format(test.to)}"
        fail(
            blame, action=Action.INSPECT, observed=test.mismatches, expected=0, culprits=_ends(test)
        )
    elif event := _memory_event(test):
        fail(f"{told}; {event}: reset the GPU, then run this again", action=Action.RESET_GPU)
    elif test.mismatches and again:
        fail(f"{told}, and {again} when it was run again", observed=test.mismatches, expected=0)
    elif test.wrong_beside:
        tests = f"{test.wrong_beside} other test{'s' if test.wrong_beside > 1 else ''}"
        fail(
            f"{told}, and in {tests} of this GPU words were wrong, too",
            observed=test.mismatches,
            expected=0,
        )
    else:
        once = (
            f"{again} when it was run again"
            if again
            else "none when it was run again"
            if test.mismatches_again
            else "not run again"
        )
        told = f"{told}, {once}: run --level long before anything else does"
        fail(
            told,
            action=Action.INVESTIGATE,
            observed=test.mismatches or again,
            expected=0,
            level="long",
        )


def _memory_event(test: BurnTest) -> str:
    """Return what the GPU told of its memory meanwhile, if anything; what is wrong is wrong where
    that was not read, too.
    """
    if any(pending for _, pending in read([test], "remap_pending")):
        return "a row remap now waits for a reset"
    grown = [amount for _, amounts in read([test], "grown") for amount in amounts]
    return next(
        (
            f"{each.value} {each.label} came with it"
            for each in grown
            if each.label == UNCORRECTABLE
        ),
        "",
    )


def _ends(test: BurnTest) -> tuple[str, ...]:
    """Return both GPUs of a pair: either may be at fault; nothing for a GPU's own test."""
    return (test.gpu, test.to) if test.kind == "peer" else ()


def _first(test: BurnTest) -> str:
    word = next(iter(test.first_mismatches), None)
    if word is None:
        return ""
    return f" (at {word.address}: {word.got} for {word.expected}, second read: {word.second_read})"


@check(
    action=Action.REPLACE,
    needs=(ANSWERS, "burnin.completion", "burnin.corruption"),
    source=f"{ENGINE}: one cubin, one operand, no atomics: every GPU of a model must get the same bits",
    impact="correctness",
    kinds=("stress",),
    aliases=["burnin.agrees_with_the_other_cards"],
)
def test_product_match(test: BurnTest) -> None:
    """The product of random numbers has the same bits on every GPU of this model, and at a second try."""
    got, again = test.hash, test.hash_again
    if again not in ("", got):
        told = f"the product's hash is {got}, and {again} when it was run again: run --level long before anything else does"
        fail(told, action=Action.INVESTIGATE, observed=again, expected=got, level="long")
    elif got != test.common_hash and test.common_hash:
        told = f"the product's hash is {got}, most GPUs have {test.common_hash}"
        if again:
            fail(
                f"{told}, and so it was when it was run again",
                observed=got,
                expected=test.common_hash,
            )
        else:
            once = f"{told}; not run again: run --level long before anything else does"
            fail(
                once,
                action=Action.INVESTIGATE,
                observed=got,
                expected=test.common_hash,
                level="long",
            )
    elif got != test.common_hash:
        told = "no two GPUs get the same product: which of them is right cannot be told"
        fail(told, action=Action.INVESTIGATE, observed=got, level="long")


@check(
    action=Action.INVESTIGATE,
    needs=(ANSWERS, "burnin.completion", "burnin.slowdown"),
    source=f"{ENGINE}: the profile's floors, each with its source",
    impact="performance",
    kinds=SPEEDS,
    aliases=["burnin.reaches_its_floor"],
)
def test_floor(test: BurnTest, profile: Profile) -> None:
    """Every speed reaches the profile's floor, at the second try at least.

    Where all GPUs are slow, look at what they share: driver, power limits, BIOS, or a floor that
    is not this hardware's (`--set burnin.KEY=NUMBER` sets another). Where one is: its seating,
    power and heat. What goes through the host although GPUs should reach each other: NVLink,
    Fabric Manager, IOMMU.
    """
    floors = [(rate, *_floor(rate.label, profile)) for rate in test.rates]
    if floors and not any(floor for _, floor, _ in floors):
        raise NotJudged(f"burnin.{floors[0][0].label}")
    for rate, floor, estimate in floors:
        better = min if rate.label.endswith("_us") else max
        best = better((rate.value, *rate.again))
        if floor and best != floor and better(best, floor) == floor:
            say = warn if estimate else fail
            told = f"{_told(rate)}, the floor is {floor:.10g}{' (an estimate: it only warns)' if estimate else ''}"
            say(told, observed=best, expected=floor, culprits=_ends(test))


def _told(rate: Rate) -> str:
    twice = "".join(f", {again:g} at a second try" for again in rate.again)
    return f"{rate.label}: {rate.value:g} {unit_of(rate.label)}{twice}"


def _floor(label: str, profile: Profile) -> tuple[float, bool]:
    """Return the floor of a rate (0 where the profile has none), and whether it is an estimate."""
    floors = (profile.burnin.get("nccl") or {}) if " " in label else profile.burnin
    held = next((each for each in floor_labels(label) if floors.get(each)), "")
    floor = floors.get(held) if held else None
    return floor or 0.0, ("nccl" if " " in label else held) in profile.burnin.estimates


@check(
    action=Action.INVESTIGATE,
    needs=(ANSWERS, "burnin.completion", "burnin.floor"),
    source="gpu-fryer: an outlier by 10 % fails; ml-engineering: 5 % between GPUs is normal variation",
    impact="performance",
    kinds=("stress", "hbm", "pcie", "peer"),
    aliases=["burnin.keeps_up_with_the_node"],
)
def test_node_median(test: BurnTest, profile: Profile) -> None:
    """No speed lies far below the median of the node's GPUs."""
    for rate in test.rates:
        best = max((rate.value, *rate.again))
        if is_below_median(best, rate.usual):
            # between GPUs the ways differ by design, but through NVSwitches; on PCIe the host is
            # in it, too
            alike = (
                profile.gpu.get("fabric") is True
                if test.kind == "peer"
                else not rate.label.startswith(SHARED)
            )
            say = fail if best < FAIL_SHARE * rate.usual and alike else warn
            below = 100 * (1 - best / rate.usual)
            told = f"{_told(rate)}: {below:.0f} % below this node's median of {rate.usual:g}"
            say(told, observed=best, expected=rate.usual, culprits=_ends(test))


@check(
    action=Action.INSPECT,
    needs=(
        ANSWERS,
        "memory.uncorrectable_ecc",
        "memory.row_remap_pending",
        "burnin.corruption",
    ),
    source="DCGM diagnostics: replays above 80 and 100 CRC errors fail a test, any uncorrectable error and recovery does",
    impact="correctness",
    kinds=("exact", "stress", "pulse", "memory", "hbm", "pcie", "peer"),
    same=("grown",),
    aliases=["burnin.counts_no_errors"],
)
def test_error_counters(test: BurnTest) -> None:
    """No error counter of the GPU rose while the test ran."""
    for amount in test.grown:
        most = MOST.get(amount.label, 0)
        say = fail if amount.value > most else warn
        action = (
            Action.INVESTIGATE
            if "ECC" in amount.label or "rows" in amount.label
            else Action.INSPECT
        )
        say(
            f"{amount.value} {amount.label} in this test",
            action=action,
            observed=amount.value,
            expected=0,
        )


@check(
    action=Action.INVESTIGATE,
    needs=(ANSWERS, "burnin.completion", "xid.faults", "xid.log_coverage"),
    source=f"{ENGINE}: its kernels are known to be right, so what a program may cause elsewhere is the GPU's here",
    kinds=("exact", "stress", "pulse", "memory", "hbm", "pcie", "peer"),
    aliases=["burnin.nothing_is_logged"],
)
def test_kernel_log(test: BurnTest) -> None:
    """The kernel logged nothing of the GPU while the test ran."""
    for line in test.logged[:1]:
        more = f" (and {len(test.logged) - 1} more lines)" if len(test.logged) > 1 else ""
        fail(f"the kernel logged in this test: {line}{more}", observed=list(test.logged))


@check(
    action=Action.INSPECT,
    needs=(ANSWERS, "burnin.completion"),
    source="NVML clocks event reasons; the software power cap at the limit is what full load looks like, and is no fault",
    impact="performance",
    kinds=LOADED,
    aliases=["burnin.is_not_slowed_down"],
)
def test_slowdown(test: BurnTest) -> None:
    """Under load the GPU is held down by nothing but its power limit.

    A flag that only one look of the test showed flashes at a change of clocks, too: that only
    warns.
    """
    load = test.load
    held = {
        "hardware slowdown": load.hw_slowdown,
        "heat (hardware)": load.hw_thermal,
        "heat (software)": load.sw_thermal,
    }
    held["the power brake"] = load.power_brake
    found = [f"{name} {100 * share:.0f} %" for name, share in held.items() if share > SOME]
    if found:
        causes = {"power supplies or the rack's limit": load.power_brake}
        causes["fan, airflow, heat sink or cold plate"] = max(load.hw_thermal, load.sw_thermal)
        where = (
            " and ".join(cause for cause, share in causes.items() if share > SOME)
            or "power or cooling"
        )
        looks = next((slowed for _, slowed in read([load], "slowed")), FLASH + 1)
        say = fail if looks > FLASH else warn
        say(f"slowed down for this share of the test: {', '.join(found)}: {where}", observed=found)


@check(
    action=Action.INSPECT,
    needs=(ANSWERS, "burnin.completion", "burnin.slowdown"),
    source="NVML: the GPU's own limits",
    impact="performance",
    kinds=LOADED,
    aliases=["burnin.stays_below_its_limits"],
)
def test_temperature(test: BurnTest) -> None:
    """Under load core and memory stay below the temperatures that the GPU itself names."""
    load = test.load
    if load.core_c >= load.slowdown_c:
        fail(
            f"the core reached {load.core_c} °C, the GPU slows down at {load.slowdown_c}",
            observed=load.core_c,
        )
    if load.memory_c >= load.memory_max_c:
        fail(
            f"the memory reached {load.memory_c} °C, its limit is {load.memory_max_c}",
            observed=load.memory_c,
        )


@check(
    action=Action.INSPECT,
    needs=(ANSWERS, "burnin.completion", "burnin.slowdown"),
    source=f"{ENGINE}: slots of air-cooled boards differ by 8 to 12 °C",
    impact="performance",
    kinds=("stress",),
    aliases=["burnin.is_as_warm_as_its_siblings"],
)
def test_temperature_spread(test: BurnTest, profile: Profile) -> None:
    """Under load no GPU is much warmer than the median of the node's GPUs."""
    load, most = test.load, profile.limits.burnin_spread_c
    if load.core_c - load.usual_core_c > most:
        warn(
            f"the core reached {load.core_c} °C, the median of the GPUs {load.usual_core_c}",
            observed=load.core_c,
        )


@check(
    action=Action.INVESTIGATE,
    needs=(ANSWERS, "burnin.completion", "burnin.slowdown"),
    source=f"{ENGINE}: bf16 products draw the whole limit on data-centre GPUs",
    impact="performance",
    kinds=("stress",),
    aliases=["burnin.draws_its_power"],
)
def test_power(test: BurnTest, profile: Profile) -> None:
    """Products of random bf16 numbers draw nearly all the power that the GPU may draw."""
    share = profile.burnin.power_share
    if (
        any(rate.label == "gemm_bf16_tflops" for rate in test.rates)
        and test.load.power_w < share * test.load.limit_w
    ):
        told = f"{test.load.power_w:.0f} W of {test.load.limit_w:.0f} on average, {100 * share:.0f} % were expected"
        warn(
            f"bf16 products drew {told}: power delivery, or clocks that something holds down",
            observed=test.load.power_w,
        )


@check(
    action=Action.INSPECT,
    needs=(ANSWERS, "pcie.link_width", "burnin.completion"),
    source="DCGM: the generation is judged under load, as idle GPUs lower it",
    impact="performance",
    kinds=("pcie",),
    aliases=["burnin.link_runs_at_its_generation"],
)
def test_pcie_generation(test: BurnTest, profile: Profile) -> None:
    """While data crosses it, the GPU's PCIe link runs at its generation."""
    now, expected = test.load.pcie_generation, profile.gpu.pcie_generation
    if now < expected:
        fail(
            f"under load the PCIe link runs at generation {now} of {expected}: seating, riser or BIOS",
            observed=now,
            expected=expected,
        )


@check(
    action=Action.INVESTIGATE,
    source="the program's own verdict",
    kinds=("tool",),
    aliases=["burnin.tool_passes"],
)
def test_tools(test: BurnTest) -> None:
    """The other program that was run found nothing wrong.

    What failed there drains the node, also where DCGM's code alone would only be watched: a test
    that CUDA broke off is one.
    """
    action = Action(test.action) if test.action else Action.INVESTIGATE
    if test.ended == Ending.FAILED:
        fail(
            test.text,
            action=action if action.rank >= Action.FIX_CONFIG.rank else Action.INVESTIGATE,
            observed=test.ended.value,
        )
    elif test.ended == Ending.WARNED:
        warn(test.text, action=Action.MONITOR if test.action else action, observed=test.ended.value)
