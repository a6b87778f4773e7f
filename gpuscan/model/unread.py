"""The value of a fact that was not read, and the type of facts, which says that any may be one."""

from typing import TYPE_CHECKING, NamedTuple, TypeVar, Union, final

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
D = TypeVar("D")

KINDS = (
    "not-supported",  # the driver says that this GPU or machine has no such thing
    "too-old-driver",  # this driver branch cannot report it
    "no-permission",
    "lost",  # the GPU is off the bus
    "reset-required",
    "timed-out",  # this very call gave no answer
    "blocked-behind",  # never asked, because something before it gave no answer
    "not-found",
    "garbled",  # an answer that makes no sense
    "not-recorded",  # outside the scope of the recording
)

# concluded from other readings: no reading has these kinds itself
DERIVED = ("too-old-driver", "not-recorded")
READING_KINDS = tuple(kind for kind in KINDS if kind not in DERIVED)


if TYPE_CHECKING:

    @final
    class Unread:
        """To type checkers not a tuple, so that they report a loop over a list that may be
        unread.
        """

        key: str
        kind: str
        text: str
        code: int | None

        def __init__(self, key: str, kind: str, text: str, code: int | None = None) -> None: ...
        def _replace(
            self, *, key: str = "", kind: str = "", text: str = "", code: int | None = None
        ) -> "Unread": ...

else:

    class Unread(NamedTuple):
        """A fact that was not read. *key* is the reading behind it, *kind* one of KINDS, *text* the
        reason in words, *code* NVML's return code or the errno.
        """

        key: str
        kind: str
        text: str
        code: int | None = None

        def __bool__(self) -> bool:
            raise TypeError(
                f"{self.key} was not read ({self.kind}: {self.text}): it is neither true nor false"
            )


if TYPE_CHECKING:
    Fact = Union[T, Unread]  # noqa: UP007
else:

    class Fact:
        """`Fact[int]`, a fact that may be unread; at run time just `int`, which costs no import
        time.
        """

        def __class_getitem__(cls, kind):
            return kind


def is_unread(value: object) -> "TypeIs[Unread]":
    """Return whether a fact was not read."""
    return type(value) is Unread


def read_or(fact: "T | Unread", default: D) -> "T | D":
    """Return a fact, or *default* if it was not read."""
    return default if is_unread(fact) else fact
