"""``plot_soak.py RESULTS.json OUT.svg``: the operator's memory over time. Run as ``plot.py`` is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

NAMES = {"rss": "resident", "pss": "resident, shared pages divided", "uss": "its own pages"}


def main(results: Path, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = json.loads(results.read_text())["cells"]
    figure, axis = pyplot.subplots(figsize=(8, 4))
    for name, colour in zip(NAMES, ("#b2182b", "#2166ac", "#67a9cf"), strict=True):
        axis.plot([cell["seconds"] / 60 for cell in cells], [cell[name] for cell in cells], color=colour,
                  label=NAMES[name])  # fmt: skip
    axis.set_xlabel("minutes")
    axis.set_ylabel("MiB")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, loc="lower right")
    axis.set_title("Memory of the operator; of 100 services, one changes each second")
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
