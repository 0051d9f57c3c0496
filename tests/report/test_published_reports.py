"""The results in `reports/` can be read by the version that they travel with, and nothing in them is missing."""

from pathlib import Path

import pytest

from routebench.analysis.folder import open_folder
from routebench.engine.store import load_results

REPORTS = Path(__file__).parents[2] / "reports"
FOLDERS = sorted(file.parent for file in REPORTS.glob("*/report.html"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_published_results_are_whole(folder):
    results = load_results(folder)
    (part,) = open_folder(folder).parts
    assert set(part.planned["status"]) == {"ok"}
    assert set(results["cell"]) == set(part.planned["cell"])
    assert not results["dirty"].any()


def test_a_report_is_published():
    assert FOLDERS
