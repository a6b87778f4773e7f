"""`gpuscan log`: judge a kernel log alone."""

from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import REQUIRED, Declared, argument, choice, command, option

app = typer.Typer()

LOG: Declared = {
    "file": (
        argument(metavar="FILE|-", help="a kernel log, plain or compressed; - is standard input"),
        REQUIRED,
    )
}
BOOT: Declared = {
    "boot": (
        option(
            "--boot",
            type_=choice("current", "all"),
            panel=given.JUDGED,
            help="current: only from the last boot in the log on",
        ),
        "current",
    )
}
EXAMPLES = """
gpuscan log /var/log/kern.log
journalctl -k -o json | gpuscan log -
gpuscan log kern.log.2.gz --boot all --only xid
"""


@command(
    app,
    LOG,
    given.PROFILE,
    given.SELECTORS,
    given.CHECKS,
    given.NODE_CONTEXT,
    given.REQUIRE_FULL,
    BOOT,
    given.LOG_DEADLINE,
    given.OUTPUT,
    given.TRIED,
    given.STATE_DIR,
    examples=EXAMPLES,
)
def log(**values: Any) -> int:
    """Judge a kernel log from a file or a pipe.

    It may be from dmesg, journalctl, syslog or /dev/kmsg, plain or compressed.
    """
    from gpuscan.live.logfile import LogFile

    with LogFile(
        values["file"], values["deadline"]
    ) as file:  # grep starts while the rest is imported
        from gpuscan.cli import pipeline, sources
        from gpuscan.cli.options import read_options

        source = sources.kernel_log(file, current_boot=values["boot"] == "current")
        return pipeline.run([source], read_options(values))
