"""The form of convolutional networks without capsules: a body, and a linear classifier on its features."""

from jaxtyping import Float
from torch import Tensor, nn

from routebench.models.network import Output


class PlainNetwork(nn.Module):
    """A classifier without capsules.

    Args:
        body: images with values in [0, 1] to features (batch, units).
        classifier: features to logits.
    """

    def __init__(self, body: nn.Module, classifier: nn.Linear):
        super().__init__()
        self.body = body
        self.classifier = classifier

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Output:
        """Images with values in [0, 1]; scores are sigmoids of the logits."""
        logits = self.classifier(self.body(images))
        return Output(logits, logits.sigmoid())

    def features(self, images: Float[Tensor, "batch channel height width"]) -> dict[str, Tensor]:
        """`hidden`, what the classifier sees, and `logits`, each (batch, units)."""
        hidden = self.body(images)
        return {"hidden": hidden, "logits": self.classifier(hidden)}
