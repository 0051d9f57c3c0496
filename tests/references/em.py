"""EM routing, from Procedure 1 of Hinton, Sabour and Frosst 2018."""

import math

import torch

from tests.references.competition import softmax_over_parents

OPTIONS = [
    {"final_lambda": 1.0},
    {"final_lambda": 1.0, "lambda_schedule": "training"},
    {"final_lambda": 1.0, "lambda_schedule": "constant"},
    {"mass_normalisation": "ratio"},
    {"variance_floor": 0.5},
    {"variance_floor": 1e-14},
    {"variance_floor": 1e-14, "mean_damping": 0.3},
    {"mean_damping": 0.1},
    {"start_beta_a": -40.0},
    {"beta_a_unit": 40.0},
    {"mean_damping": 0.7, "final_lambda": 1.0},
    {"activation": "mixing"},
]
LITERAL = {"mass_floor": 0.0}
DEPARTURES = [{"mass_floor": 0.3}, {"first_coupling": "types"}, {"misfit": "children"}]


def em(
    V,
    a,
    learned,
    *,
    iterations=3,
    final_lambda=0.01,
    lambda_schedule="iteration",
    mass_normalisation="none",
    variance_floor=5e-4,
    mean_damping=0.0,
    start_beta_a=0.0,  # of what is learned, which is given
    beta_a_unit=1.0,
    first_coupling="competition",
    misfit="votes",
    inverses=None,  # of W, (child, parent, pose, pose), where misfits are those of the children
    activation="description-length",
    progress=1.0,
    couple=softmax_over_parents,
):
    """Means and activations of the parents, from votes V (lane, child, parent, pose) and a (lane, child)."""
    R = (softmax_over_parents if first_coupling == "types" else couple)(V.new_zeros(V.shape[:3]))
    mu = V.new_zeros(V.shape[0], V.shape[2], V.shape[3])
    for k in range(1, iterations + 1):
        w = R * a[:, :, None]
        S = w.sum(dim=1)
        mu = (1 - mean_damping) * (w[..., None] * V).sum(dim=1) / S[..., None] + mean_damping * mu
        apart = V - mu[:, None]
        if misfit == "children":
            apart = torch.einsum("lcjd,cjde->lcje", apart, inverses)
        var = (w[..., None] * apart**2).sum(dim=1) / S[..., None] + variance_floor
        if activation == "mixing":
            a_j = S / S.sum(dim=-1, keepdim=True)
        else:
            charged = S * 100 * V.shape[2] / V.shape[1] if mass_normalisation == "ratio" else S
            cost = (learned["beta_u"][:, None] + torch.log(torch.sqrt(var))) * charged[..., None]
            lam = inverse_temperature(k, final_lambda, lambda_schedule, progress)
            a_j = 1 / (1 + torch.exp(-lam * (beta_a_unit * learned["beta_a"] - cost.sum(dim=-1))))
        if k < iterations:
            R = couple(torch.log(a_j)[:, None] + log_density(apart, torch.zeros_like(mu), var))
    return mu, a_j


def as_released(V, a, b_u, b_a, *, iterations, final_beta, couple):
    """The same as the authors' code has it, in its own units: lambda is `beta`, and b_a counts 5000 times."""
    H = V.shape[3]
    R = torch.full(V.shape[:3], 1 / V.shape[2], dtype=V.dtype)
    mu = torch.zeros_like(V[:, 0])
    for i in range(iterations):
        w = R * a[:, :, None]
        S = w.sum(dim=1) + 1e-7
        mu = 0.9 * (w[..., None] * V).sum(dim=1) / S[..., None] + 0.1 * mu
        var = 5e-4 + (w[..., None] * (V - mu[:, None]) ** 2).sum(dim=1) / S[..., None]
        win = S * (-torch.log(var).sum(dim=-1) - b_u * H * (math.log(2 * math.pi) + 1))
        logit = final_beta * (1 - 0.95 ** (i + 1)) * (win - 5000 * b_a)
        R = couple(torch.nn.functional.logsigmoid(logit)[:, None] + log_density(V, mu, var))
    return mu, torch.sigmoid(logit)


def inverse_temperature(k, final, schedule, progress):
    """lambda in iteration k."""
    return {
        "constant": final,
        "iteration": final * (1 - 0.95**k),
        "training": final * (1 - 0.95**k) * progress,
    }[schedule]


def log_density(V, mu, var):
    """log N(V_ij; mu_j, var_j): (lane, child, parent)."""
    mu, var = mu[:, None], var[:, None]
    return -((V - mu) ** 2 / (2 * var) + 0.5 * torch.log(2 * math.pi * var)).sum(dim=-1)
