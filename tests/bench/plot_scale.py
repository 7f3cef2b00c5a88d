"""``plot_scale.py RESULTS.json OUT.svg``: what each service costs, by their number. Run as ``plot.py`` is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

FIELDS = {
    "cpu": "processor time of the operator, ms a service",
    "api_server_cpu": "processor time of the API server, ms a service",
    "ready": "time until all are Ready, ms a service",
}


def main(results: Path, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = [cell for cell in json.loads(results.read_text())["cells"] if cell["cell"] == "size"]
    numbers = [cell["services"] for cell in cells]
    figure, axis = pyplot.subplots(figsize=(8, 4))
    for name, colour in zip(FIELDS, ("#b2182b", "#2166ac", "#4d4d4d"), strict=True):
        costs = [1000 * cell[name] / cell["services"] for cell in cells]
        axis.plot(numbers, costs, marker="o", color=colour, label=FIELDS[name])
    axis.set_xscale("log")
    axis.set_xticks(numbers, [f"{number:,}" for number in numbers])
    axis.minorticks_off()
    axis.set_xlabel("services, created at once")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
