"""Open any input as a recording: a recording, a demo, another tool's output, a log, a directory."""

import os

from gpuscan.files import PACKAGE
from gpuscan.recording import Recording, is_json, load, patch

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
    if not os.path.isdir(file) and is_json(file):
        return load(file)
    from gpuscan.importers.reading import import_path

    return import_path(file)
