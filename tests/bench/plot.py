"""``plot.py RESULTS.json OUT.svg``: throughput by the number of clients, a panel for each work, one core.

A program of its own, run with matplotlib in a passing environment, which the project does not need.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OURS = ("#b2182b", "#ef8a62", "#d6604d")
PEERS = ("#2166ac", "#67a9cf", "#1b7837", "#7b3294", "#4d4d4d")


def main(results: Path, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = [cell for cell in json.loads(results.read_text())["cells"] if cell.get("cores") == "one core"]
    works = list(dict.fromkeys(cell["work"] for cell in cells))
    colours = _colours(cells)
    figure, axes = pyplot.subplots(1, len(works), figsize=(4.2 * len(works), 4.4), squeeze=False)
    for axis, work in zip(axes[0], works, strict=True):
        _panel(axis, work, [cell for cell in cells if cell["work"] == work], colours)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.suptitle("Requests a second, server held to one core, each server at its best setting")
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    figure.savefig(out)


def _panel(axis: Any, work: str, cells: list[dict[str, Any]], colours: dict[str, str]) -> None:
    clients = sorted({cell["clients"] for cell in cells})
    for server, colour in colours.items():
        best = {
            number: max(
                (cell["requests_per_s"] for cell in cells if (cell["server"], cell["clients"]) == (server, number)),
                default=None,
            )
            for number in clients
        }
        points = [(number, rate) for number, rate in best.items() if rate is not None]
        style = "-" if server.startswith("ours") else "--"
        axis.plot(*zip(*points, strict=True) if points else ([], []), style, marker="o", color=colour, label=server)
    axis.set(title=work, xlabel="clients", xscale="log", yscale="log")
    axis.set_xticks(clients, [str(number) for number in clients], minor=False)
    axis.grid(alpha=0.3)


def _colours(cells: list[dict[str, Any]]) -> dict[str, str]:
    servers = list(dict.fromkeys(cell["server"] for cell in cells))
    ours = [server for server in servers if server.startswith("ours")]
    peers = [server for server in servers if server not in ours]
    return {**dict(zip(peers, PEERS, strict=False)), **dict(zip(ours, OURS, strict=False))}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
