"""The Set Transformer: attention among the members of a set, independent of their order."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from routebench.arguments import Count, checked

Set = Float[Tensor, "batch member width"]
Bias = Float[Tensor, "batch member"]


class AttentionBlock(nn.Module):
    """Members of one set attend to those of another: MAB of Lee et al., equations 6 and 7.

    `H = LayerNorm(X + Multihead(X, Y, Y))`, then `LayerNorm(H + ReLU layer of H)`.

    Source: Lee et al., "Set Transformer", ICML 2019 (arXiv:1810.00825), section 3.1. Departure: the feed-forward layer
    is one linear layer with ReLU, as in the authors' code; the paper allows any row-wise layer. Where that code departs
    from the equations, this does not: it adds attention to projected members, has no matrix behind the heads, and
    divides logits by the root of the whole width, where here it is that of a head's.

    Args:
        width: elements of every member, in and out; a multiple of heads.
        heads: number of heads of attention.
        layer_norm: normalise as above; False omits both.
        hidden: units of a hidden layer with ReLU; the feed-forward layer is then two linear ones with that between
            them, as in the code of Kosiorek et al. (stacked capsule autoencoders). None for one linear layer with ReLU.
    """

    @checked
    def __init__(self, width: Count, heads: Count, *, layer_norm: bool = True, hidden: int | None = None):
        super().__init__()
        if width % heads:
            raise ValueError(f"expected a width that is a multiple of heads, got {width} and {heads}")
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.forward_layer = (
            nn.Sequential(nn.Linear(width, width), nn.ReLU())
            if hidden is None
            else nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) if layer_norm else nn.Identity() for _ in range(2))

    def forward(
        self,
        asking: Float[Tensor, "batch asking width"],
        asked: Float[Tensor, "batch asked width"],
        bias: Float[Tensor, "batch asked"] | None = None,
    ) -> Float[Tensor, "batch asking width"]:
        """The asking set after attention.

        Args:
            asking: the members that attend.
            asked: the members attended to.
            bias: added to the logit of every asked member; log w makes it count as w members.
        """
        query = self._in_heads(self.query(asking))
        key, value = (self._in_heads(part) for part in self.key_value(asked).chunk(2, dim=-1))
        mask = None if bias is None else bias[:, None, None]  # b head asking asked
        seen = functional.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)
        hidden = self.norms[0](asking + self.out(seen))
        changed: Tensor = self.norms[1](hidden + self.forward_layer(hidden))
        return changed

    def _in_heads(self, members: Set) -> Float[Tensor, "batch head member share"]:
        placed: Tensor = rearrange(members, "b m (h w) -> b h m w", h=self.heads)
        return placed


class SelfAttention(nn.Module):
    """Members of a set attend to each other: SAB, equation 8. Arguments as for `AttentionBlock`."""

    def __init__(self, width: int, heads: int, *, layer_norm: bool = True, hidden: int | None = None):
        super().__init__()
        self.block = AttentionBlock(width, heads, layer_norm=layer_norm, hidden=hidden)

    def forward(self, members: Set, bias: Bias | None = None) -> Set:
        """The set after attention."""
        changed: Tensor = self.block(members, members, bias)
        return changed


class InducedSelfAttention(nn.Module):
    """Members attend to a few learned points, which attend to all members: ISAB, equations 9 and 10.

    Args:
        points: inducing points.
        width, heads, layer_norm: as for `AttentionBlock`.
    """

    def __init__(self, width: int, heads: int, points: int, *, layer_norm: bool = True):
        super().__init__()
        self.points = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, points, width)))
        self.gather = AttentionBlock(width, heads, layer_norm=layer_norm)
        self.spread = AttentionBlock(width, heads, layer_norm=layer_norm)

    def forward(self, members: Set) -> Set:
        """The set after attention."""
        gathered = self.gather(self.points.expand(len(members), -1, -1), members)
        changed: Tensor = self.spread(members, gathered)
        return changed


class PoolingByAttention(nn.Module):
    """Learned seeds attend to a set and become its summary: PMA, equation 11.

    Args:
        seeds: members of the summary.
        width, heads, layer_norm: as for `AttentionBlock`.
    """

    def __init__(self, width: int, heads: int, seeds: int, *, layer_norm: bool = True):
        super().__init__()
        self.seeds = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, seeds, width)))
        self.before = nn.Linear(width, width)
        self.block = AttentionBlock(width, heads, layer_norm=layer_norm)

    def forward(self, members: Set) -> Float[Tensor, "batch seed width"]:
        """The summary of each set."""
        seeds = self.seeds.expand(len(members), -1, -1)
        summary: Tensor = self.block(seeds, self.before(members).relu())
        return summary
