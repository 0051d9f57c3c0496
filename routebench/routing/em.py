"""EM routing of matrix capsules."""

from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Lt
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from routebench.arguments import Among, Count, NonNegative, Positive, Range
from routebench.capsules import Activations, Poses, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import Axis, description_length_logit, log_normaliser
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed

SWEPT_ONCE = 5e-4 / torch.finfo(torch.float32).eps
"""Variance floors from here on, in units of rounding, need no mean beforehand: with poses up to 1000 in size, gradients
are then as exact as those of an EM in two passes."""


@routing.register("em")
class EMRouting(IterativeRouting):
    """Fits a Gaussian to the votes for each parent; children go to the parents that explain their votes.

    Source: Hinton, Sabour and Frosst, ICLR 2018, Procedure 1.
    Departures: a floor is added to the variance, without which one child per parent makes the density infinite; and
    one to a parent's mass where something is divided by it, without which all is NaN as soon as no child is left for a
    parent. A parent of mass S goes S / (S + floor) of the way to its new mean: 1e-8 is missing at S = 1, half of it at
    S = 1e-8. A parent that competitors leave so little may end elsewhere: in 240 lanes of random problems with T = 5,
    poses were up to a tenth of the largest from those of the literal procedure, and activations up to 5e-5; with
    `final_lambda=1`, where activations decide more, up to 1. `mass_floor=0` is literal.
    The paper counts beta_u once in equation 2 and once per pose element in Procedure 1; this follows the procedure.
    It gives one beta_a for all capsules or one per capsule, depending on the section; here there is a pair per type.

    More iterations can make training harder. A parent's Gaussian, with a variance for each pose element, is fitted to
    the few children that its competitors leave it. Their number depends on the competition. In a network with as many
    types in each layer, as the paper's, a parent of `types+positions` has on average 4.7 a children in the first and
    2.25 a in the second convolutional layer of 32 x 32 images, where a is the mean activation of the children: that is
    children seen by parents, 13^2 by 6^2 and 6^2 by 4^2, whatever the width. A parent of `types` has 9 a, and one of
    `positions`, where each parent type has a share of every child, 4.7 a and 2.25 a times the types: 150 a and 72 a
    with 32 types, 38 a and 18 a with 8. With few children, every E-step brings coupling nearer to all or nothing and
    makes it move more with small changes of the votes, and in lower layers the gradients of different batches no longer
    point the same way. In a network with 8 types in each layer that, and activations that start far from one half,
    keep three iterations from learning in an epoch or two. `types`, `mass_normalisation=ratio` and
    `start_beta_a=-2500` together mended it there.

    The authors' code (google-research, `capsule_em`) is another method in places. As first released, in 2018 and 2019,
    its convolutional layers compete over `positions`, after a first iteration with coupling 1 / types:
    `competition=positions`, `first_coupling=types`. It has `mean_damping=0.1`, `mass_floor=1e-7`, 1e-5 for the classes,
    and, in the unit of our cost, `final_lambda=0.02`, a quarter of it for the classes. It learns beta_a in units of
    2500: `beta_a_unit=2500`. Not followed: 1e-7 of the largest density that a child meets anywhere is added to what its
    coupling is divided by, and with a stride of 2 the positions whose densities are added up there are not those that
    see the child. A later state (2020) has a second path, `conv_capsule_mat_fast`, which adds up over types and over
    the positions that see the child, with the right stride: the axis `types+positions`, our default. It keeps
    damping, mass floor and first iteration, and has four times the lambda in convolutional layers, a beta_u by the
    logarithm of a square, beta_a in units of 800, and other starts.

    Args:
        iterations: t in the paper, which uses 3.
        final_lambda: the inverse temperature that lambda grows to.
        lambda_schedule: `iteration`, lambda (1 - 0.95^k) in iteration k, as in the authors' code; `training`, the same
            times the share of the training run that has passed, which is how others read the paper; `constant`.
        competition: which parents share a child, in convolutional layers; `types+positions` is the literal reading.
        first_coupling: what the uniform coupling of the first iteration sums to one over: `competition`, the same, or
            `types`.
        schedule: the order in which several layers iterate; the paper finishes one layer before the next.
        mass_normalisation: `none`, or `ratio`, which multiplies a parent's mass by 100 x parents / children in its cost
            so that one lambda suits layers with few and with many children (the factor of a public TensorFlow code).
        variance_floor: added to every variance; 5e-4 in the authors' code. With a smaller one (in double precision, one
            below 1e-12), each iteration after the first finds the new mean by a sweep of its own, which needs no
            gradient; variances and gradients are then as exact as in two passes. 0 is the literal procedure, which is
            not finite once a parent has one child.
        mass_floor: added to the mass that something is divided by.
        mean_damping: d of `mean <- (1 - d) weighted mean + d last mean`, which starts at 0; variances are then about
            that mean. 0.1 in the authors' code, of which the paper says nothing.
        start_beta_a: where every beta_a starts; the paper does not say. About -2500 starts activations near one half in
            small networks with `mass_normalisation=ratio`. That TensorFlow code draws it around -1000; in the unit of
            this class the authors' code has -1250, and -2500 for the classes, at twice our lambda.
        beta_a_unit: what is learned is beta_a by this. Lambda is so small that with 1 the steps of an optimizer hardly
            move the logit by beta_a.
        activation: `description-length`, the logistic of the paper, or `mixing`, S_j / sum_k S_k (its section 5). With
            `mixing`, lambda, both betas and `mass_normalisation` change nothing, though betas are still counted as
            parameters.
        misfit: where a child is compared with its parent, for variances, activations and coupling. `votes`: its vote
            with the parent's mean, as in the procedure. `children`: its own pose with what the mean predicts for it by
            the inverse of W, which appendix A.2 calls correct. That stores all votes, and inverts W in every iteration:
            for small networks. Children then need poses as large as their parents'. The paper does not say what the
            variances are then; here a parent has one for each element of its children's poses.
    """

    source = "Hinton, Sabour and Frosst, ICLR 2018, Procedure 1"
    title = "EM"
    colour = "red"
    claims: tuple[Claim, ...] = (
        Claim.CHILD_ORDER,
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.POSE_TRANSLATION,
        Claim.POSE_SIGNED_PERMUTATION,
        Claim.UNIFORM_FIRST,
        Claim.PADDING,
    )
    uses_activations = True

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 3,
        final_lambda: Annotated[NonNegative, Range(1e-3, 1e-1, "log")] = 0.01,
        lambda_schedule: Literal["iteration", "training", "constant"] = "iteration",
        competition: Axis = "types+positions",
        first_coupling: Literal["competition", "types"] = "competition",
        schedule: ScheduleName = "sequential",
        mass_normalisation: Annotated[Literal["none", "ratio"], Among(("none", "ratio"))] = "none",
        variance_floor: NonNegative = 5e-4,
        mass_floor: NonNegative = 1e-8,
        mean_damping: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0,
        start_beta_a: Annotated[float, Range(-5000.0, 0.0)] = 0.0,
        beta_a_unit: Positive = 1.0,
        activation: Literal["description-length", "mixing"] = "description-length",
        misfit: Literal["votes", "children"] = "votes",
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.final_lambda: NonNegative = final_lambda
        self.lambda_schedule = lambda_schedule
        self.competition = competition
        self.first_coupling = first_coupling
        if first_coupling == "types" and competition != "types":
            # uniform coupling need not sum to one over the competition
            broken = (Claim.MASS_CONSERVATION, Claim.UNIFORM_FIRST)
            self.claims = tuple(claim for claim in self.claims if claim not in broken)
        self.mass_normalisation = mass_normalisation
        self.variance_floor = variance_floor
        self.mass_floor: float = mass_floor
        self.mean_damping = mean_damping
        if mean_damping > 0:  # the first mean is drawn to the origin
            self.claims = tuple(claim for claim in self.claims if claim is not Claim.POSE_TRANSLATION)
        self.activation = activation
        self.misfit = misfit
        if misfit == "children" and sizes.pose_below != sizes.pose:
            found = f"{sizes.pose_below} and {sizes.pose}"
            raise ValueError(f"misfit 'children' needs poses of one size below and above, got {found} elements")
        self.beta_u = nn.Parameter(torch.zeros(sizes.parents))
        self.start_beta_a, self.beta_a_unit = start_beta_a, beta_a_unit
        self.beta_a = nn.Parameter(torch.full((sizes.parents,), start_beta_a / beta_a_unit))

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """One E-step (in the first iteration, uniform coupling) and one M-step."""
        logits: dict[str, Any] = {}  # none: uniform coupling
        if previous is None:
            votes = votes.competing_over("types") if self.first_coupling == "types" else votes
        if self.misfit == "children":
            return self._iterate_below(votes, activations, previous)
        if previous is None:
            mass, first, _ = votes.sweep(weights=activations)
            centre = self._per_mass(first, mass)
            last = torch.zeros_like(centre)
        else:
            centre = last = previous.memory[0]
            _, variance, log_activation = previous.memory
            logits = {"curvature": 1 / variance, "bias": log_activation + log_normaliser(variance)}
            if self.variance_floor < SWEPT_ONCE * torch.finfo(variance.dtype).eps:
                centre, logits = self._about_next_mean(votes, activations, last, **logits)
        mass, first, second = votes.sweep(centre=centre, weights=activations, moments=2, **logits)
        assert second is not None  # two moments were asked for
        shift = self._per_mass(first, mass)  # of the mean, from the centre
        mean = centre + shift
        variance = (self._per_mass(second, mass) - shift.square()).clamp(min=0) + self.variance_floor
        if self.mean_damping > 0:
            away = self.mean_damping * (last - mean)
            mean, variance = mean + away, variance + away.square()
        return self._routed(mass, mean, variance, previous, votes.there)

    def _iterate_below(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """The same with misfits in the pose space of the children, and with all votes stored."""
        stored = votes.dense()
        if previous is None:
            logits, last = stored.new_zeros(stored.shape[:3]), torch.zeros_like(stored[:, 0])
        else:
            last, variance, log_activation = previous.memory
            distance = (votes.misfit(last).square() / variance[:, None]).sum(dim=-1)  # lane, child, parent
            logits = (log_activation + log_normaliser(variance))[:, None] - 0.5 * distance
        coupling = votes.competition.couple(logits)
        weights = coupling * activations[..., None]
        mass = weights.sum(dim=1)
        mean = self._per_mass(votes.aggregate(weights, shown=coupling), mass)
        mean = mean + self.mean_damping * (last - mean)
        squares = (weights[..., None] * votes.misfit(mean).square()).sum(dim=1)
        variance = self._per_mass(squares, mass) + self.variance_floor
        return self._routed(mass, mean, variance, previous, votes.there)

    def _routed(
        self, mass: Tensor, mean: Tensor, variance: Tensor, previous: Routed | None, there: int | Tensor
    ) -> Routed:
        """Result of an M-step: parents, and what the next E-step needs."""
        iteration = 1 if previous is None else previous.iteration + 1
        log_activation, logit = self._activate(mass, variance, iteration, there)
        memory = (mean, variance, log_activation)
        return Routed(mean, log_activation.exp(), logit, iteration=iteration, memory=memory)

    def _per_mass(
        self, moment: Float[Tensor, "lane parent pose"], mass: Float[Tensor, "lane parent"]
    ) -> Float[Tensor, "lane parent pose"]:
        return moment / (mass + self.mass_floor)[..., None]

    def _about_next_mean(
        self, votes: Votes, activations: Activations, last: Poses, *, curvature: Tensor, bias: Tensor
    ) -> tuple[Poses, dict[str, Any]]:
        """The mean that this iteration will find, as a constant, and the same logits about it.

        About the last mean, which a parent may leave far behind, a small variance is a difference of large moments.
        With m the last mean, c the next: `-1/2 k (V - m)^2 = -1/2 k (V - c)^2 + k (m - c) (V - c) - 1/2 k (m - c)^2`.
        """
        with torch.no_grad():
            mass, first, _ = votes.sweep(
                curvature=curvature, bias=bias, centre=last, weights=activations, watched=False
            )
            centre = last + self._per_mass(first, mass)
        away = last - centre
        query = curvature * away
        return centre, {"query": query, "curvature": curvature, "bias": bias - 0.5 * (query * away).sum(dim=-1)}

    def inverse_temperature(self, iteration: int) -> float:
        """lambda in iteration 1, 2, ..."""
        if self.lambda_schedule == "constant":
            return self.final_lambda
        grown: float = self.final_lambda * (1 - 0.95**iteration)
        return grown * self.progress if self.lambda_schedule == "training" else grown

    def _activate(
        self,
        mass: Float[Tensor, "lane parent"],
        variance: Float[Tensor, "lane parent pose"],
        iteration: int,
        there: int | Float[Tensor, "lane 1"],
    ) -> tuple[Float[Tensor, "lane parent"], Float[Tensor, "lane parent"] | None]:
        """The logarithm of the parents' activations and, for the logistic, its argument."""
        if self.activation == "mixing":
            mass = mass + self.mass_floor
            return torch.log(mass) - torch.log(mass.sum(dim=-1, keepdim=True)), None
        if self.mass_normalisation == "ratio":
            mass = mass * (100 * self.sizes.parents / there)
        logit = description_length_logit(mass, variance, self.beta_u, self.beta_a_unit * self.beta_a)
        logit = self.inverse_temperature(iteration) * logit
        return logsigmoid(logit), logit
