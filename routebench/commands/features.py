"""`routebench features`: the features that a frozen network gives of a data set, in one file."""

from pathlib import Path

import click
from annotated_types import Ge, Le

from routebench.commands import options
from routebench.options import Execution
from routebench.terminal import answer, tell


@click.command()
@click.argument("backbone", metavar="BACKBONE")
@click.argument("data", metavar="DATA", shell_complete=options.known("data"))
@click.option("-o", "--output", type=options.PATH, required=True, metavar="FILE", help="File to write, .safetensors.")
@click.option(
    "--layer", default="", metavar="NAME", help="Module whose output is taken [default: the last with places]."
)
@click.option(
    "--size",
    type=options.whole(Ge(8), Le(4096)),
    default=224,
    show_default=True,
    help="Height and width of images, 8 to 4096 pixels.",
)
@click.option(
    "--weights", default="", metavar="FILE|random", help="File of weights [default: those that the library finds]."
)
@click.option("--float32", is_flag=True, help="Numbers of 32 bits in place of 16.")
@click.option(
    "--batch", type=options.whole(Ge(1)), default=64, show_default=True, help="Images in a pass of the network."
)
@options.of(Execution, only="device")
def command(  # noqa: PLR0917  # click passes them by name
    backbone: str, data: str, output: Path, layer: str, size: int, weights: str, float32: bool, batch: int, device: str
) -> None:
    """Extract features once; heads then train on them in seconds, as --data features:FILE.

    BACKBONE is efficientnet-lite0, whose weights a package holds, or timm:NAME or torchvision:NAME. DATA is any data
    set of pictures. Every place of the layer's grid becomes a token. If it is interrupted, the same command goes on.
    """
    from routebench import extract_features
    from routebench.errors import shown

    file = extract_features(
        backbone, data, output, layer=layer, size=size, weights=weights, float32=float32, batch=batch, device=device
    )
    tell(f"features: {shown(file)}; use them as --data features:{shown(file)}")
    answer(lambda: {"features": file})
