"""The value of a fact that was not read: which reading lacks, what kind of lack, in which words."""

from typing import NamedTuple, TypeGuard

KINDS = (
    "not-supported",  # the driver says that this GPU or machine has no such thing
    "too-old-driver",  # this driver branch cannot tell
    "no-permission",
    "lost",  # the GPU is off the bus
    "reset-required",
    "timed-out",  # this very call gave no answer
    "blocked-behind",  # never asked, because something before it gave no answer
    "not-found",
    "garbled",  # an answer that makes no sense
    "not-recorded",  # outside the scope of the recording
)

DERIVED = (
    "too-old-driver",
    "not-recorded",
)  # concluded from other readings; no reading says so of itself
READING_KINDS = tuple(kind for kind in KINDS if kind not in DERIVED)


class Unread(NamedTuple):
    """A lack of *kind* (one of KINDS) behind the reading *key*; *code* is NVML's return code or
    the errno.
    """

    key: str
    kind: str
    text: str
    code: int | None = None

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self.key} was not read ({self.kind}: {self.text}): it is neither true nor false"
        )


def is_unread(value: object) -> TypeGuard[Unread]:
    """Tell whether a fact was not read. Records are typed as if all were read, so this is no
    narrowing of types.
    """
    return type(value) is Unread
