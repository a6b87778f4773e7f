"""The errors that end a command without a verdict, caught only in gpuscan/cli: exit code 2."""

import os
import sys


class GpuscanError(Exception):
    """The base: its text names the file or option, what is wrong with it, and what to do.

    *verdict* is the exit code of a failure that was proven before the error, 0 without one.
    """

    verdict = 0


class UsageError(GpuscanError):
    """An option, a selector or a check module cannot be used."""


class ProfileError(GpuscanError):
    """A profile is unknown, malformed or contradicts itself."""


class RecordingError(GpuscanError):
    """A recording cannot be read, or is not one."""


def complain(text: str) -> None:
    """Print a line on standard error, in UTF-8 whatever the locale; silent if that is closed."""
    try:
        sys.stderr.buffer.write(f"{text}\n".encode("utf-8", "surrogateescape"))
        sys.stderr.flush()
    except OSError:
        mute(2)


def mute(number: int = 1) -> None:
    """Send a standard stream to /dev/null, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def near_misses(word: str, known: "list[str]", what: str) -> str:
    """Return a hint that names what *word* may have meant, or all known words if none is close."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known {what}: {', '.join(sorted(known)) or 'none'}"
