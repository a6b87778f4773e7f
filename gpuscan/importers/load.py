"""Open any input as a recording: a recording, a demo, another tool's output, a log, a directory."""

import os

from gpuscan.errors import RecordingError
from gpuscan.files import PACKAGE
from gpuscan.recording import Recording, is_json, load, patch

NO_RECORDING = "not a gpuscan recording"
MANY_NODES = "lines of several nodes"
DEMOS = ("demo", "demo-broken")


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
