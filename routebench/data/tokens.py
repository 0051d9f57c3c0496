"""Items made of tokens, such as the features that a large network gives of a photograph."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from routebench.data.labels import described, expect_labels, expect_tensor, one_label
from routebench.errors import UserError

PIECE = 1 << 20
"""Numbers that are looked at together: 4 MB in single precision. Of larger ones, a process keeps the memory."""
WIDTHS = {torch.float16: (torch.int16, 0x7C00), torch.float32: (torch.int32, 0x7F800000)}
"""Types of a token's numbers; of each, whole numbers of as many bits, and the bits of the exponent."""
LARGEST, BIAS, FRACTION = 128, 127, 23
"""Of float32: the power of two that it does not hold, what is added to an exponent, and bits of the fraction."""


@dataclass(frozen=True)
class Tokens:
    """Labelled items, each of several tokens: float numbers instead of pixels.

    Parts of one data set can share `values`, which may be mapped from a file, and differ in the rows that they use:
    nothing is copied until a batch is asked for.

    Args:
        values: float16 or float32, (row, token, number).
        labels: int64, (n,), numbers of classes; or bool, (n, classes), where an item may have several classes at once.
        mask: bool, (row, token), false where an item has no such token; None where all items have all. What stands
            in `values` there is never read.
        rows: int64, (n,), the row of each item; None where item k is row k.
        origin: everything that the numbers are computed from, where processors round them otherwise; it stands for them
            in a fingerprint. Empty where the numbers themselves count.

    Raises:
        UserError: a shape or type is another, there are no items, an item has no token, or a number is not finite, or
            so large that the variance of a token's numbers has no place in float32.
    """

    kind: ClassVar[str] = "tokens"
    """The word by which networks and protocols say that they read them."""
    values: Tensor
    labels: Tensor
    mask: Tensor | None = None
    rows: Tensor | None = None
    origin: str = ""

    def __post_init__(self) -> None:
        for name in ("values", "labels", "mask", "rows"):
            if (given := getattr(self, name)) is not None:
                expect_tensor(name, given)
        if self.values.dtype not in WIDTHS or self.values.ndim != 3:
            raise UserError(
                f"expected tokens as float16 or float32 (n, tokens, numbers), got {described(self.values)}; convert "
                "them, with one axis for all tokens of an item"
            )
        if not self.values.numel():
            raise UserError(f"expected at least one item of one token, got {described(self.values)}")
        mask = self.mask
        if mask is not None and (mask.dtype != torch.bool or mask.shape != self.values.shape[:2]):
            raise UserError(
                f"expected the mask as bool {tuple(self.values.shape[:2])}, true where there is a token, got "
                f"{described(mask)}"
            )
        if self.rows is not None and (self.rows.dtype != torch.int64 or self.rows.ndim != 1):
            raise UserError(f"expected rows as int64 (n,), got {described(self.rows)}")
        if self.rows is not None and len(self.rows):
            lowest, highest = int(self.rows.min()), int(self.rows.max())
            if lowest < 0 or highest >= len(self.values):
                raise UserError(f"expected rows from 0 to {len(self.values) - 1}, got {lowest} to {highest}")
        expect_labels(self.labels, len(self.values) if self.rows is None else len(self.rows))
        if self.rows is None:
            self.expect_sound()

    def expect_sound(self) -> None:
        """Looks at every number once. Parts of others that were seen, which have `rows`, are not looked at when made.

        Raises:
            UserError: an item has no token, or a number is not finite, or too large.
        """
        there = None if self.mask is None else self.mask[self._rows].any(dim=1)
        if there is not None and not bool(there.all()):
            first = int((~there).nonzero()[0, 0])
            raise UserError(f"expected a mask that leaves each item a token, got none for item {first}; leave it out")
        whole, exponent = WIDTHS[self.values.dtype]
        power = (LARGEST - math.ceil(math.log2(self.shape[1]))) // 2 - 1  # of differences from the mean, twice as large
        most = exponent if whole is torch.int16 else (power + BIAS) << FRACTION
        for start, piece in self._pieces(self._rows):
            if (largest := int((piece.view(whole) & exponent).max())) < most:
                continue
            wrong, expected, way = ~piece.isfinite(), "finite numbers, got NaN or infinity", "mask it, or mend it"
            if largest < exponent:
                wrong, way = piece.abs() >= 2.0**power, "divide all by one number"
                most_told = f"below {2.0**power:.0e}, got {piece.abs().max():.0e}"
                expected = f"numbers whose squares float32 can add up, {most_told}"
            item, token = wrong.any(dim=2).nonzero()[0].tolist()
            raise UserError(f"expected {expected} in token {token} of item {start + item}; {way}")

    def _pieces(self, rows: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Some rows at a time, with zeros where there is no token, and the place of the first one."""
        step = max(1, PIECE // self.values[0].numel())
        for start in range(0, len(rows), step):
            some = _in_a_row(rows[start : start + step])
            values = self.values[some].contiguous()
            yield start, values if self.mask is None else values.masked_fill(~self.mask[some][..., None], 0)

    @property
    def _rows(self) -> Tensor:
        return torch.arange(len(self.values)) if self.rows is None else self.rows

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """The (tokens, numbers) of every item."""
        tokens, numbers = self.values.shape[1:]
        return tokens, numbers

    @property
    def multi_label(self) -> bool:
        """Tells whether an item may have several classes at once, or none."""
        return self.labels.ndim == 2

    def with_one_label(self) -> "Tokens":
        """The items of exactly one class, with its number as label; all of them where each has one anyway."""
        if not self.multi_label:
            return self
        alone, labels = one_label(self.labels)
        return replace(self, labels=labels, rows=self._rows[alone])

    def at(self, indices: Tensor) -> "Tokens":
        """The items at `indices`, in that order. They share `values`.

        Args:
            indices: numbers of items, in the order in which they are wanted.
        """
        return replace(self, labels=self.labels[indices], rows=self._rows[indices])

    def joined(self, more: "Tokens") -> "Tokens":
        """These items, and then `more`; they are copied unless both share their values.

        Args:
            more: items of the same shape and type, with labels of the same kind.
        """
        labels = torch.cat([self.labels, more.labels])
        if self.values is more.values:
            return replace(self, labels=labels, rows=torch.cat([self._rows, more._rows]))
        values = torch.cat([self.values[self._rows], more.values[more._rows]])
        masks = [one._mask_of(one._rows) for one in (self, more)]
        mask = None if self.mask is None and more.mask is None else torch.cat(masks)
        return Tokens(values, labels, mask)

    def _mask_of(self, rows: Tensor) -> Bool[Tensor, "n token"]:
        if self.mask is None:
            return torch.ones(len(rows), self.shape[0], dtype=torch.bool)
        return self.mask[rows]

    def inputs(self, chosen: Tensor | slice, device: torch.device) -> tuple[Tensor, ...]:
        """Arguments that a network is called with: tokens in float32, zero where there is none, and the mask, if any.

        Args:
            chosen: places of items in this part, or a slice of it.
            device: the device that they are put on.
        """
        rows = self._rows[chosen.cpu() if isinstance(chosen, Tensor) else chosen]
        values = self.values[rows].to(device).float()
        if self.mask is None:
            return (values,)
        mask = self.mask[rows].to(device)
        return values.masked_fill(~mask[..., None], 0), mask

    def to(self, device: torch.device) -> "Tokens":
        """The same: tokens stay where they are, mapped from their file, and go to a device batch by batch."""
        return replace(self, labels=self.labels.to(device), rows=self._rows)

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Everything that tells these items from others, in pieces: type, shape, mask, numbers and labels.

        Their origin and rows stand for numbers that have one.
        """
        kind = f"tokens {self.values.dtype} {(len(self), *self.shape)} {self.mask is not None}"
        yield f"{kind} {self.origin}".strip().encode()
        if self.origin:
            yield self._rows.numpy().tobytes()
        else:
            for _, piece in self._pieces(self._rows):
                yield piece.numpy().data
        if self.mask is not None:
            yield self.mask[self._rows].numpy().tobytes()
        yield np.ascontiguousarray(self.labels.numpy()).tobytes()

    def each(self) -> Iterator[memoryview]:
        """The numbers of each item, for comparisons of items with each other."""
        for _, piece in self._pieces(self._rows):
            for item in piece.numpy():
                yield item.data


def _in_a_row(rows: Tensor) -> Tensor | slice:
    """The same rows as a slice where they follow each other: nothing is copied then."""
    first, last = int(rows[0]), int(rows[-1])
    follow = last - first + 1 == len(rows) and bool((rows[1:] > rows[:-1]).all())
    return slice(first, last + 1) if follow else rows
