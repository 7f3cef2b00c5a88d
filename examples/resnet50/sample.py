"""``python sample.py picture.png`` paints a picture to send."""

from __future__ import annotations

import sys

from PIL import Image

WIDTH, HEIGHT = 320, 240


def paint() -> Image.Image:
    """Red grows to the right, green downwards."""
    red = Image.linear_gradient("L").rotate(90).resize((WIDTH, HEIGHT))
    green = Image.linear_gradient("L").resize((WIDTH, HEIGHT))
    return Image.merge("RGB", (red, green, Image.new("L", (WIDTH, HEIGHT), 128)))


if __name__ == "__main__":
    paint().save(sys.argv[1])
