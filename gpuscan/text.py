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


def shorten(text: str, most: int) -> str:
    """Return *text* cut to *most* characters, with `...` where something is missing.

    >>> shorten("one two three", 13), shorten("one two three", 10)
    ('one two three', 'one two...')
    """
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
