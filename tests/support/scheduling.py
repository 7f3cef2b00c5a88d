"""Which worker of a parallel run gets which tests."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

# They compare what each kind of server has said to everything, and all with the same recordings.
_OF_RECORDINGS = {
    f"tests/conformance/test_{what}.py"
    for what in ("batches", "decoding", "endpoints", "handlers", "load_models", "metrics")
}


class ByServer(LoadFileScheduling):
    """Tests that share servers run in one worker, one after the other."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "recordings" if file in _OF_RECORDINGS else file
