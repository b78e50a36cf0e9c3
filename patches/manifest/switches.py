"""Which rows are on, with which options: the manifest's defaults and what a profile says."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from k25serve.patches.manifest.row import Device, Option, Row, Value

SWITCHES_ENV = "K25SERVE_PATCHES"
"""JSON object, row -> true, false or {option: value}: the profile's `patches`, for the engine's processes."""

Switch = bool | Mapping[str, Value]


class SwitchError(ValueError):
    """A switch is wrong: one line that names the row, the value and the remedy."""


@dataclass(frozen=True)
class Chosen:
    """A row that is on, with all of its options."""

    row: Row
    options: Mapping[str, Value]


def read_switches(text: str) -> dict[str, Switch]:
    """Switches of the environment variable; raises SwitchError unless it is such an object."""
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise SwitchError(f'{SWITCHES_ENV} is no JSON ({error}); write {{"ROW": false}}') from None
    if not isinstance(value, dict):
        raise SwitchError(f'{SWITCHES_ENV} is {text}, expected an object; write {{"ROW": false}}')
    return value


def choose(rows: tuple[Row, ...], switches: Mapping[str, Switch], version: str, device: Device) -> tuple[Chosen, ...]:
    """The rows that are on in an SGLang version on a device, in the manifest's order.

    A row that is on by default is left out where it does not apply; one that was asked for by name must apply.
    Raises SwitchError for an unknown row or option, a wrong value, a required row switched off, a row that does not
    apply.
    """
    known = {row.name: row for row in rows}
    for name in switches:
        if name not in known:
            raise SwitchError(f"patches.{name}: no such patch; there are {', '.join(known)}")
    chosen = []
    for row in rows:
        switch = switches.get(row.name, row.default)
        if not isinstance(switch, bool | Mapping):
            raise SwitchError(f"patches.{row.name} is {switch!r}, expected true, false or its options")
        if switch is False:
            if row.required:
                raise SwitchError(f"patches.{row.name} can't be switched off; remove it from the profile")
            continue
        missing = _not_here(row, version, device)
        if missing is None:
            chosen.append(Chosen(row, _options(row, switch if isinstance(switch, Mapping) else {})))
        elif row.name in switches or row.required:
            raise SwitchError(f"patches.{row.name}: {missing}; remove it from the profile")
    return tuple(chosen)


def _not_here(row: Row, version: str, device: Device) -> str | None:
    if device not in row.devices:
        return f"it applies to {' and '.join(row.devices)}, the device is {device}"
    if version not in row.versions:
        return f"it is written for SGLang {' and '.join(row.versions)}, found {version}"
    return None


def _options(row: Row, given: Mapping[str, Value]) -> dict[str, Value]:
    options = {option.name: option for option in row.options}
    for name in given:
        if name not in options:
            there = f"there are {', '.join(options)}" if options else "it has none; write true"
            raise SwitchError(f"patches.{row.name}.{name}: no such option; {there}")
    return {name: _value(row, option, given.get(name, option.default)) for name, option in options.items()}


def _value(row: Row, option: Option, value: Value) -> Value:
    kind = type(option.default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (isinstance(value, float) and not math.isfinite(value)):
        raise SwitchError(
            f"patches.{row.name}.{option.name} is {value!r}, expected a finite {kind.__name__}: {option.meaning}"
        )
    return value
