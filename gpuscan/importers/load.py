"""Open any input as a recording: a recording, a demo, another tool's output, a log, a directory."""

import os
from functools import partial

from gpuscan.errors import RecordingError
from gpuscan.files import PACKAGE
from gpuscan.importers.part import Input
from gpuscan.recording import Recording, is_json, load, patch

NO_RECORDING = "not a gpuscan recording"
MANY_NODES = "lines of several nodes"
DEMOS = ("demo", "demo-broken")


def open_inputs(file: str) -> list[Input]:
    """Return the nodes in a file: each recording of a directory or tar, and each node of which
    other tools' output lies there. Raises RecordingError.
    """
    from gpuscan.importers.unpacking import is_container

    if file in DEMOS or not is_container(file):
        return [Input(file, partial(open_recording, file))]
    from gpuscan.importers.reading import find_inputs

    whole = "stdin" if file == "-" else file
    return [
        Input(os.path.join(file, name) if name and os.path.isdir(file) else told, load, note)
        for name, load, note in find_inputs(file)
        for told in [f"{whole}: {name}" if name else whole]
    ]


def open_recording(file: str) -> Recording:
    """Load a recording or one of the bundled demos; import anything else.

    Raises RecordingError.
    """
    if file not in DEMOS:
        return load_or_import(file)
    directory = os.path.join(PACKAGE, "recording")
    demo = load(os.path.join(directory, "demo.json.gz"))
    if file == "demo":
        return demo
    import json

    with open(os.path.join(directory, "demo-broken.json"), encoding="utf-8") as changes:
        faults = json.load(changes)
    return patch(demo, faults["set"], faults["log"])


def load_or_import(file: str) -> Recording:
    """Load a recording; import another tool's output, a log, a directory or a tar.

    Raises RecordingError.
    """
    if os.path.isdir(file) or not is_json(file):
        return _import(file)
    try:
        return load(file)
    except RecordingError as refusal:
        if NO_RECORDING not in str(refusal):
            raise
        return _import_json(file, refusal)


def _import_json(file: str, refusal: RecordingError) -> Recording:
    """Import what JSON holds (the lines of a container's log, what ansible prints), if it holds
    any; otherwise raise the *refusal* of the file as a recording.
    """
    try:
        recording = _import(file)
    except RecordingError as error:
        raise (error if MANY_NODES in str(error) else refusal) from None
    return recording


def _import(file: str) -> Recording:
    from gpuscan.importers.reading import import_path

    return import_path(file)
