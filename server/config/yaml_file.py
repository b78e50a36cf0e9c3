"""YAML as profiles need it: mappings of text keys, lists, text, finite numbers. All else is told with its line."""

import math
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode

from k25serve.server.config.shown import shown
from k25serve.server.errors import ConfigError

FILE_BYTES_AT_MOST = 2**20
INTEGER_BITS_AT_MOST = 64
NUMBER_CHARACTERS_AT_MOST = 100
NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
TEXT_TAG = "tag:yaml.org,2002:str"


def read_yaml(what: str, path: Path) -> Any:
    """What the file holds. Raises ConfigError, which starts with `what`, where it cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_AT_MOST + 1)
    except OSError as error:
        raise ConfigError(f"{what}: cannot be read ({error.strerror}); give a readable YAML file") from None
    if len(raw) > FILE_BYTES_AT_MOST:
        raise ConfigError(f"{what}: larger than {FILE_BYTES_AT_MOST >> 20} MiB; a short YAML file belongs there")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    return parse_yaml(what, text)


def parse_yaml(what: str, text: str) -> Any:
    """What `text` says. Raises ConfigError, which starts with `what`, where it is not the YAML of a profile."""
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise ConfigError(f"{what}: not valid YAML: {line}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{what}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{what}: nested too deeply; write sections of keys, nothing deeper") from None


class _Loader(yaml.SafeLoader):
    """SafeLoader, but stricter. Its own resolver makes dates of text and lets the last of two equal keys win."""

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        # Aliases can stand for exponentially much, or for themselves.
        if self.check_event(AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it out
            raise _fault(event.start_mark, f"alias *{event.anchor}; write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode) or key.tag != TEXT_TAG:
                raise _fault(key.start_mark, f"key {shown(key.value)} is not text to YAML; quote it")
            if key.value in seen:
                raise _fault(
                    key.start_mark,
                    f"key {shown(key.value)} is there twice, on lines {seen[key.value]} and {line}; remove one",
                )
            seen[key.value] = line
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        try:
            # `1:00:00:...` is a number to YAML 1.1, and a long one takes quadratic time.
            if node.tag in NUMBER_TAGS and len(node.value) > NUMBER_CHARACTERS_AT_MOST:
                raise ValueError
            value = super().construct_object(node, deep)
            if isinstance(value, str):
                value.encode()
        except (ValueError, LookupError, AttributeError, OverflowError):
            raise _fault(
                node.start_mark, f"{shown(node.value)} cannot be read as a value; correct or quote it"
            ) from None
        if isinstance(value, float) and not math.isfinite(value):
            raise _fault(node.start_mark, f"{shown(node.value)} is no finite number; give one")
        if isinstance(value, int) and value.bit_length() > INTEGER_BITS_AT_MOST:
            raise _fault(node.start_mark, f"{shown(node.value)} is too large a number; give a smaller one")
        if value is not None and not isinstance(value, (bool, int, float, str, list, dict)):
            raise _fault(node.start_mark, f"{shown(node.value)} is a {type(value).__name__} to YAML; quote it")
        return value


def _fault(mark: yaml.Mark, problem: str) -> ConstructorError:
    return ConstructorError(None, None, problem, mark)
