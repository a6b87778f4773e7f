"""Markdown: the verdict as a heading, below it the text report as code, for a CI job's summary.

Code that is indented, as no fence can be closed by what the machine says.
"""

from collections.abc import Sequence

from gpuscan.engine.report import Report
from gpuscan.renderers import text


def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return a heading and the text report."""
    heads = dict.fromkeys(f"{one.verdict} (exit code {one.exit_code})" for one in reports)
    told = text.render(reports, verbosity=verbosity, many=many).splitlines()
    code = "".join(f"    {line}".rstrip() + "\n" for line in told)
    return f"## gpuscan: {', '.join(heads)}\n\n{code}"
