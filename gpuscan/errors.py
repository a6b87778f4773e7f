"""The errors that end a command without a verdict, caught only in gpuscan/cli: exit code 2."""

import errno
import os
import sys

from gpuscan.text import harmless, printable, text_bytes, wrapped

MOST_LETTERS = 60  # of a word that is compared with others
WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
LIMITS = {*WRITING, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class GpuscanError(Exception):
    """The base: its text names the file or option, what is wrong with it, and what to do.

    Each argument is one line: what others wrote in it can neither begin another nor steer the
    terminal. *verdict* is the exit code of a failure that was proven before the error, 0 without
    one, and *written* are the reports that this run has written all the same.
    """

    verdict = 0
    written: "tuple[str, ...]" = ()

    def __str__(self) -> str:
        return "\n".join(printable(str(line)) for line in self.args)


class UsageError(GpuscanError):
    """An option, a selector or a check module cannot be used."""


class ProfileError(GpuscanError):
    """A profile is unknown, malformed or contradicts itself."""


class RecordingError(GpuscanError):
    """A recording cannot be read, or is not one."""


def complain(text: str) -> None:
    """Print lines on standard error, in the locale's encoding; silent if that is closed.

    The one door to it: no character of what others wrote reaches the terminal as more than text.
    """
    try:
        width = os.get_terminal_size(2).columns if sys.stderr.isatty() else 0
        sys.stderr.buffer.write(text_bytes(f"{wrapped(harmless(text), width)}\n"))
        sys.stderr.flush()
    except OSError:
        mute(2)


def mute(number: int = 1) -> None:
    """Send a standard stream to /dev/null, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def used_up(error: BaseException) -> str:
    """Return what this machine, or a limit set on us, has no more of; "" for any other error."""
    unmapped = isinstance(error, ImportError) and "failed to map segment" in str(error)
    unsaid = isinstance(error, SystemError) and "without exception set" in str(error)
    if isinstance(error, MemoryError) or unmapped or unsaid:
        return os.strerror(errno.ENOMEM)
    if not isinstance(error, OSError) or error.errno not in LIMITS:
        return ""
    unnamed = "standard output" if error.errno in WRITING else ""
    place = printable(str(error.filename or unnamed))
    return f"{place}: {error.strerror}" if place else str(error.strerror)


def near_misses(word: str, known: "list[str]", what: str, listed_by: str = "") -> str:
    """Return a hint that names what *word* may have meant; where nothing is close, all known words,
    or of many the command *listed_by* that lists them.
    """
    from gpuscan.spelling import MOST_LISTED, closest

    close = closest(word[:MOST_LETTERS], known)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if len(known) > MOST_LISTED:
        return f"{listed_by} lists the {what}" if listed_by else f"there are {len(known)} {what}"
    return f"known {what}: {', '.join(sorted(known)) or 'none'}"
