"""Tells what a model file is, without running anything in it."""

from __future__ import annotations

from pathlib import Path

from mar_runtime.engines.errors import CannotLoad
from model_archive.errors import NoModel
from model_archive.formats import Format, format_of


def detect(path: Path) -> Format:
    """Return the file's format; raises CannotLoad with what to do about any other file."""
    try:
        return format_of(path)
    except NoModel as error:
        raise CannotLoad(path, str(error)) from error
