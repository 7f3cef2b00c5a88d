"""`python -m tests.conformance` writes docs/conformance.md, docs/sdk-conformance.md and
docs/torchserve-settings.md.

`python -m tests.conformance record` asks the real TorchServe everything anew, shows what differs from what is recorded,
and writes it; with `--check` it writes nothing, and fails where something differs.

`python -m tests.conformance differences` asks both runtimes everything, and prints each difference from TorchServe with
its reason; it fails where one has none.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import tempfile
from pathlib import Path

from tests.conformance import (
    archives,
    behaviours,
    differences,
    key,
    recorder,
    resnet50,
    sdk_table,
    settings_table,
    table,
    values,
)
from tests.conformance.recording import RECORDED, answer_file, files_of, rounded_as


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["pages", "record", "differences"], default="pages")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where TorchServe says something else")
    arguments = parser.parse_args()
    if arguments.what == "record":
        return _record(is_check=arguments.check)
    if arguments.what == "differences":
        return _print_differences()
    for page in (table, settings_table):
        page.PAGE.write_text(page.render(), encoding="utf-8")
    sdk_table.PAGE.write_text(sdk_table.render(sdk_table.compare()), encoding="utf-8")
    return 0


def _print_differences() -> int:
    unknown = 0
    for difference in differences.find(archives.directories()):
        print(difference, flush=True)
        unknown += not difference.why
    print(f"{unknown} without a reason")
    return 1 if unknown else 0


def _record(*, is_check: bool) -> int:
    was = {str(path.relative_to(RECORDED)): path.read_text(encoding="utf-8") for path in RECORDED.rglob("*.*")}
    now = {name: _settled(was.get(name, ""), text) for name, text in _recorded_now().items()}
    differing = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    for name in differing:
        lines = (before_and_after.get(name, "").splitlines() for before_and_after in (was, now))
        sys.stdout.writelines(f"{line}\n" for line in difflib.unified_diff(*lines, name, name, lineterm=""))
    print(f"{len(now)} files, of which {len(differing)} differ from what was recorded")
    if not is_check:
        for name in differing:
            _write(RECORDED / name, now.get(name))
    return 1 if is_check and differing else 0


def _recorded_now() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, folder in archives.directories().items():
        print(f"TorchServe serves {folder.name}", flush=True)
        found |= files_of(name, recorder.record_torchserve(name, folder))
    print("TorchServe serves resnet50", flush=True)
    pictures = recorder.record_pictures(resnet50.volume())
    found |= {f"resnet50/{model}.json": answer_file(answer) for model, answer in pictures.items()}
    print("TorchServe is started with each value of a setting", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found[values.FILE.name] = values.record(Path(folder))
    print("TorchServe is tested for its behaviours", flush=True)
    found[behaviours.FILE.name] = behaviours.record()
    return found | {key.FILE.name: json.dumps(key.current(), indent=2) + "\n"}


def _settled(before: str, now: str) -> str:
    """What a processor rounds otherwise is not a difference."""
    return rounded_as(before.encode(), now.encode()).decode()


def _write(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
