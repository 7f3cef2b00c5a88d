"""A model for tests of the dashboard: it measures images, repeats texts, and logs as many lines as it is told to."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.support.model_folder import manifest, packed_zip, write_mar

HANDLER = b'''\
"""Measures images; a text is repeated, and `say N TEXT` logs it N times, each with its number."""

import base64
import io

from PIL import Image


def handle(data, context):
    return None if data is None else [answer(row) for row in data]


def answer(row):
    row = row.get("body", row) if isinstance(row, dict) else row
    text = row.get("data", row) if isinstance(row, dict) else row
    text = text.decode() if isinstance(text, (bytes, bytearray)) else text
    if text.startswith("say "):
        _, times, words = text.split(" ", 2)
        for number in range(int(times)):
            print(f"{words} {number}", flush=True)
        return "said"
    try:
        image = Image.open(io.BytesIO(base64.b64decode(text, validate=True)))
    except ValueError:
        return text
    return list(image.size)
'''


def digits_zip(folder: Path, *, padding: int) -> bytes:
    """A zip of what a claim for the archive holds, with so many bytes more: it is as slow to fetch as it is large."""
    archive = write_mar(folder / "digits.mar", manifest(modelName="digits"), {"handler.py": HANDLER})
    models = {"digits": {"1.0": {"marName": "digits.mar", "minWorkers": 1, "maxWorkers": 1}}}
    config = f"model_store=/mnt/models/model-store\nmodels={json.dumps(models)}\n"
    return packed_zip({
        "config/config.properties": config.encode(),
        "model-store/digits.mar": archive.read_bytes(),
        "weights.bin": os.urandom(padding),
    })  # fmt: skip
