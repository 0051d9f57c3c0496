"""ResNet-18 for small images, to which Tsai et al. 2020 compare."""

from torch import nn

from routebench.models.backbones import grid_after, residual_stage, stem
from routebench.models.facts import facts
from routebench.models.plain import PlainNetwork
from routebench.registry import models

HALVED = ((3, 1, 1), (3, 2, 1), (3, 2, 1), (3, 2, 1))


@models.register("resnet18")
@facts(
    source="He, Zhang, Ren and Sun, CVPR 2016, as Tsai et al., ICLR 2020, table 1 use it on CIFAR",
    shape=(3, 32, 32),
    stated_parameters=11_170_000,
    routed=False,
    title="ResNet-18",
)
def resnet18(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """Conv 3x3, then two residual blocks each of 64, 128, 256 and 512 channels, mean over positions, linear classifier.

    For images of about 32 x 32, the first convolution is 3x3 without stride or pooling, which is how the paper's count
    comes out: the ResNet-18 of He et al. is for images of 224 x 224. Images must leave more than one position to take
    the mean of: at least one side above 8.
    """
    if grid_after(shape, *HALVED) == (1, 1):
        raise ValueError(f"images of {shape[1]} x {shape[2]} are too small for this network")
    stages = [residual_stage(maps // 2, maps, 2, stride=2) for maps in (128, 256, 512)]
    body = nn.Sequential(stem(shape[0]), residual_stage(64, 64, 2), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return PlainNetwork(body, nn.Linear(512, classes))
