"""`gpuscan collect`: record this node without judging it."""

from typing import Any

import typer

from gpuscan.cli import flags
from gpuscan.cli import parameters as given
from gpuscan.cli.command import REQUIRED, Declared, argument, command, option
from gpuscan.text import counted

app = typer.Typer()

RECORDING: Declared = {
    "file": (
        argument(
            metavar="FILE", help="where to write the recording (gzip, unless it ends in .json)"
        ),
        REQUIRED,
    ),
    "redact": (
        option(
            "--redact",
            type_=bool,
            panel=given.OUTPUT_PANEL,
            help="replace serial numbers, UUIDs and names with stable pseudonyms",
        ),
        False,
    ),
    "profile": (
        option(
            "--profile",
            type_=str | None,
            panel=given.OUTPUT_PANEL,
            metavar="NAME",
            help="the profile that the recording is to be judged by later",
        ),
        None,
    ),
    "cables": (
        option(
            f"--cables/{flags.NO_CABLES}",
            type_=bool,
            panel=given.INPUT,
            help="also read what each network port is cabled to (ibnetdiscover, lldpcli)",
        ),
        True,
    ),
    "firmware": (
        option(
            "--firmware",
            type_=str | None,
            panel=given.INPUT,
            metavar="FILE",
            help=f"also take in {given.FIRMWARE_HELP}",
        ),
        None,
    ),
}
EXAMPLES = """
gpuscan collect node.json.gz
gpuscan collect node.json.gz --redact --no-cables
"""


@command(app, given.STARTED, RECORDING, given.SCAN, examples=EXAMPLES)
def collect(
    file: str, redact: bool, profile: str | None, firmware: str | None, **values: Any
) -> int:
    """Record this node, including its cabling, without judging it."""
    from gpuscan.cli.options import read_scan_options
    from gpuscan.cli.output import check_writable
    from gpuscan.errors import complain
    from gpuscan.importers import firmware as bmc
    from gpuscan.live.machine import scan_machine
    from gpuscan.recording import save

    check_writable(file)
    rows = bmc.load_firmware(firmware) if firmware else []
    recording, signal = scan_machine(read_scan_options(values))
    if rows:
        bmc.add_firmware(recording, rows)
    if profile:
        recording.meta = recording.meta._replace(profile=profile)
    if redact:
        from gpuscan.recording import redaction

        recording = redaction.redact(recording)
    save(recording, file)
    number = sum(1 for _ in recording)
    errors = sum(reading.error is not None for reading in recording)
    complain(
        f"{file}: {counted(number, 'reading')}, {counted(errors, 'error')} among them; judge it "
        f"with gpuscan judge {file}"
    )
    return 128 + signal if signal else 0
