"""The bill of materials: everything that the distributions may install, as CycloneDX JSON.

It follows the requirements of the wheels, extras included, through the packages of this environment, which are those
that `constraints.txt` pins. Packages for other platforms are left out; so is what the images' base brings.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Final, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_Distributions: TypeAlias = dict[str, metadata.Distribution]  # by canonical name
_LICENSES: Final = LicenseFactory()


def bill_of_materials(wheels: Sequence[Path], name: str, version: str, released: datetime) -> str:
    """Return the JSON text; the same input gives the same text."""
    ours: _Distributions = {canonicalize_name(found.name): found for found in map(_metadata_of, wheels)}
    found, edges = _closure(ours)
    components = {package: _component(found[package], package in ours) for package in sorted(found)}
    product = Component(name=name, version=version, type=ComponentType.APPLICATION, bom_ref=f"{name}@{version}")
    bom = Bom(
        components=components.values(),
        serial_number=uuid5(NAMESPACE_URL, f"{name}@{version}:{released.isoformat()}"),
        metadata=BomMetaData(component=product, timestamp=released),
    )
    bom.register_dependency(product, [components[package] for package in sorted(ours)])
    for package in sorted(edges):
        bom.register_dependency(components[package], [components[other] for other in sorted(edges[package])])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _metadata_of(wheel: Path) -> metadata.Distribution:
    (folder,) = (path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info"))
    return metadata.PathDistribution(folder)


def _closure(ours: _Distributions) -> tuple[_Distributions, dict[str, set[str]]]:
    """Return the distributions that ours need, by name, and which of them each needs."""
    found, edges = dict(ours), {package: set[str]() for package in ours}
    waiting = [(package, extra) for package in ours for extra in ("", *_fields(ours[package], "Provides-Extra"))]
    done = set[tuple[str, str]]()
    while waiting:
        package, extra = waiting.pop()
        if (package, extra) in done:
            continue
        done.add((package, extra))
        for requirement in _requirements_of(found[package], extra):
            needed = canonicalize_name(requirement.name)
            if needed not in found:
                found[needed] = metadata.distribution(needed)
            if needed != package:
                edges.setdefault(package, set()).add(needed)
            waiting += ((needed, wanted) for wanted in ("", *requirement.extras))
    return found, edges


def _requirements_of(distribution: metadata.Distribution, extra: str) -> Iterator[Requirement]:
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _component(distribution: metadata.Distribution, ours: bool) -> Component:
    name = canonicalize_name(distribution.name)
    purl = PackageURL("pypi", name=name, version=distribution.version)
    return Component(
        name=name,
        version=distribution.version,
        type=ComponentType.APPLICATION if ours else ComponentType.LIBRARY,
        description=next(iter(_fields(distribution, "Summary")), None),
        licenses=[_LICENSES.make_from_string(text) for text in _licenses_of(distribution)],
        purl=purl,
        bom_ref=purl.to_string(),
    )


def _licenses_of(distribution: metadata.Distribution) -> Sequence[str]:
    """Return the SPDX expression, else the name; some older packages have the whole text in its place."""
    for field in ("License-Expression", "License"):
        found = _fields(distribution, field)
        if found and "\n" not in found[0]:
            return found
    classifiers = _fields(distribution, "Classifier")
    return [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License :: ")]


def _fields(distribution: metadata.Distribution, name: str) -> Sequence[str]:
    found: list[str] = distribution.metadata.get_all(name) or []
    return found
