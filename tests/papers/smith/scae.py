"""Losses of a stacked capsule autoencoder for one image or batch, in plain float64 loops."""

import math


def normal(values, means, deviation):
    """Density of independent normal numbers of one deviation."""
    found = 1.0
    for value, mean in zip(values, means, strict=True):
        found *= math.exp(-0.5 * ((value - mean) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    return found


def explained(poses, presences, votes, deviations, weights, *, normalised, clutter):
    """log-likelihood of one image's parts, and responsibilities [object][part].

    Args:
        poses: six numbers per part.
        presences: one per part.
        votes: six numbers per object and part.
        deviations, weights: one per object and part.
    """
    total, posterior = 0.0, [[0.0] * len(poses) for _ in votes]
    for m, pose in enumerate(poses):
        joint = [weights[k][m] * normal(pose, votes[k][m], deviations[k][m]) for k in range(len(votes))]
        everything = sum(joint) + clutter * clutter
        for k, of_one in enumerate(joint):
            posterior[k][m] = of_one / everything
        if normalised:
            everything /= sum(weights[k][m] for k in range(len(votes))) + clutter
        total += presences[m] * math.log(everything)
    return total, posterior


def prior_losses(presences, *, objects_per_image, share, images):
    """Within and between examples, of presences [image][object]."""
    within = sum((sum(row) - objects_per_image) ** 2 for row in presences) / len(presences)
    objects, count = len(presences[0]), images or len(presences)
    sums = [count * sum(row[k] for row in presences) / len(presences) for k in range(objects)]
    return within, sum((value - count * share) ** 2 for value in sums) / objects


def posterior_losses(presences):
    """Likewise: entropies, the second with a minus."""
    within = sum(_entropy(row) for row in presences) / len(presences)
    return within, -_entropy([sum(row[k] for row in presences) for k in range(len(presences[0]))])


def _entropy(masses):
    shares = [mass / sum(masses) for mass in masses]
    return -sum(share * math.log(share) for share in shares if share > 0)


def pixels(image, templates, weights, ground, ground_weight, deviation):
    """log-likelihood of one image's pixels under the mixture of templates that were moved already.

    Args:
        image: values, flat.
        templates, weights: of every part, flat likewise; weights are no logits.
    """
    total = 0.0
    for place, value in enumerate(image):
        parts = [(weight[place], template[place]) for weight, template in zip(weights, templates, strict=True)]
        parts.append((ground_weight, ground))
        likely = sum(weight * normal([value], [mean], deviation) for weight, mean in parts)
        total += math.log(likely / sum(weight for weight, _ in parts))
    return total
