"""Any input as a recording: a recording, a demo, another tool's output, a log, a folder or tar of
these.
"""

import os

from gpuscan.files import PACKAGE
from gpuscan.recording import Recording, is_json, load, patch

DEMOS = ("demo", "demo-broken")


def opened(file: str) -> Recording:
    """Load a recording, or one of the demos that come with gpuscan; what is none is imported, if
    it is known.
    """
    if file not in DEMOS:
        return load_or_import(file)
    here = os.path.join(PACKAGE, "recording")
    demo = load(os.path.join(here, "demo.json.gz"))
    if file == "demo":
        return demo
    import json

    with open(os.path.join(here, "demo-broken.json"), encoding="utf-8") as changes:
        faults = json.load(changes)
    return patch(demo, faults["set"], faults["log"])


def load_or_import(file: str) -> Recording:
    """Load a recording; another tool's output, a log, a directory or a tar of these becomes one."""
    if not os.path.isdir(file) and is_json(file):
        return load(file)
    from gpuscan.importers import imported

    return imported(file)
