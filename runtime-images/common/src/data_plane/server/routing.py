"""Finds the endpoint for a method and a path. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from data_plane.errors import MethodNotAllowed, NotFound
from data_plane.messages import Endpoint
from data_plane.nearest import nearest_path


@dataclass(frozen=True, slots=True)
class Route:
    """Requests with `method` on paths like `template` go to `endpoint`."""

    method: str
    template: str  # "/v1/models/{model}:predict"
    endpoint: Endpoint
    # Called with the values of the template's names before a body is read that comes in pieces; raises what the
    # endpoint would raise for them. Only requests to models have one: those count in the server's budget.
    check: Callable[[Mapping[str, str]], object] | None = None


# A route, and the values of its `{names}`.
Found = tuple[Route, Mapping[str, str]]


class Router:
    """Finds the route of a request; `elsewhere` says of a path without one where another port serves it, if one may."""

    def __init__(self, routes: Iterable[Route], elsewhere: Callable[[str], str] = lambda _: "") -> None:
        self._elsewhere = elsewhere
        by_template: dict[str, dict[str, Route]] = {}
        for route in routes:
            by_template.setdefault(route.template, {})[route.method] = route
        for by_method in by_template.values():
            if "GET" in by_method:
                by_method.setdefault("HEAD", by_method["GET"])  # whose body the connection leaves out
        self._templates = tuple(by_template)
        # The most specific first: "/v1/models/{model}" would else swallow "...:predict".
        self._patterns = [
            (_compile(template), by_template[template]) for template in sorted(by_template, key=len, reverse=True)
        ]

    def match(self, method: str, path: str) -> Found:
        """The route and the values of its `{names}`; raises NotFound and MethodNotAllowed.

        A slash at the end is no matter, as with TorchServe and KServe.
        """
        for wanted in dict.fromkeys((path, path.rstrip("/"))):
            for pattern, by_method in self._patterns:
                if found := pattern.fullmatch(wanted):
                    if method not in by_method:
                        # "m:infer" is not a verb of v1, and so the name of a model to the path that tells about one.
                        has_verb = any(":" in value for value in found.groupdict().values())
                        near = nearest_path(wanted, self._templates) if has_verb else ""
                        raise MethodNotAllowed(method, path, by_method, near)
                    return by_method[method], found.groupdict()
        if there := self._elsewhere(path):
            raise NotFound(f"There is nothing at {path}: {there}")
        near = nearest_path(path, self._templates)
        raise NotFound(f"There is nothing at {path}; {f'did you mean {near}?' if near else '/docs lists the paths.'}")


def _compile(template: str) -> re.Pattern[str]:
    """`{name}` is one segment of the path, `{name*}` all that is left of it."""
    literal_name_star = re.split(r"\{(\w+)(\*?)\}", template)
    pattern = re.escape(literal_name_star[0])
    for name, star, literal in zip(*(literal_name_star[start::3] for start in (1, 2, 3)), strict=True):
        pattern += f"(?P<{name}>{'.+' if star else '[^/]+'})" + re.escape(literal)
    return re.compile(pattern)
