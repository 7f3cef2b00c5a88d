"""Whether a tensor's shape agrees with the data that it carries. Pure.

A size costs its sender a few digits. The number of elements is held against the data; that leaves sizes beside a zero,
and sizes of 1, which state rows that nothing is sent for. A tensor becomes nested lists in JSON and for most handlers,
so the number of those lists is bounded by the number of elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_DIMENSIONS, MAX_TENSOR_LISTS, SMALL_TENSOR_LISTS, TENSOR_LISTS_PER_ELEMENT


def agreed(name: str, shape: Sequence[int], count: int) -> tuple[int, ...]:
    """The shape of tensor `name`, which carries `count` elements, with the size that -1 stands for.

    Raises InvalidRequest.
    """
    if len(shape) > MAX_DIMENSIONS:
        raise InvalidRequest(
            f'Tensor "{name}": its shape has {len(shape)} dimensions; at most {MAX_DIMENSIONS} are served.'
        )
    sizes = tuple(shape)
    if min(sizes, default=0) < 0:
        sizes = _without_negative(name, sizes, count)
    if (expected := math.prod(sizes)) != count:
        raise InvalidRequest(
            f'Tensor "{name}": shape {list(sizes)} has {expected} elements, the data has {count}; make them agree.'
        )
    check_lists(name, sizes)
    return sizes


def check_lists(name: str, sizes: Sequence[int]) -> None:
    """Raise InvalidRequest for a shape, without negative sizes, that is too many nested lists for its elements."""
    lists, elements = 0, 1
    for size in sizes:
        lists += elements
        elements *= size
    if lists <= SMALL_TENSOR_LISTS:
        return
    allowed = min(MAX_TENSOR_LISTS, max(SMALL_TENSOR_LISTS, TENSOR_LISTS_PER_ELEMENT * elements))
    if lists > allowed:
        raise InvalidRequest(
            f'Tensor "{name}": shape {list(sizes)} is {lists} nested lists for {elements} elements; '
            f"{allowed} are served. Send fewer rows, or in fewer dimensions."
        )


def _without_negative(name: str, shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """KServe's own samples leave one size to the server, as -1."""
    known = -math.prod(shape)
    if min(shape) < -1 or shape.count(-1) > 1:
        raise InvalidRequest(
            f'Tensor "{name}": shape {list(shape)} has a negative size; only one may be -1, for "as many as there are".'
        )
    if not known or count % known:
        raise InvalidRequest(
            f'Tensor "{name}": {count} elements leave no whole size for the -1 in shape {list(shape)}.'
        )
    return tuple(count // known if size == -1 else size for size in shape)
