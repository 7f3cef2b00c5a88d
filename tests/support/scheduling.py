"""Which worker of a parallel run gets which tests."""

from __future__ import annotations

from pathlib import Path

from xdist.scheduler import LoadFileScheduling

# They compare what each kind of server has said to everything, and all with the same recordings.
_OF_RECORDINGS = {
    f"tests/conformance/test_{what}.py"
    for what in ("batches", "decoding", "endpoints", "handlers", "load_models", "metrics")
}
# They replace the operator or its settings, or stop the node: nothing else runs on the cluster.
_OF_THE_WHOLE_CLUSTER = {
    f"tests/e2e/cluster/test_{what}.py" for what in ("disruptions", "gateway_api", "installs", "node_outages")
}
# End-to-end tests in the order in which they begin; the others come after these. A worker is given another file when it
# begins the last test of one, so two files of one long test are the first, and the fourth and the fifth are short.
_FIRST = (
    "transformers_page",
    "release_images",
    "both_runtimes",
    "models_in_images_and_hubs",
    "runtime_of_kserve",
    "transformers",
)


def has_the_cluster_to_itself(file: Path) -> bool:
    return f"tests/e2e/cluster/{file.name}" in _OF_THE_WHOLE_CLUSTER


def turn_of(file: Path) -> tuple[bool, int]:
    """The key by which files of end-to-end tests are sorted: those that have the cluster to themselves come last."""
    name = file.stem.removeprefix("test_")
    return has_the_cluster_to_itself(file), _FIRST.index(name) if name in _FIRST else len(_FIRST)


class ByServer(LoadFileScheduling):
    """Tests that share servers run in one worker, one after the other."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file in _OF_RECORDINGS:
            return "recordings"
        return "the whole cluster" if file in _OF_THE_WHOLE_CLUSTER else file
