"""What diagnostic programs print, pasted: healthy, faulty in several ways, cut after any line, and
behind a prompt.
"""

from __future__ import annotations

import json

import pytest
from pasted import (
    Pasted,
    judge,
    wrongly_cut,
    wrongly_disturbed,
    wrongly_judged,
    wrongly_prompted,
)

RULE = f"+{'-' * 27}+{'-' * 48}+\n"
TOP = f"{RULE}| Diagnostic                | Result{' ' * 41}|\n+{'=' * 27}+{'=' * 48}+\n"
SENTENCE = (
    "GPU {} had uncorrectable memory errors and row remapping failed. Run a field diagnostic."
)


def row(left: str, right: str = "") -> str:
    return f"| {left:<26}| {right:<47}|\n"


def section(name: str) -> str:
    return f"+-----  {name:<11}-------+{'-' * 48}+\n".replace(f"{name} ", f"{name}  ", 1)


def message(grade: str, text: str) -> str:
    """Write a message as the table does: cut after 45 characters, also inside a word."""
    chunks = [text[at : at + 45] for at in range(0, len(text), 45)]
    return "".join(row(grade if not at else "", chunk) for at, chunk in enumerate(chunks))


def table3(*hardware: str, software: str = "Pass", whole: bool = True) -> str:
    """Write DCGM 3's table."""
    return (
        "Successfully ran diagnostic for group.\n"
        + TOP
        + section("Metadata")
        + row("DCGM Version", "3.3.5")
        + row("Driver Version Detected", "550.54.15")
        + row("GPU Device IDs Detected", "20b5,20b5")
        + section("Deployment")
        + row("Denylist", "Pass")
        + row("NVML Library", software)
        + row("Page Retirement/Row Remap", "Pass")
        + section("Hardware")
        + "".join(hardware)
        + (RULE if whole else "")
    )


def test4(name: str, *words: str) -> str:
    worst = next((word for word in ("Fail", "Warn", "Skip") if word in words), "Pass")
    gpus = "".join(row("", f"GPU{index}: {word}") for index, word in enumerate(words))
    return row(name, worst) + gpus


test4.__test__ = False  # type: ignore[attr-defined]


def table4(*hardware: str) -> str:
    """Write DCGM 4's table."""
    return (
        "Successfully ran diagnostic for group.\n"
        + TOP
        + section("Metadata")
        + row("DCGM Version", "4.4.2")
        + row("GPU Device IDs Detected", "2335, 2335")
        + section("Deployment")
        + test4("software", "Pass", "Pass")
        + section("Hardware")
        + "".join(hardware)
        + RULE
    )


def diag_json(root: str, *results: dict[str, object]) -> str:
    tests = [{"name": "memory", "results": list(results), "test_summary": {"status": "Pass"}}]
    categories = [{"category": "Hardware", "tests": tests}]
    return json.dumps({root: {"test_categories": categories}, "version": "4.2.3"}, indent=2) + "\n"


def result(gpu: int, status: str = "Pass", *codes: int) -> dict[str, object]:
    warnings = [{"warning": f"GPU {gpu}: something", "error_id": code} for code in codes]
    return {"entity_group": "GPU", "entity_id": gpu, "status": status, "warnings": warnings}


DIAG = {
    "3, healthy": Pasted(table3(row("GPU Memory", "Pass - All"), row("Diagnostic", "Skip - All")), 0),
    "3, one GPU": Pasted(
        table3(row("GPU Memory", "Fail - GPU: 1"), row("", "Pass - GPU: 0")), 20, "Fail - GPU", ("GPU 1",)
    ),
    "3, remap failed": Pasted(
        table3(row("GPU Memory", "Fail - GPU: 3"), message("Warning", SENTENCE.format(3))),
        41,
        "Fail - GPU",
        ("GPU 3", "ROW_REMAP_FAILURE"),
    ),
    "3, a page pending": Pasted(
        table3(
            row("GPU Memory", "Fail - All"),
            message("Warning", "GPU 5A pending retired page has been detected in GPU 5."),
        ),
        30,
        "Fail - All",
        ("GPU 5",),
    ),
    "3, software": Pasted(table3(software="Fail"), 20, "| Fail", ("NVML Library",)),
    "3, warned": Pasted(
        table3(row("PCIe", "Warn - GPU: 0"), message("Warning", "GPU 0 is slow to answer, somehow.")), 0
    ),
    "3, faulty memory": Pasted(
        table3(row("Memtest", "Fail - GPU: 2"), message("Warning", "Found 12 faulty memory elements on GPU 2")),
        40,
        "Fail - GPU",
        ("GPU 2",),
    ),
    "4, healthy": Pasted(table4(test4("memory", "Pass", "Pass"), test4("pcie", "Skip", "Skip")), 0),
    "4, one GPU": Pasted(table4(test4("memory", "Pass", "Fail")), 20, "Fail", ("memory GPU 1",)),
    "4, ECC": Pasted(
        table4(test4("memory", "Fail", "Pass"), message("Warning: GPU0", SENTENCE.format(0))), 41, "Fail", ("GPU 0",)
    ),
    "4, stress": Pasted(
        table4(test4("targeted_power", "Fail", "Fail"), message("Warning: GPU1", "GPU 1 only reached 300 W")),
        20,
        "Fail",
        ("GPU 0", "GPU 1"),
    ),
    "JSON 4, healthy": Pasted(diag_json("DCGM Diagnostic", result(0), result(1)), 0),
    "JSON 4, remap": Pasted(diag_json("DCGM Diagnostic", result(0), result(1, "Fail", 80)), 41, '"Fail"', ("GPU 1",)),
    "JSON 4, bus": Pasted(diag_json("DCGM Diagnostic", result(6, "Fail", 120)), 30, '"Fail"', ("GPU 6",)),
    "JSON 3, persistence": Pasted(diag_json("DCGM GPU Diagnostic", result(0, "Fail", 29)), 20, '"Fail"', ("GPU 0",)),
    "no service": Pasted("Error: Unable to complete diagnostic for group 2147483647. Return: (-21) host\n", 3),
}  # fmt: skip


def health(overall: str, *rows: tuple[str, str]) -> str:
    """Write `dcgmi health -c`."""
    rule = f"+{'-' * 27}+{'-' * 58}+\n"
    cells = "".join(f"| {left:<26}| {right:<57}|\n" for left, right in rows)
    head = f"{rule}| Health Monitor Report{' ' * 64}|\n+{'=' * 27}+{'=' * 58}+\n"
    return f"{head}| Overall Health            | {overall:<57}|\n{cells}{rule}"


def incident(gpu: int, system: str, grade: str, *words: str) -> list[tuple[str, str]]:
    told = [("", each) for each in words]
    return [
        ("GPU", ""), (f"-> {gpu}", grade), ("   -> Errors", ""), (f"      -> {system}", grade), *told
    ]  # fmt: skip


REPLAYS = ("Detected more than 8 PCIe replays per minute for GPU", "0 : 13 Reconnect PCIe card.")
HEALTH = {
    "healthy": Pasted(health("Healthy"), 0),
    "replays warn": Pasted(health("Warning", *incident(0, "PCIe system", "Warning", *REPLAYS)), 0),
    "remap pending": Pasted(
        health("Warning", *incident(2, "Memory system", "Warning", "GPU 2 had memory errors and row remappings are", "pending")),
        30,
        "pending",
        ("GPU 2", "Memory system"),
    ),
    "remap failed": Pasted(
        health("Failure", *incident(1, "Memory system", "Failure", "GPU 1 had uncorrectable memory errors and row", "remapping failed.")),
        41,
        "Failure",
        ("GPU 1",),
    ),
    "failure untold": Pasted(health("Failure"), 20, "Failure"),
    "warning untold": Pasted(health("Warning"), 3),
    "thermal": Pasted(health("Failure", *incident(7, "Thermal system", "Failure", "too hot")), 20, "Failure", ("GPU 7",)),
    "not watched": Pasted("Error: Health watches not enabled. Please enable watches. \n", 3),
}  # fmt: skip


def nccl(wrong: str = "0", bounds: str = "0 OK", header: str = "#wrong", op: str = "") -> str:
    rows = "".join(
        f"{size:>12} {size // 4:>12}     float     sum      -1    {size / 3e8:.2f}   60.11  105.20      {wrong}"
        f"    {size / 3e8:.2f}   60.22  105.39      0\n"
        for size in (1 << 20, 1 << 30)
    )
    ranks = "".join(
        f"#  Rank  {n} Group  0 Pid  77{n} on node01 device  {n} [0x1{n}] NVIDIA H200\n"
        for n in range(8)
    )
    return (
        f"{op}# nThread 1 nGpus 8 minBytes 1048576 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20"
        " agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
        f"{ranks}#\n#{' ' * 60}out-of-place                       in-place          \n"
        f"#       size         count      type   redop    root     time   algbw   busbw {header}     time   algbw   busbw {header}\n"
        f"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
        f"{rows}# Out of bounds values : {bounds}\n# Avg bus bandwidth    : 105.3 \n#\n"
    )


NCCL = {
    "healthy": Pasted(nccl(), 0),
    "healthy, named": Pasted(nccl(op="# Collective test starting: all_reduce_perf\n"), 0),
    "wrong": Pasted(nccl("12", "24 FAILED"), 20, "   12 ", ("24 values",)),
    "wrong, by the sum alone": Pasted(nccl(bounds="50 FAILED"), 20, "50 FAILED", ("50 values",)),
    "wrong, an old table": Pasted(nccl("2e+00", "50 FAILED", "error"), 20, "50 FAILED"),
    "nothing compared": Pasted(nccl().replace("validation: 1", "validation: 0"), 3),
}  # fmt: skip


def burn(
    *words: str, errors: str = "0 - 0 ", work: str = "900 (51234 Gflop/s) - 880 (50111 Gflop/s) "
) -> str:
    """Write gpu_burn's output for two GPUs; words are those of its end."""
    gpus = "".join(
        f"GPU {n}: NVIDIA H200 (UUID: GPU-1000000{n}-0000-4000-8000-000000000000)\n" for n in (0, 1)
    )
    end = "".join(f"\tGPU {n}: {word}\n" for n, word in enumerate(words))
    return (
        f"{gpus}Initialized device 0 with 143771 MB of memory (143000 MB available), using FLOATS\n"
        "10.0%  proc'd: 100 (51000 Gflop/s) - 100 (50000 Gflop/s)   errors: 0 - 0   temps: 50 C - 51 C \n"
        f"100.0%  proc'd: {work}  errors: {errors}  temps: 60 C - 61 C \n"
        f"Killing processes with SIGTERM (soft kill)\ndone\n\nTested {len(words)} GPUs:\n{end}"
    )


BURN = {
    "healthy": Pasted(burn("OK", "OK"), 0),
    "faulty": Pasted(burn("OK", "FAULTY", errors="0 - 12  (WARNING!)"), 40, "12  (WARNING!)", ("GPU 1",)),
    "faulty, uncounted": Pasted(burn("FAULTY", "OK"), 20, "FAULTY", ("GPU 0",)),
    "one died": Pasted(
        burn("OK", "OK", errors="0 - -1  (DIED!)", work="900 (51234 Gflop/s) - -1 (0 Gflop/s) "),
        20,
        "DIED",
        ("GPU 1",),
    ),
    "all died": Pasted(burn().partition("10.0%")[0] + "No clients are alive!  Aborting\n", 20, "No clients"),
    "did nothing": Pasted(burn("OK", "OK", work="0 (0 Gflop/s) - 0 (0 Gflop/s) ").replace("100 (", "0 ("), 3),
}  # fmt: skip


def bandwidth(*cases: str) -> str:
    devices = "".join(f"Device {n}: NVIDIA H200 (00000000:{n + 1}8:00)\n" for n in range(2))
    return (
        "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\nCUDA Runtime Version: 12080\n"
        f"CUDA Driver Version: 12080\nDriver Version: 570.86.10\n\n{devices}\n" + "".join(cases)
    )


def row_of(name: str, *values: str) -> str:
    return (
        f"Running {name}.\nmemcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n           0         1\n"
        f" 0     {'     '.join(values)}\n\nSUM {name} 110.5\n\n"
    )


SQUARE = (
    "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
    "           0         1\n 0       N/A    381.20\n 1    380.90       N/A\n\n"
    "SUM device_to_device_memcpy_read_ce 762.10\n\n"
)
BANDWIDTH = {
    "healthy": Pasted(bandwidth(row_of("host_to_device_memcpy_ce", "55.36", "55.14"), SQUARE), 0),
    "wrong data": Pasted(
        bandwidth("Running host_to_device_memcpy_ce.\nInvalid value when checking the pattern at <0x7f00>\n"),
        20,
        "Invalid value",
        ("host_to_device_memcpy_ce",),
    ),
    "CUDA failed": Pasted(
        bandwidth("Running multinode_device_to_device_memcpy_read_ce.\n[CUDA_ERROR_NOT_PERMITTED] operation not permitted in cuMemCreate\n"),
        20,
        "CUDA_ERROR",
        ("multinode",),
    ),
    "cut in a table": Pasted(bandwidth(SQUARE).partition(" 1    380")[0], 3),
    "JSON, healthy": Pasted(
        json.dumps({"nvbandwidth": {"testcases": [{"name": "device_local_copy", "status": "Passed", "bandwidth_matrix": [["1800.1"]]}]}}, indent=1),
        0,
    ),
    "JSON, error": Pasted(
        json.dumps({"nvbandwidth": {"testcases": [{"name": "device_local_copy", "status": "Error", "error": "CUDA_ERROR_UNKNOWN"}]}}, indent=1),
        20,
        "Error",
    ),
}  # fmt: skip
LINE = "-" * 87 + "\n"
PERFTEST = {
    "healthy": Pasted(
        f"{LINE}                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_4\n Link type       : IB\n{LINE}"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 1048576    94380            0.00               395.87             0.047191\n{LINE}",
        0,
    ),
    "measured nothing": Pasted(f"{LINE}                    RDMA_Write BW Test\nCouldn't connect to 10.0.0.1:18515\n", 3),
}  # fmt: skip
KINDS = {
    "dcgmi diag": DIAG,
    "dcgmi health -c": HEALTH,
    "all_reduce_perf -g 8": NCCL,
    "gpu_burn 60": BURN,
    "nvbandwidth": BANDWIDTH,
    "ib_write_bw": PERFTEST,
}
ALL = [pytest.param(command, case, id=f"{command}: {name}")
       for command, cases in KINDS.items() for name, case in cases.items()]  # fmt: skip


@pytest.mark.parametrize(("command", "case"), ALL)
def test_a_text_is_judged(command: str, case: Pasted) -> None:
    assert not wrongly_judged(case)


@pytest.mark.sweep
@pytest.mark.parametrize(("command", "case"), ALL)
def test_a_text_that_was_cut_off_never_passes_with_its_fault(command: str, case: Pasted) -> None:
    assert wrongly_cut(case) == []


@pytest.mark.sweep
@pytest.mark.parametrize(("command", "case"), ALL)
def test_a_strange_line_within_a_text_hides_no_fault(command: str, case: Pasted) -> None:
    assert wrongly_disturbed(case) == []


@pytest.mark.sweep
@pytest.mark.parametrize(("command", "case"), ALL)
def test_what_stands_before_a_text_changes_nothing(command: str, case: Pasted) -> None:
    assert wrongly_prompted(case, command) == []


def test_two_outputs_of_one_program_are_both_judged() -> None:
    healthy, wrong = NCCL["healthy"].text, NCCL["wrong"].text
    for both in (
        f"{healthy}$ all_reduce_perf -g 8\n{wrong}",
        f"{wrong}$ all_reduce_perf\n{healthy}",
    ):
        assert judge(both).code == 20
