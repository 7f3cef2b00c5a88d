"""Each shipped alert fires where it has to, and nowhere else, as Prometheus' own promtool evaluates it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import yaml

from tests.support.monitoring import ALERT_CASES, rule_groups
from tests.support.source_tree import ROOT


def test_alerts_fire_where_they_have_to_and_nowhere_else(tmp_path: Path) -> None:
    built = ["bash", ROOT / "tests/cluster/program", "promtool"]
    promtool = subprocess.run(built, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))
    shutil.copy(ALERT_CASES, tmp_path)

    done = subprocess.run([promtool, "test", "rules", ALERT_CASES.name], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
