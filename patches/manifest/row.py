"""What a patch is, as data. Nothing here or in the rows imports SGLang, torch or triton."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["around", "after", "replace"]
Device = Literal["cuda", "cpu"]
Process = Literal["main", "scheduler"]
Value = bool | int | float | str


@dataclass(frozen=True)
class Source:
    """A function or class of SGLang that a patch relies on without changing it.

    fingerprints: SGLang version -> what `fingerprint` gives for it there; in other versions it is not looked at.
    """

    target: str
    fingerprints: Mapping[str, str]


@dataclass(frozen=True)
class Hook(Source):
    """One name of SGLang that a patch changes, in the versions that `fingerprints` has.

    kind: `around` calls method(original, *args, **kwargs); `after` calls method(result, *args, **kwargs), whose own
    result takes the place of the first unless it is None; `replace` calls method(*args, **kwargs) alone.
    method: of the row's class. process: the one of SGLang's processes that must have it.
    """

    kind: Kind
    method: str
    process: Process = "scheduler"


@dataclass(frozen=True)
class Option:
    """A setting of a row: `patches: {ROW: {NAME: VALUE}}` in a profile. Its type is that of `default`."""

    name: str
    default: Value
    meaning: str


@dataclass(frozen=True)
class Row:
    """One patch: what it changes, in which SGLang, why, and until when.

    code: `module:Class`, made once in each process with its `Context`; `hooks` name its methods. Where the class has
    `facts() -> dict`, the report of a process holds what it returns once the process is about to serve; an exception
    there stops the launch.
    devices: where it applies. default: whether it is on unless a profile says otherwise. lossy: it can change the
    target's output. required: can't be switched off.
    """

    name: str
    code: str
    hooks: tuple[Hook, ...]
    reason: str
    upstream: str
    remove_when: str
    relies_on: tuple[Source, ...] = ()
    devices: tuple[Device, ...] = ("cuda", "cpu")
    default: bool = True
    lossy: bool = False
    required: bool = False
    options: tuple[Option, ...] = ()

    def __post_init__(self) -> None:
        if self.lossy and self.default:
            raise ValueError(f"row {self.name}: a lossy patch is off by default")

    @property
    def versions(self) -> tuple[str, ...]:
        """SGLang versions that it is written for, in the order of the fingerprints: the newest last."""
        return tuple(dict.fromkeys(version for hook in self.hooks for version in hook.fingerprints))

    def hooks_in(self, version: str, process: Process | None = None) -> tuple[Hook, ...]:
        """Its hooks in an SGLang version, of all processes or of one."""
        there = (hook for hook in self.hooks if version in hook.fingerprints)
        return tuple(hook for hook in there if process in (None, hook.process))

    def sources_in(self, version: str) -> tuple[Source, ...]:
        """Everything of an SGLang version that it was written against."""
        return tuple(source for source in (*self.hooks, *self.relies_on) if version in source.fingerprints)
