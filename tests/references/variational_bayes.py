"""Variational-Bayes routing, from De Sousa Ribeiro, Leontidis and Kollias 2020, with diagonal or full precisions."""

import math

import torch

from tests.references.competition import softmax_over_parents

OPTIONS = [
    {"alpha0": 0.2},
    {"kappa0": 3.0},
    {"extra_freedom": 7.0},
    {"psi0": 4.0},
    {"covariance": "full"},
    {"covariance": "full", "kappa0": 3.0, "psi0": 0.3, "pose_norm": False, "activation_norm": False},
    {"pose_norm": False},
    {"activation_norm": False},
    {"alpha0": 9.0, "kappa0": 0.1, "psi0": 0.3, "pose_norm": False, "activation_norm": False},
]
TRAINING = True


def variational_bayes(
    V,
    a,
    learned,
    *,
    iterations=3,
    alpha0=1.0,
    kappa0=1.0,
    extra_freedom=1.0,
    psi0=1.0,
    covariance="diagonal",
    pose_norm=True,
    activation_norm=True,
    couple=softmax_over_parents,
):
    """Posterior means and activations of the parents, from votes V (lane, child, parent, pose) and a (lane, child)."""
    D = V.shape[-1]
    R = couple(V.new_zeros(V.shape[:3]))
    for k in range(1, iterations + 1):
        r = R * a[:, :, None]
        R_j = r.sum(dim=1)
        alpha, kappa, nu = alpha0 + R_j, kappa0 + R_j, D + extra_freedom + R_j
        V_bar = (r[..., None] * V).sum(dim=1) / R_j[..., None]
        m = R_j[..., None] * V_bar / kappa[..., None]
        scatter = torch.einsum("lij,lijp,lijq->ljpq", r, V - V_bar[:, None], V - V_bar[:, None])
        of_prior = torch.einsum("lj,ljp,ljq->ljpq", kappa0 * R_j / kappa, V_bar, V_bar)
        inverse = torch.eye(D, dtype=V.dtype) / psi0 + scatter + of_prior
        if covariance == "diagonal":
            inverse = inverse * torch.eye(D, dtype=V.dtype)
        psi = torch.linalg.inv(inverse)
        ln_pi = torch.digamma(alpha) - torch.digamma(alpha.sum(dim=1, keepdim=True))
        ln_det = sum(torch.digamma((nu - d) / 2) for d in range(D)) + D * math.log(2) + torch.logdet(psi)
        if k < iterations:
            distance = nu[:, None] * torch.einsum("lijp,ljpq,lijq->lij", V - m[:, None], psi, V - m[:, None])
            constant = ln_pi + 0.5 * ln_det - 0.5 * D * math.log(2 * math.pi) - 0.5 * D / kappa
            R = couple(constant[:, None] - 0.5 * distance)
    H = 0.5 * D * math.log(2 * math.pi * math.e) - 0.5 * ln_det
    if activation_norm:
        score = batch_norm(-torch.exp(ln_pi) * H)
    else:
        score = learned["beta_a"] - (learned["beta_u"] + torch.exp(ln_pi) * H)
    return (batch_norm(m) if pose_norm else m), 1 / (1 + torch.exp(-score))


def batch_norm(x, epsilon=1e-5):
    """In training, for each parent (axis 1) over everything else; with one lane by running statistics of 0 and 1."""
    if len(x) == 1:
        return x / math.sqrt(1 + epsilon)
    of_parents = []
    for j in range(x.shape[1]):
        mean = x[:, j].mean()
        variance = ((x[:, j] - mean) ** 2).mean()
        of_parents.append((x[:, j] - mean) / torch.sqrt(variance + epsilon))
    return torch.stack(of_parents, dim=1)
