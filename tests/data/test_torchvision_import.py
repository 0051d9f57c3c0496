"""torchvision works beside any torch, and is left alone where it needs no help."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from routebench.data.torchvision_import import import_torchvision

ROOT = Path(__file__).parents[2]
REPORT = """
import torch
from routebench.data.torchvision_import import _definitions, import_torchvision
print("kept", import_torchvision().__file__, len(_definitions), hasattr(torch.ops.torchvision, "nms"))
"""


def outcome(code: str, folder: Path) -> str:
    """What a fresh interpreter says that finds `folder` first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


def test_data_sets_transforms_and_models_work():
    torchvision = import_torchvision()
    from torchvision.transforms import v2

    assert torchvision.datasets.CIFAR10.filename == "cifar-10-python.tar.gz"
    assert v2.Resize(4) is not None
    assert torchvision.models.resnet18().fc.out_features == 1000
    assert import_torchvision() is torchvision


def test_a_torchvision_that_imports_is_left_alone(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").touch()
    assert outcome(REPORT, tmp_path).split()[1:] == [str(tmp_path / "torchvision" / "__init__.py"), "0", "False"]


@pytest.mark.parametrize("error", ["RuntimeError('another')", "ImportError('operator torchvision::nms')"])
def test_another_failure_is_not_hidden(tmp_path, error):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(f"raise {error}")
    told = outcome(REPORT, tmp_path)
    assert error.partition("(")[0] in told.splitlines()[-1]
    assert not any(line.startswith("kept") for line in told.splitlines())  # a traceback may show the code


def test_a_torchvision_without_its_compiled_part_is_helped(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(
        "import torch\n"
        "for name in ('nms', 'qnms'):\n"
        "    torch.library.register_fake(f'torchvision::{name}')(lambda dets, scores, iou_threshold: dets)\n"
    )
    told = outcome("import torchvision", tmp_path)
    assert "RuntimeError: operator torchvision::nms does not exist" in told
    assert outcome(REPORT, tmp_path).split()[2:] == ["1", "True"]
