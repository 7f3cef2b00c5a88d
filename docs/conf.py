"""The site: `sphinx-build -c docs . build/site` of the pages that are read in the repository.

`docs/README.md` is its table of contents: each of its sections becomes one of the side bar. The environment names what
is published: REGISTRY the images, REPOSITORY the URL to whose files pages link, and whose releases they install.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hack.release.version import current_version  # noqa: E402

REGISTRY = os.environ.get("REGISTRY")
REPOSITORY = os.environ.get("REPOSITORY")

project = "isvc-operator"
author = "the authors of isvc-operator"
version = release = current_version(ROOT)

extensions = ["myst_parser", "sphinx_copybutton"]
include_patterns = ["*.md", "docs/**.md", "**/README.md"]
exclude_patterns = [".*", "build", "dist", "tests/golden"]
root_doc = "README"
myst_heading_anchors = 4
suppress_warnings = ["toc.not_included"]  # READMEs of folders, which pages link to
templates_path = ["site"]

html_theme = "furo"
html_title = f"{project} {release}"
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_css_files = ["site.css"]
html_static_path = ["site/static"]
html_show_copyright = html_show_sphinx = html_copy_source = False
copybutton_prompt_text = "$ "

# What a page says of a checkout, and what the page of a published release says instead.
PUBLISHED = [
    (r"\blocalhost/isvc-operator\b", REGISTRY),
    (r"(?<= -f )(?=install[a-z-]*\.yaml)", REPOSITORY and f"{REPOSITORY}/releases/download/v{release}/"),
    (r"(?<= )(isvc-operator(?:-crds)?)-\S+\.tgz", REGISTRY and rf"oci://{REGISTRY}/charts/\1 --version {release}"),
]


def change(_: Sphinx, page: str, text: list[str]) -> None:
    """Turn a page of the repository into one of the site."""
    for said, instead in PUBLISHED:
        if instead:
            text[0] = re.sub(said, instead, text[0])
    folder = ROOT.joinpath(page).parent
    text[0] = re.sub(r"(?<!!)\[([^\]\n]+)\]\(([\w./-]+)\)", lambda link: _link(folder, link), text[0])
    if page == root_doc:
        text[0] += "\n".join(_contents((ROOT / "docs/README.md").read_text()))


def _link(folder: Path, link: re.Match[str]) -> str:
    """Return a link to a page as it is; one to another file or folder leads to the repository, if it has a URL."""
    target = (folder / link[2]).resolve()
    if (target / "README.md").exists():
        return f"[{link[1]}]({link[2].rstrip('/')}/README.md)"
    if target.suffix == ".md" or not target.is_relative_to(ROOT) or not target.exists():
        return link[0]
    path = target.relative_to(ROOT).as_posix()
    return f"[{link[1]}]({REPOSITORY}/tree/v{release}/{path})" if REPOSITORY else link[1]


def _contents(text: str) -> list[str]:
    lines = []
    for title, section in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE):
        pages = [f"docs/{name}" for name in re.findall(r"\]\((\S+)\.md\)", section)]
        lines += ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""]
    return lines


def setup(app: Sphinx) -> None:
    """Connect what is done to each page."""
    app.connect("source-read", change)
