"""Text that others wrote, made safe to print."""


def printable(text: str) -> str:
    """Return *text* as one line without control characters: evidence must not steer the terminal or
    forge lines.

    >>> printable("GPU\\x1b[2J lost\\nVerdict: pass")
    'GPU\\\\x1b[2J lost Verdict: pass'
    """
    if text.isprintable():
        return text
    return "".join(
        " " if char.isspace() else char if char.isprintable() else _escaped(char) for char in text
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
