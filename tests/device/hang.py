"""gpuscan with a kernel that never ends in the place of the memory's speed test: a drill of a stuck
GPU. Takes the command's own words.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from gpuscan.__main__ import main  # noqa: E402
from gpuscan.burnin import levels  # noqa: E402

QUICK = levels.TIMES["quick"]._replace(exact=1, stress=1, fp8=1, others=1)
make = levels.make_steps


def with_a_hang(gpus, times):  # type: ignore[no-untyped-def]
    for step in make(gpus, times):
        yield step._replace(options={"test": "hang"}) if step.name == "hbm" else step


if __name__ == "__main__":
    from gpuscan.burnin import plan

    levels.TIMES["quick"] = QUICK
    plan.make_steps = with_a_hang  # type: ignore[attr-defined]
    main()
