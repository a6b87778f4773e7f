"""The package's contract: imports point one way without circles, the root stays small, and one
door leads to the machine.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from paths import ROOT

PACKAGE = ROOT / "gpuscan"
MOST_AT_ROOT = 12
# Rooms and root modules from top to bottom: each imports only from those below it, and those of one
# line do not import each other. `room.module` takes a part out of its room: what a burn-in's
# results mean is known to collectors, which know nothing of running one.
ORDER = (
    "__main__ pytest_plugin",
    "cli",
    "swap",
    "tickets",
    "burnin burnin.tools.run",
    "state",
    "renderers",
    "live",
    "engine",
    "importers",
    "profile",
    "collectors",
    "burnin.rates burnin.merging burnin.results burnin.sampling burnin.tools",
    "recording",
    "incidents",
    "kernellog",
    "catalogue",
    "model",
    "files",
    "paths",
    "durations table pci",
    "errors",
    "spelling text",
)
FACADE = "gpuscan"  # what check authors import: names of several rooms, loaded when first used

TOUCHING_MODULES = {"pynvml", "psutil", "subprocess", "ctypes", "multiprocessing"}
STARTING = re.compile(r"system|popen|exec[lv]\w*|spawn\w+|posix_spawnp?|fork(pty)?")
OPENING = {"open", "listdir", "scandir", "readlink", "exists", "isdir", "isfile", "stat", "Path"}
OPENING |= {"open_input", "open_trusted", "read_input"}
# but for the streams of the process itself
MACHINE_PATH = re.compile(r"/?(proc|sys|dev)/(?!std(in|out|err)$|(self/)?fd/$)")
WORKERS = {  # they run in a process of their own, or look at one
    "gpuscan.burnin.tools.run",
    "gpuscan.burnin.worker.nccl",
    "gpuscan.burnin.worker.transfers",
}
BOOT_ID_READER = "gpuscan.state.whoami"  # `status` has no time to start a child for four files
Graph = Mapping[str, frozenset[str]]


def module_of(path: Path) -> str:
    """Return a file's module: `gpuscan.engine.lens`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports() -> Graph:
    """Return what each module of the package imports of it, at its top or inside functions."""
    paths = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {
        module: frozenset(_imported(ast.parse(path.read_text("utf-8")), paths)) - {module}
        for module, path in paths.items()
    }


def _imported(tree: ast.Module, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in known:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in known else node.module


def room_of(module: str) -> str:
    """Return a module's room, or the module itself at the package's root."""
    return module.split(".")[1]


def floor_of(module: str) -> int:
    """Return a module's line in ORDER; of several names that fit, the longest counts."""
    places = [
        (len(name), floor)
        for floor, names in enumerate(ORDER)
        for name in names.split()
        if f"{module}.".startswith(f"gpuscan.{name}.")
    ]
    assert places, f"{module}: its room is not in ORDER of tests/test_architecture.py"
    return max(places)[1]


def upward(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield each import that points up, or to a neighbour on the same line."""
    for module, targets in graph.items():
        for target in sorted(targets - {FACADE}) if module != FACADE else ():
            floor, below = floor_of(module), floor_of(target)
            if room_of(module) != room_of(target) and below <= floor:
                yield module, target


def circle(graph: Graph) -> list[str]:
    """Return the modules of one import circle, or nothing where there is none."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for target in sorted(graph[module] - {FACADE}):
            found = walk(target, [*path, module])
            if found:
                return found
        done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := walk(module, []))), [])


def test_imports_point_down() -> None:
    wrong = list(upward(imports()))
    told = "\n".join(f"  {module} imports {target}" for module, target in wrong)
    advice = "move what both need into a room below, or hand it in as an argument"
    assert not wrong, f"imports against the order of the rooms ({advice}):\n{told}"


def test_imports_make_no_circle() -> None:
    found = circle({module: targets for module, targets in imports().items() if module != FACADE})
    assert not found, f"an import circle: {' -> '.join(found)}"


def test_a_circle_and_an_upward_import_are_noticed() -> None:
    a, b, c = "gpuscan.model.a", "gpuscan.cli.b", "gpuscan.model.c"
    graph = {a: frozenset({b}), b: frozenset({c}), c: frozenset({a})}
    assert circle(graph) == [b, c, a, b]
    assert list(upward(graph)) == [(a, b)]
    assert circle({a: frozenset({c}), c: frozenset()}) == []


def test_the_root_of_the_package_is_small() -> None:
    modules = sorted(path.name for path in PACKAGE.glob("*.py"))
    assert len(modules) <= MOST_AT_ROOT, f"put new modules into a room: {modules}"


def touches(tree: ast.Module) -> set[str]:
    """Return how a module touches the machine: what it imports, starts, or opens."""
    nodes = list(ast.walk(tree))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    paths = {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and MACHINE_PATH.match(node.value)
    }
    ways = {module for module in modules if module.partition(".")[0] in TOUCHING_MODULES}
    ways |= {name for name in names if STARTING.fullmatch(name)}
    return ways | (paths if names & OPENING else set())


def test_one_door_leads_to_the_machine() -> None:
    """Only the live room and the burn-in's workers touch the machine. Other rooms may name its
    paths, in the keys that they plan, but then open no file.
    """
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "checks").rglob("*.py")]
    found = {module_of(path): touches(ast.parse(path.read_text("utf-8"))) for path in files}
    live = {module for module in found if module.startswith("gpuscan.live.")}
    outside = {module: ways for module, ways in found.items() if module not in live | WORKERS}
    assert outside.pop(BOOT_ID_READER), "it need not be exempt any more"
    assert {module: ways for module, ways in outside.items() if ways} == {}
    assert all(found[module] for module in WORKERS), "they need not be exempt any more"


@pytest.mark.parametrize(
    "source",
    [
        "import psutil",
        "def f(): from subprocess import run",
        "import os\nos.fork()",
        "import os\nos.execve('/bin/true', [], {})",
        "PCI = '/sys/bus/pci'\ndef f(): return open(PCI)",
        "import os\nos.listdir(os.path.join('/', 'proc/driver'))",
    ],
)
def test_touching_the_machine_is_noticed(source: str) -> None:
    assert touches(ast.parse(source))


def test_planning_a_key_touches_nothing() -> None:
    assert not touches(ast.parse("KEY = 'file:/proc/cpuinfo'\nPCI = '/sys/bus/pci'"))
