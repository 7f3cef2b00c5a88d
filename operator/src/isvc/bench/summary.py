"""Numbers from what was seen: percentiles, of all responses and not of a sample, and a histogram. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil
from typing import Any

from isvc.bench.load import LoadPlan, Responses
from isvc_operator.text import one_line

_PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
_PER_DECADE = (1.0, 1.5, 2.2, 3.3, 4.7, 6.8)


def document(url: str, plan: LoadPlan, seen: Responses) -> dict[str, Any]:
    """Return everything as JSON; times are in milliseconds, as their names say, and 0 where nothing was answered."""
    times = [1000 * seconds for seconds in sorted(seen.latencies)] or [0.0]
    count = len(seen.latencies)
    percentiles = {f"p{share:g}".replace(".", "_"): times[ceil(len(times) * share / 100) - 1] for share in _PERCENTILES}
    latency = {"mean": sum(times) / len(times), "min": times[0], **percentiles, "max": times[-1]}
    return {
        "url": url,
        "connections": plan.connections,
        "rate": plan.rate or None,
        "seconds": round(seen.seconds, 3),
        "responses": count,
        "failed": seen.failed,
        "responsesPerSecond": round(count / (seen.seconds or 1.0), 1),
        "statuses": {str(status): number for status, number in sorted(seen.statuses.items())},
        "refusals": {
            str(status): one_line(body.decode(errors="replace")) for status, body in sorted(seen.refusals.items())
        },
        "errors": dict(sorted(seen.errors.items())),
        "interrupted": seen.interrupted,
        "latencyMs": {name: round(value, 3) for name, value in latency.items()},
        "histogram": [{"upToMs": round(bound, 6), "count": number} for bound, number in histogram(times[:count])],
    }


def histogram(ordered: Sequence[float]) -> list[tuple[float, int]]:
    """Return upper bounds, six for each power of ten, with how many values each has; no empty ends."""
    bounds = [step * 10.0**power for power in range(-4, 7) for step in _PER_DECADE]
    ends = [bisect_right(ordered, bound) for bound in bounds]
    counts = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    filled = [number for number, count in enumerate(counts) if count]
    return [(bounds[number], counts[number]) for number in range(filled[0], filled[-1] + 1)] if filled else []
