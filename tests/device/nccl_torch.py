"""PyTorch's all-reduce on the GPUs of this host, for comparison: bus bandwidth in GB/s of 1 GiB."""

from __future__ import annotations

import os

SIZE = 1 << 30


def main() -> None:
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    import torch

    gpus = range(torch.cuda.device_count())
    whole = [torch.ones(SIZE // 4, dtype=torch.float32, device=f"cuda:{gpu}") for gpu in gpus]
    times_s = []
    for _ in range(20):
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.device(0):
            first.record()
            torch.cuda.nccl.all_reduce(whole, whole)
            last.record()
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
        times_s.append(first.elapsed_time(last) / 1000)
    median_s = sorted(times_s)[len(times_s) // 2]
    busbw_gbps = SIZE / median_s * 2 * (len(gpus) - 1) / len(gpus) / 1e9  # as nccl-tests counts it
    print(
        f"PyTorch {torch.__version__}: all-reduce of 1 GiB on {len(gpus)} GPUs: {busbw_gbps:.1f}"
        " GB/s"
    )


if __name__ == "__main__":
    main()
