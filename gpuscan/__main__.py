"""The start: live commands fork their readers before anything heavy is imported, then the command line takes over."""

import gc
import sys

LIVE = ("run", "collect", "info", "doctor")


def main() -> None:
    """Run gpuscan."""
    gc.disable()  # one short run; collecting its garbage would cost more than it frees
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from gpuscan import __version__

        print(f"gpuscan {__version__}")
        return
    children = None
    if _reads_this_machine(arguments):
        from gpuscan.source import spawn_all

        children = spawn_all()
    from gpuscan.cli import start

    start(children)


def _reads_this_machine(arguments: list[str]) -> bool:
    """Guess from the bare words; a wrong guess costs a fork, as the children touch nothing until they are asked."""
    replayed = any(word.startswith("--replay") or word in ("--help", "-h") for word in arguments)
    return bool(arguments) and arguments[0] in LIVE and not replayed


if __name__ == "__main__":
    main()
