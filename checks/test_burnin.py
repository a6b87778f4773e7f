"""Burn-in: the GPUs compute, store and move data correctly, at full speed, and stay cool.

Only where `--level` loaded them.
"""

from gpuscan import Action, BurnTest, Profile, Rate, check, fail, read, warn
from gpuscan.burnin.rates import find_floor, is_below_median
from gpuscan.burnin.setup_errors import SETUP_ERRORS
from gpuscan.engine.lens import NotJudged
from gpuscan.engine.measurements import unit_of
from gpuscan.model import Ending
from gpuscan.model.outcome import TO_REPLACE
from gpuscan.text import counted

ANSWERS = "driver.gpu_access"
ENGINE = "gpuscan's burn-in"
SDC = f"{ENGINE}: every word is compared, after an injected flip was found"
COMPUTED = ("exact", "stress", "pulse", "nccl")
SPEEDS = ("stress", "hbm", "pcie", "peer", "nccl", "tool")
LOADED = ("exact", "stress", "pulse")
FAIL_SHARE = 0.90  # of the node's median
UNCORRECTABLE = "uncorrectable ECC errors"
RUN_LONG = "run --level long before using the GPU"
SOME = 0.01  # of the time under load
FLASH = 1  # sample
ENDS = {
    "pcie": "the GPU, the host or the link",
    "peer": "this GPU, {} or what links them",
    "nccl": "a GPU or a link",
}
# the host's memory is part of it, and takes these 8 % up or down from one try to the next
SHARED = ("pcie_both", "pcie_together")
MOST = {  # more than that fails, fewer warn
    "PCIe replays": 80,
    "NVLink replays": 1000,
    "NVLink CRC errors": 100,
    "corrected ECC errors": 100,
    "rows remapped after correctable errors": 8,
}


@check(
    action=Action.RESET_GPU,
    needs=ANSWERS,
    source=f"{ENGINE}: none of its kernels runs longer than a second, and none faults",
    kinds=("open", "exact", "stress", "pulse", "memory", "hbm", "pcie", "peer", "nccl"),
    same=("ended",),
    aliases=["burnin.runs_to_its_end"],
    shows_measurements=True,
)
def test_completion(test: BurnTest) -> None:
    """The test ran to its end: the GPU neither hung nor was lost."""
    if test.ended == Ending.RAN:
        return
    observed = test.error or test.ended.value
    if test.kind == "nccl":
        message = f"the NCCL test did not finish: {test.text}"
        fail(message, action=Action.INVESTIGATE, observed=test.ended.value)
    elif test.kind == "peer":
        pair = f"{test.gpu} or {test.to}"
        message = f"the transfer did not finish, and either {pair} may be at fault: {test.text}"
        fail(message, culprits=_ends(test), observed=observed)
    elif test.ended == Ending.STUCK:
        fail(f"the GPU hung: {test.text}", observed=test.ended.value)
    elif setup := SETUP_ERRORS.get(test.error):
        message = f"the GPU cannot be used: {setup.cause} ({test.error})"
        fail(message, action=setup.action, observed=test.error)
    else:
        what = "could not be opened" if test.kind == "open" else "failed under load"
        fail(f"the GPU {what}: {test.text}", observed=test.error)


@check(
    action=Action.REPLACE,
    needs=(ANSWERS, "burnin.completion"),
    eased_by=("memory.row_remap_pending", "memory.uncorrectable_ecc"),
    source=SDC,
    impact="correctness",
    kinds=("exact", "stress", "pulse", "memory", "hbm", "pcie", "peer", "nccl"),
    ladder=TO_REPLACE,
    aliases=["burnin.no_corruption_is_seen"],
    finds_corruption=True,
)
def test_corruption(test: BurnTest) -> None:
    """The test found no mismatch.

    A GPU whose own arithmetic or memory is wrong twice, in a repetition or in another test, is
    faulty; wrong once, it is suspect and stays drained. Where the GPU counted a memory error
    meanwhile, a reset repairs it as far as possible, and only then can it be judged. In a transfer
    either end, or what lies between, may be at fault.
    """
    again = sum(test.mismatches_again)
    if not test.mismatches and not again:
        return
    plural = "es" if test.mismatches != 1 else ""
    seen = f"{test.mismatches} mismatch{plural} in {test.operations} {test.what}{_first(test)}"
    count = test.mismatches
    if test.kind in ENDS:
        message = f"{seen}: {ENDS[test.kind].format(test.to)}"
        fail(message, action=Action.INSPECT, culprits=_ends(test), observed=count, expected=0)
    elif event := _memory_event(test):
        fail(f"{seen}; {event}: reset the GPU, then run this again", action=Action.RESET_GPU)
    elif test.mismatches and again:
        fail(f"{seen}, and {again} when it was run again", observed=count, expected=0)
    elif test.wrong_beside:
        fail(
            f"{seen}, and {counted(test.wrong_beside, 'other test')} of this GPU found some",
            observed=count,
            expected=0,
        )
    else:
        message = f"{seen}, {_repetition(test)}: {RUN_LONG}"
        observed = test.mismatches or again
        suspect = Action.INVESTIGATE
        fail(message, action=suspect, observed=observed, expected=0, level="long")


def _repetition(test: BurnTest) -> str:
    if not test.mismatches_again:
        return "not run again"
    return f"{sum(test.mismatches_again) or 'none'} when it was run again"


def _memory_event(test: BurnTest) -> str:
    """Return what the GPU reported of its memory meanwhile, if anything was read."""
    if any(pending for _, pending in read([test], "remap_pending")):
        return "a row remap now waits for a reset"
    grown = [amount for _, amounts in read([test], "grown") for amount in amounts]
    events = [
        f"{amount.value} {amount.label} came with it"
        for amount in grown
        if amount.label == UNCORRECTABLE
    ]
    return events[0] if events else ""


def _ends(test: BurnTest) -> tuple[str, ...]:
    """Return both GPUs of a pair, as either may be at fault; nothing for other tests."""
    return (test.gpu, test.to) if test.kind == "peer" else ()


def _first(test: BurnTest) -> str:
    for word in test.first_mismatches:
        place = f"at {word.address}: {word.got} for {word.expected}"
        return f" ({place}, second read: {word.second_read})"
    return ""


@check(
    action=Action.REPLACE,
    needs=(ANSWERS, "burnin.completion", "burnin.corruption"),
    source=f"{ENGINE}: same code and operands, no atomics: all GPUs of a model get the same bits",
    impact="correctness",
    kinds=("stress",),
    aliases=["burnin.agrees_with_the_other_cards"],
    finds_corruption=True,
)
def test_product_match(test: BurnTest) -> None:
    """The product of random numbers has the same bits on all GPUs, and when repeated."""
    got, again = test.hash, test.hash_again
    suspect = Action.INVESTIGATE
    if again not in ("", got):
        message = f"the product's hash is {got}, and {again} when it was run again: {RUN_LONG}"
        fail(message, action=suspect, observed=again, expected=got, level="long")
        return
    common = test.common_hash  # not recorded for one GPU alone, which ends the check
    if got != common and not common:
        message = "no two GPUs computed the same product, so none is known to be right"
        fail(message, action=suspect, observed=got, level="long")
    elif got != common and again:
        message = f"the product's hash is {got} in both runs, most GPUs have {common}"
        fail(message, observed=got, expected=common)
    elif got != common:
        message = f"the product's hash is {got}, most GPUs have {common}; not run again: {RUN_LONG}"
        fail(message, action=suspect, observed=got, expected=common, level="long")


@check(
    action=Action.INVESTIGATE,
    needs=(ANSWERS, "burnin.completion", "burnin.slowdown"),
    source=f"{ENGINE}: the profile's floors, each with its source",
    impact="performance",
    kinds=SPEEDS,
    aliases=["burnin.reaches_its_floor"],
)
def test_floor(test: BurnTest, profile: Profile) -> None:
    """Every rate reaches the profile's floor, at the second try at the latest.

    Where all GPUs are slow, look at what they share: driver, power limits, BIOS, or a floor that
    is not this hardware's (`--set burnin.KEY=NUMBER` sets another). Where one is, look at its
    seating, power and cooling. Where GPUs reach each other only through the host: NVLink, Fabric
    Manager, IOMMU.
    """
    floors = [(rate, *find_floor(rate.label, profile.burnin)) for rate in test.rates]
    if floors and not any(floor for _, floor, _ in floors):
        raise NotJudged(f"burnin.{floors[0][0].label}")
    for rate, floor, estimate in floors:
        better = min if rate.label.endswith("_us") else max
        best = better((rate.value, *rate.again))
        if floor and best != floor and better(best, floor) == floor:
            say = warn if estimate else fail
            note = " (an estimate: it only warns)" if estimate else ""
            message = f"{_format(rate)}, the floor is {floor:.10g}{note}"
            say(message, observed=best, expected=floor, culprits=_ends(test))


def _format(rate: Rate) -> str:
    second = "".join(f", {again:g} at a second try" for again in rate.again)
    return f"{rate.label}: {rate.value:g} {unit_of(rate.label)}{second}"


@check(
    action=Action.INVESTIGATE,
    needs=(ANSWERS, "burnin.completion", "burnin.floor"),
    source="gpu-fryer: 10 % off fails; ml-engineering: 5 % between GPUs is normal",
    impact="performance",
    kinds=("stress", "hbm", "pcie", "peer"),
    aliases=["burnin.keeps_up_with_the_node"],
)
def test_node_median(test: BurnTest, profile: Profile) -> None:
    """No rate is far below the median of the node's GPUs."""
    for rate in test.rates:
        best = max((rate.value, *rate.again))
        if is_below_median(best, rate.usual):
            alike = not rate.label.startswith(SHARED)
            if test.kind == "peer":  # without NVSwitches some pairs are slower by design
                alike = profile.gpu.get("fabric") is True
            say = fail if best < FAIL_SHARE * rate.usual and alike else warn
            below = 100 * (1 - best / rate.usual)
            message = f"{_format(rate)}: {below:.0f} % below this node's median of {rate.usual:g}"
            say(message, observed=best, expected=rate.usual, culprits=_ends(test))


@check(
    action=Action.INSPECT,
    needs=(
        ANSWERS,
        "memory.uncorrectable_ecc",
        "memory.row_remap_pending",
        "burnin.corruption",
    ),
    source="DCGM diagnostics: above 80 replays, above 100 CRC errors, any uncorrectable error",
    impact="correctness",
    kinds=("exact", "stress", "pulse", "memory", "hbm", "pcie", "peer"),
    same=("grown",),
    aliases=["burnin.counts_no_errors"],
)
def test_error_counters(test: BurnTest) -> None:
    """No error counter of the GPU rose during the test."""
    for amount in test.grown:
        memory = "ECC" in amount.label or "rows" in amount.label
        action = Action.INVESTIGATE if memory else Action.INSPECT
        say = fail if amount.value > MOST.get(amount.label, 0) else warn
        message = f"{amount.value} {amount.label} in this test"
        say(message, action=action, observed=amount.value, expected=0)


@check(
    action=Action.INVESTIGATE,
    needs=(ANSWERS, "burnin.completion", "xid.faults", "xid.log_coverage"),
    source=f"{ENGINE}: its kernels are known to be right, so errors are not the program's",
    kinds=("exact", "stress", "pulse", "memory", "hbm", "pcie", "peer"),
    aliases=["burnin.nothing_is_logged"],
)
def test_kernel_log(test: BurnTest) -> None:
    """The kernel logged nothing about the GPU during the test."""
    for line in test.logged[:1]:
        others = len(test.logged) - 1
        more = f" (and {counted(others, 'more line')})" if others else ""
        fail(f"the kernel logged in this test: {line}{more}", observed=list(test.logged))


@check(
    action=Action.INSPECT,
    needs=(ANSWERS, "burnin.completion"),
    source="NVML clocks event reasons; the software power cap is normal under full load",
    impact="performance",
    kinds=LOADED,
    aliases=["burnin.is_not_slowed_down"],
)
def test_slowdown(test: BurnTest) -> None:
    """Under load nothing but the power limit slows the GPU down.

    A flag seen in one sample only may come from a change of clocks, and only warns.
    """
    load = test.load
    shares = {
        "hardware slowdown": load.hw_slowdown,
        "heat (hardware)": load.hw_thermal,
        "heat (software)": load.sw_thermal,
        "the power brake": load.power_brake,
    }
    slowed = [f"{name} {100 * share:.0f} %" for name, share in shares.items() if share > SOME]
    if not slowed:
        return
    causes = []
    if load.power_brake > SOME:
        causes.append("power supplies or the rack's limit")
    if max(load.hw_thermal, load.sw_thermal) > SOME:
        causes.append("fan, airflow, heat sink or cold plate")
    where = " and ".join(causes) or "power or cooling"
    samples = [count for _, count in read([load], "slowed")] or [FLASH + 1]
    say = fail if samples[0] > FLASH else warn
    say(f"slowed down for this share of the test: {', '.join(slowed)}: {where}", observed=slowed)


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
    share, load = profile.burnin.power_share, test.load
    if not any(rate.label == "gemm_bf16_tflops" for rate in test.rates):
        return
    if load.power_w < share * load.limit_w:
        drawn = f"{load.power_w:.0f} W of {load.limit_w:.0f} on average"
        message = f"bf16 products drew {drawn}, at least {100 * share:.0f} % were expected"
        warn(f"{message}: check power delivery and clocks", observed=load.power_w)


@check(
    action=Action.INSPECT,
    needs=(ANSWERS, "pcie.link_width", "burnin.completion"),
    source="DCGM: the generation is judged under load, as idle GPUs lower it",
    impact="performance",
    kinds=("pcie",),
    aliases=["burnin.link_runs_at_its_generation"],
)
def test_pcie_generation(test: BurnTest, profile: Profile) -> None:
    """Under load the GPU's PCIe link runs at its full generation."""
    now, expected = test.load.pcie_generation, profile.gpu.pcie_generation
    if now < expected:
        message = f"under load the PCIe link runs at generation {now} of {expected}"
        fail(f"{message}: check seating, riser and BIOS", observed=now, expected=expected)


@check(
    action=Action.INVESTIGATE,
    source="the program's own verdict",
    kinds=("tool",),
    aliases=["burnin.tool_passes"],
)
def test_tools(test: BurnTest) -> None:
    """The other program found nothing wrong.

    What it failed drains the node, even where DCGM's code alone would only be monitored.
    """
    action = Action(test.action) if test.action else Action.INVESTIGATE
    if test.ended == Ending.FAILED:
        drains = action.rank >= Action.FIX_CONFIG.rank
        action = action if drains else Action.INVESTIGATE
        fail(test.text, action=action, observed=test.ended.value)
    elif test.ended == Ending.WARNED:
        action = Action.MONITOR if test.action else action
        warn(test.text, action=action, observed=test.ended.value)
