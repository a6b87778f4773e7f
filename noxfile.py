"""The project's tasks, each in an environment of its own; `nox --list` shows them."""

import glob
import os
import re
import tempfile

import nox

PROJECT = nox.project.load_toml("pyproject.toml")
EXTRAS = PROJECT["project"]["optional-dependencies"]
PYTHONS = nox.project.python_versions(PROJECT)
SLOW = "sweep or burnin or laws or system or contrib"

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = False  # the matrix lists those it lacks


def pinned(name: str) -> str:
    """Return a development tool's requirement, as `coverage==7.17.5`."""
    (found,) = (word for word in EXTRAS["dev"] if word.partition("=")[0] == name)
    return str(found)


def run_pytest(session: nox.Session, tier: str, extras: str = "test") -> None:
    """Run one tier's tests, on all cores."""
    session.install("-e", f".[{extras}]")
    parallel = ["-n", "logical", "--dist", "worksteal"]
    session.run("pytest", *parallel, "-m", tier, *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the default tests: everything outside the slow tiers, and a sample of those."""
    run_pytest(session, f"smoke or not ({SLOW})")


@nox.session
def sweep(session: nox.Session) -> None:
    """Take every reading away from recordings and faults: nothing may look healthier."""
    run_pytest(session, "sweep")


@nox.session
def burnin(session: nox.Session) -> None:
    """Run whole burn-ins, with real worker processes on a fake GPU."""
    run_pytest(session, "burnin")


@nox.session
def laws(session: nox.Session) -> None:
    """Hold the laws of a verdict over their whole grids of inputs; takes an hour or two."""
    run_pytest(session, "laws")


@nox.session
def system(session: nox.Session) -> None:
    """Run the tests that start gpuscan or fake a whole machine."""
    run_pytest(session, "system")


@nox.session
def contrib(session: nox.Session) -> None:
    """Run the files of contrib with the real tools, those that are installed."""
    run_pytest(session, "contrib", "test,contrib")


@nox.session(python=PYTHONS)
def matrix(session: nox.Session) -> None:
    """Run the default tests on each supported Python that is installed here."""
    run_pytest(session, f"smoke or not ({SLOW})")


@nox.session
def minimums(session: nox.Session) -> None:
    """Run the default tests with the oldest dependencies that pyproject.toml allows."""
    oldest = [
        re.sub(r"^([\w.-]+)>=([\d.]+).*", r"\1==\2", requirement)
        for requirement in PROJECT["project"]["dependencies"]
    ]
    session.install("-e", ".[test]", *oldest)
    session.run("pytest", "-n", "logical", "-m", f"smoke or not ({SLOW})", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Run all tests but the sweep under coverage; fail below the floor in pyproject.toml."""
    session.install("-e", ".[test]", pinned("coverage"))
    session.run("coverage", "erase")
    parallel = ["-n", "logical", "--dist", "worksteal"]
    tests = ["pytest", *parallel, "-m", "smoke or not sweep", *session.posargs]
    session.run("coverage", "run", "-m", *tests)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and spelling."""
    session.install(*EXTRAS["lint"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run(
        "codespell",
        "gpuscan",
        "checks",
        "contrib",
        "profiles",
        "docs",
        "noxfile.py",
        *glob.glob("*.md"),
    )


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    session.install("-e", ".[test,types]")
    for folder in ("gpuscan", "checks", "tests"):
        session.run("mypy", folder)


@nox.session
def package(session: nox.Session) -> None:
    """Build wheel and sdist, install the wheel elsewhere, and run the demo from / with it."""
    session.install(pinned("build"))
    with tempfile.TemporaryDirectory() as folder:
        session.run("python", "-m", "build", "--outdir", folder, silent=True)
        (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
        assert glob.glob(os.path.join(folder, "*.tar.gz"))
        session.run("python", "-m", "venv", os.path.join(folder, "elsewhere"))
        program = os.path.join(folder, "elsewhere", "bin")
        session.run(
            os.path.join(program, "python"), "-m", "pip", "install", "--quiet", wheel, external=True
        )
        session.chdir("/")
        session.run(os.path.join(program, "gpuscan"), "run", "--replay", "demo", external=True)
        session.run(
            os.path.join(program, "gpuscan"),
            "run",
            "--replay",
            "demo-broken",
            external=True,
            success_codes=[41],
        )
        session.run(os.path.join(program, "gpuscan"), "--version", external=True)


@nox.session
def bench(session: nox.Session) -> None:
    """Print the ratios of the design's section 10, all measured in this run."""
    session.install("-e", ".[test]")
    session.run("python", "tests/bench.py", *session.posargs, env={"PYTHONPATH": "tests/support"})


@nox.session
def fuzz(session: nox.Session) -> None:
    """Judge inputs of all kinds that were changed at random; `-- --seed 7 --count 9`."""
    session.install("-e", ".[test]")
    session.run(
        "python", "tests/support/fuzz.py", *session.posargs, env={"PYTHONPATH": "tests/support"}
    )


@nox.session
def kernels(session: nox.Session) -> None:
    """Compile the burn-in kernels for every architecture and compare with those of the package; `--
    --write` replaces them.

    No GPU is needed. Not in CI: Triton is large. ptxas 12.9 is taken for all, or CUDA 12 drivers
    would refuse the cubins.
    """
    nvidia = [
        "nvidia-cuda-nvcc-cu12==12.9.86",
        "nvidia-cuda-nvrtc-cu12==12.9.86",
        "cuda-bindings==12.9.*",
    ]
    session.install("triton==3.9.0", *nvidia, "numpy>=2")
    find = "import nvidia.cuda_nvcc as it; print(it.__path__[0])"
    ptxas = os.path.join(session.run("python", "-c", find, silent=True).strip(), "bin", "ptxas")
    with tempfile.TemporaryDirectory() as folder:
        env = {
            "TRITON_PTXAS_PATH": ptxas,
            "TRITON_PTXAS_BLACKWELL_PATH": ptxas,
            "TRITON_CACHE_DIR": folder,
        }
        env |= {
            "TRITON_DISABLE_LINE_INFO": "1",
            "TRITON_DEFAULT_FP_FUSION": "1",
            "PYTHONPATH": os.getcwd(),
        }
        session.run(
            "python", "-m", "gpuscan.burnin.worker.kernels.build", *session.posargs, env=env
        )


@nox.session
def mutants(session: nox.Session) -> None:
    """List the changes in the judging code that no test notices; takes minutes."""
    session.install("-e", ".[test]")
    session.run("python", "tests/mutants.py", *session.posargs)
