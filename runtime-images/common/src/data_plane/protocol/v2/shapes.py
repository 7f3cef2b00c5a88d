"""Check a tensor's shape against its data. Pure.

A client can send a huge size in a few digits. The number of elements must match the data, but sizes next to a zero, and
many sizes of 1, declare rows that no data is sent for. Tensors become nested lists in JSON and for most handlers, so
the number of these lists is limited in proportion to the number of elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_DIMENSIONS, MAX_TENSOR_LISTS, SMALL_TENSOR_LISTS, TENSOR_LISTS_PER_ELEMENT


def agreed(name: str, shape: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the shape of tensor `name` for `count` elements, with -1 replaced; raises InvalidRequest."""
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
    """Raise InvalidRequest for a shape with too many nested lists for its elements; it has no negative sizes."""
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
    """Replace a size of -1, which KServe's own samples use, by the size that fits the data."""
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
