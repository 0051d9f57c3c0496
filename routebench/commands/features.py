"""`routebench features`: the features that a frozen network gives of a data set, in one file."""

import shlex
from pathlib import Path
from typing import Any

import click

from routebench.commands import options
from routebench.options import FeaturesOptions
from routebench.terminal import answer, tell


@click.command()
@click.argument("backbone", metavar="BACKBONE")
@click.argument("data", metavar="DATA", shell_complete=options.known("data"))
@click.option("-o", "--output", type=options.FILE, required=True, metavar="FILE", help="File to write, .safetensors.")
@options.of(FeaturesOptions)
def command(backbone: str, data: str, output: Path, **asked: Any) -> None:
    """Extract features once; heads then train on them in seconds, as --data features:FILE.

    BACKBONE is efficientnet-lite0, whose weights a package holds, or timm:NAME or torchvision:NAME. DATA is any data
    set of pictures. Every place of the layer's grid becomes a token. If it is interrupted, the same command goes on.
    """
    from routebench import extract_features
    from routebench.errors import shown

    file = extract_features(backbone, data, output, **asked)
    tell(f"features: {shown(file)}; use them as --data {shlex.quote(f'features:{shown(file)}')}")
    answer(lambda: {"features": file})
