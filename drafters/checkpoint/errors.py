"""Errors that a user can mend: one line that names the field, the value and the remedy.

DrafterError
├── CheckpointError     a model folder cannot be read
├── AdaptError          a drafter cannot be rewritten as asked
├── RegistryError       no such drafter, or the registry's file is wrong
├── GateError           the engine that is asked for its acceptance does not answer as an engine does
└── TrainingError       a step of `drafter train` cannot be done as asked
"""


class DrafterError(Exception):
    """A mistake in the input or the surroundings, told in one line."""


class CheckpointError(DrafterError):
    """A model folder cannot be read."""


class AdaptError(DrafterError):
    """A drafter cannot be rewritten as asked."""


class RegistryError(DrafterError):
    """No such drafter, or the registry's file is wrong."""


class GateError(DrafterError):
    """The engine does not answer as an engine does."""


class TrainingError(DrafterError):
    """A step of `drafter train` cannot be done as asked."""
