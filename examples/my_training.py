"""A loss, an optimizer, a schedule and an augmentation of one's own."""

import torch
from torch.nn.functional import log_softmax

from routebench import augmentations, losses, optimizers, schedules
from routebench.arguments import NonNegative, Share


@losses.register("focal")
def focal(output, labels, moment, *, gamma: NonNegative = 2.0):
    """Cross entropy that counts images less which are classified well (Lin et al., ICCV 2017, equation 4)."""
    right = log_softmax(output.logits, dim=1).gather(1, labels[:, None])
    return -((1 - right.exp()) ** gamma * right).mean()


@optimizers.register("nadam")
def nadam(groups, recipe):
    """Adam with Nesterov's momentum (Dozat, 2016)."""
    return torch.optim.NAdam(groups, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)


@schedules.register("polynomial")
def polynomial(recipe, moment, *, power: NonNegative = 0.9):
    """The learning rate times (1 - progress)^power."""
    return recipe.learning_rate * (1 - moment.progress) ** power


@augmentations.register("erasing")
def erasing(images, generator, *, share: Share = 0.25):
    """Sets a random part of the pixels to zero, other ones in each image."""
    drawn = torch.rand(len(images), 1, *images.shape[2:], generator=generator, device=generator.device)
    return images * (drawn >= share).to(images)
