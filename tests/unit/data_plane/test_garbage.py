"""What is imported without collections is not looked through by later ones."""

from __future__ import annotations

import gc

import pytest

from data_plane.garbage import no_collections


@pytest.mark.parametrize("fails", [False, True], ids=["an import", "one that fails"])
def test_what_is_imported_is_permanent_and_collections_go_on(fails: bool) -> None:
    before = gc.get_freeze_count()
    try:
        with no_collections():
            enabled, made = gc.isenabled(), [[number] for number in range(1000)]
            if fails:
                raise ImportError
    except ImportError:
        pass

    assert (enabled, gc.isenabled()) == (False, True)
    assert gc.get_freeze_count() - before >= len(made)
