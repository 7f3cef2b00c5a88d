"""``plot.py RESULTS.json OUT.svg``: throughput by the number of clients, a panel for each work, one core.

A program of its own, run with matplotlib in a passing environment, which the project does not need.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OURS = ("#b2182b", "#ff7f00", "#d9a400")
PEERS = ("#2166ac", "#67a9cf", "#1b7837", "#7b3294", "#4d4d4d", "#80cdc1", "#c51b7d")
TITLES = {"mnist": "MNIST ConvNet", "image": "ResNet-18 on a JPEG", "noop": "no-op", "big": "10 MB bodies"}


def main(results: Path, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = [cell for cell in json.loads(results.read_text())["cells"] if cell.get("cores") == "one core"]
    colours = _colours(cells)
    works = [work for work in TITLES if any(cell["work"] == work for cell in cells)]
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 8))
    for axis, work in zip(axes.flat, works, strict=False):
        _panel(axis, work, [cell for cell in cells if cell["work"] == work], colours)
    for axis in axes.flat[len(works) :]:
        axis.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    figure.suptitle("Requests a second by clients; server held to one core, each at its best setting")
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(out)


def _panel(axis: Any, work: str, cells: list[dict[str, Any]], colours: dict[str, str]) -> None:
    clients = sorted({cell["clients"] for cell in cells})
    for server, colour in colours.items():
        mine = [cell for cell in cells if cell["server"] == server]
        best = [
            max((cell["requests_per_s"] for cell in mine if cell["clients"] == number), default=float("nan"))
            for number in clients
        ]
        ours = server.startswith("ours")
        axis.plot(clients, best, "-" if ours else "--", marker="o", markersize=5, linewidth=2.2 if ours else 1.3,
                  color=colour, label=server)  # fmt: skip
    axis.set_title(TITLES[work])
    axis.set_xscale("log")
    axis.set_xticks(clients, [str(number) for number in clients])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.grid(alpha=0.3)


def _colours(cells: list[dict[str, Any]]) -> dict[str, str]:
    servers = list(dict.fromkeys(cell["server"] for cell in cells))
    ours = [server for server in servers if server.startswith("ours")]
    peers = [server for server in servers if server not in ours]
    return {**dict(zip(peers, PEERS, strict=False)), **dict(zip(ours, OURS, strict=False))}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
