"""The only door to the machine: children are forked early, asked in order, and never waited for."""

import os
from typing import NamedTuple


class Child(NamedTuple):
    """A forked reader: its process and the two ends of its pipes that the parent holds."""

    kind: str
    pid: int
    requests: int
    answers: int


def spawn(kind: str) -> Child:
    """Fork a reader (`host` or `nvml`). Cheap on purpose: it is done before anything heavy is imported."""
    their_requests, requests = os.pipe()
    answers, their_answers = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(requests)
        os.close(answers)
        from gpuscan.source.child import run_child

        run_child(kind, their_requests, their_answers)
    os.close(their_requests)
    os.close(their_answers)
    os.set_blocking(requests, False)
    os.set_blocking(answers, False)
    return Child(kind, pid, requests, answers)


def spawn_all() -> dict[str, Child]:
    """Fork both readers."""
    return {kind: spawn(kind) for kind in ("nvml", "host")}
