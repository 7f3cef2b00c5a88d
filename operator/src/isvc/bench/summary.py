"""Numbers from what was seen: percentiles, of all responses and not of a sample, and a histogram. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from isvc.bench.plan import LoadPlan, Responses

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
_PER_DECADE = (1.0, 1.5, 2.2, 3.3, 4.7, 6.8)


@dataclass(frozen=True)
class Summary:
    """All times are in milliseconds."""

    seconds: float
    answered: int
    failed: int
    requests_per_s: float
    mean: float
    least: float
    most: float
    percentiles: Mapping[float, float]
    histogram: Sequence[tuple[float, int]]
    """Upper bounds, and how many responses took at most so long, and longer than the bound before."""
    client_cpu_us: float
    """Processor time of the client for one request, in microseconds."""
    client_cores: float
    late_p99: float
    """At a rate: 99 % of the requests were sent at most so long after they were due."""


def summarize(seen: Responses) -> Summary:
    """Return the numbers; those of times are 0 where nothing was answered."""
    times = array("d", (1000 * seconds for seconds in sorted(seen.latencies)))
    count, seconds = len(times), seen.seconds or 1.0
    return Summary(
        seconds=seen.seconds,
        answered=count,
        failed=seen.failed,
        requests_per_s=count / seconds,
        mean=sum(times) / count if count else 0.0,
        least=times[0] if count else 0.0,
        most=times[-1] if count else 0.0,
        percentiles={share: percentile(times, share) for share in PERCENTILES},
        histogram=histogram(times),
        client_cpu_us=1e6 * seen.cpu_seconds / count if count else 0.0,
        client_cores=seen.cpu_seconds / seconds,
        late_p99=1000 * percentile(sorted(seen.late), 99.0),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the least value that so many per cent do not exceed; 0 of none."""
    return ordered[max(0, ceil(len(ordered) * share / 100) - 1)] if ordered else 0.0


def histogram(ordered: Sequence[float]) -> list[tuple[float, int]]:
    """Return upper bounds, six for each power of ten, with the number of values up to each and above the one before."""
    if not ordered:
        return []
    bounds = [step * 10.0**power for power in range(-4, 7) for step in _PER_DECADE]
    ends = [bisect_right(ordered, bound) for bound in bounds]
    counts = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    filled = [number for number, count in enumerate(counts) if count]
    return [(bounds[number], counts[number]) for number in range(filled[0], filled[-1] + 1)]


def document(url: str, plan: LoadPlan, seen: Responses) -> dict[str, object]:
    """Return everything as JSON; times are in milliseconds, as their names say."""
    summary = summarize(seen)
    named = {f"p{share:g}".replace(".", "_"): round(value, 3) for share, value in summary.percentiles.items()}
    return {
        "url": url,
        "loop": "open" if plan.rate else "closed",
        "connections": plan.connections,
        "rate": plan.rate or None,
        "seconds": round(summary.seconds, 3),
        "responses": summary.answered,
        "failed": summary.failed,
        "responsesPerSecond": round(summary.requests_per_s, 1),
        "statuses": {str(status): count for status, count in sorted(seen.statuses.items())},
        "errors": dict(sorted(seen.errors.items())),
        "unsent": seen.unsent,
        "interrupted": seen.interrupted,
        "receivedBytes": seen.received,
        "latencyMs": {
            "mean": round(summary.mean, 3),
            "min": round(summary.least, 3),
            **named,
            "max": round(summary.most, 3),
        },
        "histogram": [{"upToMs": round(bound, 6), "count": count} for bound, count in summary.histogram],
        "client": {
            "cpuMicrosecondsPerRequest": round(summary.client_cpu_us, 1),
            "cores": round(summary.client_cores, 3),
            "lateP99Ms": round(summary.late_p99, 3),
        },
    }
