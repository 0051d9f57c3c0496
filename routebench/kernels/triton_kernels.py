"""The sweep in Triton's language: what one program does on a GPU. `triton_sweep` starts them.

All tensors of a tile have the axes lane, parent, row, column. A matrix pose has the rows and columns of the matrix, a
vector pose one row. Then every vote is `V[lane, parent, row, column] = sum_c u[lane, row, c] W[parent, c, column]`,
with `c` over the `inner` elements. Axes are padded to powers of two, with poses of zero and parents that get no
coupling. Sums are in single precision. No two programs write to the same place, so that results are the same each time.

Arguments that are tuples of pointers have None for what is left out, which the compiler sees.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917, RET505
# This is Triton's language: it has no types, no keyword arguments at a launch, and compiles what follows a `return`
# unless there is an `else`.

import inspect

import triton
import triton.language as tl


def _kernel(function):
    """`triton.jit` of what was written, without the checks of shapes that tests wrap around every function."""
    return triton.jit(inspect.unwrap(function))


@_kernel
def sums(given, out, sizes, per_part, tile: tl.constexpr):
    """Mass, first and second moment of a tile of lanes, over one part of the children: (part, lane, parent, ..)."""
    at = _axes(tl.program_id(0) * tile.lanes_tile, tile)
    part = tl.program_id(1)
    vectors = _vectors(given, at, sizes, tile)
    mass = tl.full([tile.lanes_tile, tile.parents_tile], 0.0, tl.float32)
    first = tl.full([tile.lanes_tile, tile.parents_tile, tile.rows_tile, tile.columns_tile], 0.0, tl.float32)
    second = first
    for child in range(part * per_part, tl.minimum((part + 1) * per_part, sizes.seen)):
        apart = _votes(given, child, vectors, at, sizes, tile)
        coupling = _coupling(given, child, apart, vectors, at, sizes, tile)
        weighted = coupling * _of_child(given.weights, child, at, sizes, 1.0)[:, None]
        mass += weighted
        first += weighted[:, :, None, None] * apart
        if out.second is not None:
            second += weighted[:, :, None, None] * apart * apart
    _store_scalars(out.mass, mass, part, at, sizes, tile)
    _store_poses(out.first, first, part, at, sizes, tile)
    _store_poses(out.second, second, part, at, sizes, tile)


@_kernel
def totals(given, out, sizes, per_part, tile: tl.constexpr):
    """The greatest logit of each child for a tile of lanes, and the sum of all exponentials of logits less this one.

    Both are (lane, child). Where each parent competes apart, a logit is the greatest of its own: (lane, child, parent).
    """
    at = _axes(tl.program_id(0) * tile.lanes_tile, tile)
    part = tl.program_id(1)
    vectors = _vectors(given, at, sizes, tile)
    for child in range(part * per_part, tl.minimum((part + 1) * per_part, sizes.seen)):
        logits = _logits(given, _votes(given, child, vectors, at, sizes, tile), vectors, tile)
        if tile.coupling == "apart":
            _store_of_competitions(out.peak, logits, child, at, sizes, tile)
        else:
            peak = tl.max(logits, 1)
            _store_of_child(out.peak, peak, child, at, sizes)
            _store_of_child(out.total, tl.sum(tl.exp(logits - peak[:, None]), 1), child, at, sizes)


@_kernel
def expectations(given, gradients, out, sizes, per_part, tile: tl.constexpr):
    """The sum of w R dL/dR over competing parents, for each child of a tile of lanes: as `totals`."""
    at = _axes(tl.program_id(0) * tile.lanes_tile, tile)
    part = tl.program_id(1)
    vectors = _vectors(given, at, sizes, tile)
    gains = _gains(gradients, at, sizes, tile)
    for child in range(part * per_part, tl.minimum((part + 1) * per_part, sizes.seen)):
        apart = _votes(given, child, vectors, at, sizes, tile)
        coupling = _coupling(given, child, apart, vectors, at, sizes, tile)
        expected = coupling * _gain(gradients, apart, gains)
        expected *= _of_child(given.weights, child, at, sizes, 1.0)[:, None]
        if tile.coupling == "apart":
            _store_of_competitions(out, expected, child, at, sizes, tile)
        else:
            _store_of_child(out, tl.sum(expected, 1), child, at, sizes)


@_kernel
def to_parents(given, gradients, out, sizes, per_part, tile: tl.constexpr):
    """Gradients of query, curvature, bias and centre of a tile of lanes, over one part of the children.

    Shapes are those of the inputs, behind an axis of parts.
    """
    at = _axes(tl.program_id(0) * tile.lanes_tile, tile)
    part = tl.program_id(1)
    vectors = _vectors(given, at, sizes, tile)
    gains = _gains(gradients, at, sizes, tile)
    bias = tl.full([tile.lanes_tile, tile.parents_tile], 0.0, tl.float32)
    query = tl.full([tile.lanes_tile, tile.parents_tile, tile.rows_tile, tile.columns_tile], 0.0, tl.float32)
    curvature = query
    centre = query
    for child in range(part * per_part, tl.minimum((part + 1) * per_part, sizes.seen)):
        apart = _votes(given, child, vectors, at, sizes, tile)
        _, of_logits, of_votes = _pull(given, gradients, child, apart, vectors, gains, at, sizes, tile)
        of_terms = of_logits[:, :, None, None] * apart
        bias += of_logits
        query += of_terms
        curvature -= 0.5 * of_terms * apart
        centre -= of_votes
    _store_scalars(out.bias, bias, part, at, sizes, tile)
    _store_poses(out.query, query, part, at, sizes, tile)
    _store_poses(out.curvature, curvature, part, at, sizes, tile)
    _store_poses(out.centre, centre, part, at, sizes, tile)


@_kernel
def to_children(given, gradients, out, sizes, per_part, tile: tl.constexpr):
    """Gradients that one child gets from one part of the lanes.

    They are of its poses (lane, child, pose in) and weights (lane, child), and of W and the offset, which are sums
    over lanes: of the inputs' shapes, behind an axis of parts.
    """
    child = tl.program_id(0)
    part = tl.program_id(1)
    offset = tl.full([tile.parents_tile, tile.rows_tile, tile.columns_tile], 0.0, tl.float32)
    weight = ()
    for _each in tl.static_range(tl.constexpr(tile.inner)):
        weight = weight + (offset,)  # noqa: RUF005  # Triton unpacks no tuples
    for start in range(part * per_part, tl.minimum((part + 1) * per_part, sizes.lanes), tile.lanes_tile):
        at = _axes(start, tile)
        vectors = _vectors(given, at, sizes, tile)
        gains = _gains(gradients, at, sizes, tile)
        apart = _votes(given, child, vectors, at, sizes, tile)
        expected, _, of_votes = _pull(given, gradients, child, apart, vectors, gains, at, sizes, tile)
        _store_of_child(out.weights, expected, child, at, sizes)
        offset += tl.sum(of_votes, 0)
        poses, has_pose = _children_at(given, child, at, sizes, tile)
        weights, has_weight = _weight_at(given.weight, child, at, tile)
        grown = ()
        for c in tl.static_range(tl.constexpr(tile.inner)):
            pose = tl.load(poses + c, mask=has_pose, other=0.0).to(tl.float32)
            grown = grown + (weight[c] + tl.sum(of_votes * pose, 0),)  # noqa: RUF005
            factor = tl.load(weights + c * tile.columns, mask=has_weight, other=0.0).to(tl.float32)
            of_pose = tl.sum(tl.sum(of_votes * factor, 3), 1)  # over columns and parents: (lane, row)
            _store_pose(out.children, of_pose, child, c, at, sizes, tile)
        weight = grown
    at = _axes(0, tile)
    _store_weight(out.weight, weight, part * sizes.seen + child, at, tile)
    _store_offset(out.offset, offset, part * sizes.seen + child, at, tile)


@_kernel
def _axes(first, tile: tl.constexpr):
    """Numbers of the lanes, parents, rows and columns of a tile."""
    lanes, parents = first + tl.arange(0, tile.lanes_tile), tl.arange(0, tile.parents_tile)
    return lanes, parents, tl.arange(0, tile.rows_tile), tl.arange(0, tile.columns_tile)


@_kernel
def _votes(given, child, vectors, at, sizes, tile: tl.constexpr):
    """V - c for one child: a whole tile."""
    poses, has_pose = _children_at(given, child, at, sizes, tile)
    weights, has_weight = _weight_at(given.weight, child, at, tile)
    apart = tl.full([tile.lanes_tile, tile.parents_tile, tile.rows_tile, tile.columns_tile], 0.0, tl.float32)
    for c in tl.static_range(tl.constexpr(tile.inner)):
        pose = tl.load(poses + c, mask=has_pose, other=0.0).to(tl.float32)
        apart += pose * tl.load(weights + c * tile.columns, mask=has_weight, other=0.0).to(tl.float32)
    if given.offset is not None:
        place, inside = _elements_at(at, tile)
        first = given.offset + child * (tile.rows * tile.columns)
        apart += tl.load(first + place, mask=inside, other=0.0).to(tl.float32)[None, None, :, :]
    if given.centre is not None:
        apart -= vectors[3]
    return apart


@_kernel
def _children_at(given, child, at, sizes, tile: tl.constexpr):
    """Addresses of u[lane, row, 0] of one child, (lane, 1, row, 1), and which there are."""
    lanes, _, rows, _ = at
    if given.cell_of is None:
        images, cells = lanes, child
    else:
        images, places = lanes // sizes.positions, (lanes % sizes.positions) * sizes.seen + child
        cells = tl.load(given.cell_of + places, mask=lanes < sizes.lanes, other=0)
    first = (images.to(tl.int64) * sizes.cells + cells) * (tile.rows * tile.inner)
    place = first[:, None, None, None] + (rows * tile.inner)[None, None, :, None]
    return given.children + place, (lanes < sizes.lanes)[:, None, None, None] & (rows < tile.rows)[None, None, :, None]


@_kernel
def _weight_at(pointer, number, at, tile: tl.constexpr):
    """Addresses of W[number, parent, 0, column], (1, parent, 1, column), and which there are."""
    _, parents, _, columns = at
    first = (number * tile.parents + parents) * (tile.inner * tile.columns)
    place = first[None, :, None, None] + columns[None, None, None, :]
    inside = (parents < tile.parents)[None, :, None, None] & (columns < tile.columns)[None, None, None, :]
    return pointer + place, inside


@_kernel
def _vectors(given, at, sizes, tile: tl.constexpr):
    """Query, curvature, bias and centre of all parents."""
    return (
        _load_poses(given.query, at, sizes, tile),
        _load_poses(given.curvature, at, sizes, tile),
        _load_scalars(given.bias, at, sizes, tile),
        _load_poses(given.centre, at, sizes, tile),
    )


@_kernel
def _logits(given, apart, vectors, tile: tl.constexpr):
    """(lane, parent), minus infinity for parents that only fill the tile."""
    query, curvature, bias, _ = vectors
    terms = tl.zeros_like(apart)
    if given.query is not None:
        terms += apart * query
    if given.curvature is not None:
        terms -= 0.5 * apart * apart * curvature
    logits = _over_poses(terms)
    if given.bias is not None:
        logits += bias
    return tl.where(tl.arange(0, tile.parents_tile)[None, :] < tile.parents, logits, float("-inf"))


@_kernel
def _coupling(given, child, apart, vectors, at, sizes, tile: tl.constexpr):
    """R of one child: (lane, parent)."""
    if tile.coupling == "one":
        return tl.full([tile.lanes_tile, tile.parents_tile], 1.0, tl.float32)
    else:
        logits = _logits(given, apart, vectors, tile)
        if tile.coupling != "softmax":
            peak = _of_competitions(given.peak, child, at, sizes, 0.0, tile)
            return tl.exp(logits - peak) / _of_competitions(given.total, child, at, sizes, 1.0, tile)
        else:
            peak = tl.max(logits, 1)
            if tile.orphan:
                peak = tl.maximum(peak, 0.0)
            powers = tl.exp(logits - peak[:, None])
            total = tl.sum(powers, 1)
            if tile.orphan:
                total += tl.exp(-peak)
            return powers / total[:, None]


@_kernel
def _gains(gradients, at, sizes, tile: tl.constexpr):
    """Gradients of mass, first and second moment."""
    return (
        _load_scalars(gradients.mass, at, sizes, tile),
        _load_poses(gradients.first, at, sizes, tile),
        _load_poses(gradients.second, at, sizes, tile),
    )


@_kernel
def _gain(gradients, apart, gains):
    """The gain of the loss with w R: (lane, parent)."""
    of_mass, of_first, of_second = gains
    terms = tl.zeros_like(apart)
    if gradients.first is not None:
        terms += apart * of_first
    if gradients.second is not None:
        terms += apart * apart * of_second
    gain = _over_poses(terms)
    if gradients.mass is not None:
        gain += of_mass
    return gain


@_kernel
def _pull(given, gradients, child, apart, vectors, gains, at, sizes, tile: tl.constexpr):
    """Gradients of the weights of one child (lane), of its logits (lane, parent) and of its votes (a whole tile)."""
    query, curvature, _, _ = vectors
    _, of_first, of_second = gains
    weights = _of_child(given.weights, child, at, sizes, 1.0)[:, None]
    coupling = _coupling(given, child, apart, vectors, at, sizes, tile)
    gain = _gain(gradients, apart, gains)
    expected = tl.sum(coupling * gain, 1)
    of_votes = tl.zeros_like(apart)
    if gradients.first is not None:
        of_votes += of_first
    if gradients.second is not None:
        of_votes += 2.0 * apart * of_second
    of_votes *= (coupling * weights)[:, :, None, None]
    if tile.coupling == "one" or tile.constant:
        of_logits = tl.zeros_like(gain)
    else:
        if given.expected is None:
            of_logits = coupling * weights * (gain - expected[:, None])
        else:
            of_logits = coupling * (weights * gain - _of_competitions(given.expected, child, at, sizes, 0.0, tile))
        if given.query is not None:
            of_votes += of_logits[:, :, None, None] * query
        if given.curvature is not None:
            of_votes -= of_logits[:, :, None, None] * apart * curvature
    return expected, of_logits, of_votes


@_kernel
def _over_poses(terms):
    """Sums over rows and columns: (lane, parent)."""
    return tl.sum(tl.sum(terms, 3), 2)


@_kernel
def _of_child(pointer, child, at, sizes, otherwise: tl.constexpr):
    """Values of every lane for one child: (lane,) of (lane, child)."""
    lanes = at[0]
    if pointer is None:
        return tl.zeros_like(lanes).to(tl.float32) + otherwise
    else:
        place = lanes.to(tl.int64) * sizes.seen + child
        return tl.load(pointer + place, mask=lanes < sizes.lanes, other=otherwise).to(tl.float32)


@_kernel
def _store_of_child(pointer, values, child, at, sizes):
    """Stores into (lane, child)."""
    if pointer is not None:
        lanes = at[0]
        tl.store(pointer + lanes.to(tl.int64) * sizes.seen + child, values, mask=lanes < sizes.lanes)


@_kernel
def _of_competitions(pointer, child, at, sizes, otherwise: tl.constexpr, tile: tl.constexpr):
    """Values of competitions for one child: (lane, parent) of (lane, child, parent); (lane, 1) if parents share it."""
    if tile.coupling == "apart":
        place, inside = _competitions_at(child, at, sizes, tile)
        return tl.load(pointer + place, mask=inside, other=otherwise)
    else:
        return _of_child(pointer, child, at, sizes, otherwise)[:, None]


@_kernel
def _store_of_competitions(pointer, values, child, at, sizes, tile: tl.constexpr):
    """Stores into (lane, child, parent)."""
    place, inside = _competitions_at(child, at, sizes, tile)
    tl.store(pointer + place, values, mask=inside)


@_kernel
def _competitions_at(child, at, sizes, tile: tl.constexpr):
    """Addresses of (lane, child, parent) of one child, and which there are."""
    lanes, parents, _, _ = at
    first = (lanes.to(tl.int64) * sizes.seen + child) * tile.parents
    inside = (lanes < sizes.lanes)[:, None] & (parents < tile.parents)[None, :]
    return first[:, None] + parents[None, :], inside


@_kernel
def _load_scalars(pointer, at, sizes, tile: tl.constexpr):
    """(lane, parent); a number that nobody looks at for what is left out."""
    if pointer is None:
        return 0.0
    else:
        place, inside = _scalars_at(0, at, sizes, tile)
        return tl.load(pointer + place, mask=inside, other=0.0).to(tl.float32)


@_kernel
def _store_scalars(pointer, values, part, at, sizes, tile: tl.constexpr):
    """Stores into (part, lane, parent)."""
    if pointer is not None:
        place, inside = _scalars_at(part, at, sizes, tile)
        tl.store(pointer + place, values, mask=inside)


@_kernel
def _load_poses(pointer, at, sizes, tile: tl.constexpr):
    """(lane, parent, row, column); a number that nobody looks at for what is left out."""
    if pointer is None:
        return 0.0
    else:
        place, inside = _poses_at(0, at, sizes, tile)
        return tl.load(pointer + place, mask=inside, other=0.0).to(tl.float32)


@_kernel
def _store_poses(pointer, values, part, at, sizes, tile: tl.constexpr):
    """Stores into (part, lane, parent, row, column)."""
    if pointer is not None:
        place, inside = _poses_at(part, at, sizes, tile)
        tl.store(pointer + place, values, mask=inside)


@_kernel
def _scalars_at(part, at, sizes, tile: tl.constexpr):
    """Addresses of (part, lane, parent), and which there are."""
    lanes, parents, _, _ = at
    first = (lanes.to(tl.int64) + part * sizes.lanes) * tile.parents
    inside = (lanes < sizes.lanes)[:, None] & (parents < tile.parents)[None, :]
    return first[:, None] + parents[None, :], inside


@_kernel
def _poses_at(part, at, sizes, tile: tl.constexpr):
    """Addresses of (part, lane, parent, row, column), and which there are."""
    scalars, some = _scalars_at(part, at, sizes, tile)
    elements, real = _elements_at(at, tile)
    place = scalars[:, :, None, None] * (tile.rows * tile.columns) + elements[None, None, :, :]
    return place, some[:, :, None, None] & real[None, None, :, :]


@_kernel
def _elements_at(at, tile: tl.constexpr):
    """Addresses of (row, column) in a vote, and which there are."""
    _, _, rows, columns = at
    place = rows[:, None] * tile.columns + columns[None, :]
    return place, (rows < tile.rows)[:, None] & (columns < tile.columns)[None, :]


@_kernel
def _store_pose(pointer, values, child, c, at, sizes, tile: tl.constexpr):
    """Gradients (lane, row) of u[row, c] into (lane, child, row, c)."""
    if pointer is not None:
        lanes, _, rows, _ = at
        first = (lanes.to(tl.int64) * sizes.seen + child) * (tile.rows * tile.inner)
        place = first[:, None] + (rows * tile.inner + c)[None, :]
        tl.store(pointer + place, values, mask=(lanes < sizes.lanes)[:, None] & (rows < tile.rows)[None, :])


@_kernel
def _store_weight(pointer, values, number, at, tile: tl.constexpr):
    """Gradients (parent, row, column) for each c, summed over rows, into (number, parent, c, column)."""
    if pointer is not None:
        places, inside = _weight_at(pointer, number, at, tile)
        for c in tl.static_range(tl.constexpr(tile.inner)):
            tl.store(places + c * tile.columns, tl.sum(values[c], 1)[None, :, None, :], mask=inside)


@_kernel
def _store_offset(pointer, values, number, at, tile: tl.constexpr):
    """Gradients (parent, row, column), summed over parents, into (number, row, column)."""
    if pointer is not None:
        place, inside = _elements_at(at, tile)
        tl.store(pointer + number * (tile.rows * tile.columns) + place, tl.sum(values, 0), mask=inside)
