"""The project's tasks: `nox -s tests lint types package bench kernels`; each makes its own
environment.
"""

import glob
import os
import tempfile

import nox

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = True


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests."""
    session.install("-e", ".[dev]")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install("ruff>=0.6")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    session.install("-e", ".[dev]")
    for folder in ("gpuscan", "checks", "tests"):
        session.run("mypy", folder)


@nox.session
def package(session: nox.Session) -> None:
    """Build wheel and sdist, install the wheel elsewhere, and run the demo from / with it."""
    session.install("build")
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
    session.install("-e", ".[dev]")
    session.run("python", "tests/bench.py", *session.posargs)


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
    session.install("-e", ".[dev]")
    session.run("python", "tests/mutants.py", *session.posargs)
