"""The arguments of a TorchScript `forward`, and their values from the inputs of a request.

A tuple, such as the states (h, c) of an LSTM, is made of an input for each of its elements: `state-0`, `state-1`. The
outputs of a tuple that it returns are named in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from data_plane.errors import UnprocessableInput
from mar_runtime.engines.torch_engine import SCALARS, Scalar


@dataclass(frozen=True, slots=True)
class Leaf:
    """An input: a tensor, or a value of Python."""

    name: str
    scalar: type[Scalar] | None


Tree = Leaf | tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. It has no tree if no request can give it."""

    name: str
    type: str
    tree: Tree | None
    is_optional: bool
    default: Any

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Return its inputs."""
        return tuple(_leaves(self.tree)) if self.tree else ()

    def value(self, given: Mapping[str, Any]) -> Any:
        """Return its value, the default without any of its inputs; raises UnprocessableInput if only some are given."""
        names = [leaf.name for leaf in self.leaves]
        missing = [name for name in names if name not in given]
        if self.tree is None or len(missing) == len(names):
            return self.default
        if missing:
            raise UnprocessableInput(f"The model takes {', '.join(names)} together; missing: {', '.join(missing)}.")
        return _value(self.tree, given)


def arguments(module: torch.jit.ScriptModule) -> list[Argument]:
    """Return the arguments of `forward`."""
    _, *described = module.forward.schema.arguments  # type: ignore[attr-defined]
    return [_argument(one) for one in described]


def _argument(described: Any) -> Argument:
    kind = described.type
    is_none = kind.kind() == "OptionalType"
    tree = _tree(described.name, kind.getElementType() if is_none else kind)
    return Argument(described.name, str(kind), tree, is_none or described.has_default_value(), described.default_value)


def _tree(name: str, kind: Any) -> Tree | None:
    if kind.kind() == "TensorType":
        return Leaf(name, None)
    if kind.kind() == "TupleType":
        trees = [_tree(f"{name}-{index}", element) for index, element in enumerate(kind.elements())]
        found = tuple(tree for tree in trees if tree)
        return found if len(found) == len(trees) else None
    scalar = next((scalar for scalar in SCALARS if scalar.__name__ == str(kind)), None)
    return Leaf(name, scalar) if scalar else None


def _leaves(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    else:
        for one in tree:
            yield from _leaves(one)


def _value(tree: Tree, given: Mapping[str, Any]) -> Any:
    return given[tree.name] if isinstance(tree, Leaf) else tuple(_value(one, given) for one in tree)
