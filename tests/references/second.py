"""Second transcriptions, for two methods without public code: plain loops in NumPy, apart from all other references.

Their formulas were written before the code and the references that they are held against were opened; arguments for
what a paper does not say (`guard`, `extent`, variances), normal poses of q, and `dynamic_as_descent` came after. Of
Smith et al. the text of the paper was at hand; what it leaves open follows the same notes on it as the code. Of Wang
and Liu the text was not to be had: that transcription rests on what is remembered of it and on one sentence in Tsai et
al. (ICLR 2020). Agreement there says that two readings are one, not that the paper says so.

Arrays are of one lane or of one image. Everything is analytic, so that `slope` can differentiate it.
"""

import math

import numpy as np


def slope(function, point, direction):
    """The derivative of a real function in a direction, by a complex step: exact up to rounding."""
    return np.imag(function(point + 1e-30j * direction)) / 1e-30


def gradient(function, point):
    """All of its derivatives."""
    found = np.zeros(point.shape)
    for place in np.ndindex(point.shape):
        direction = np.zeros(point.shape)
        direction[place] = 1
        found[place] = slope(function, point, direction)
    return found


# Wang and Liu, "An optimization view on dynamic routing between capsules", ICLR 2018 workshop


def length(vector, guard=0.0):
    total = guard
    for number in vector:
        total = total + number * number
    return np.sqrt(total)


def votes_of(children, weights, *, normalised):
    """o_ij = W_ij u_i, or as we remember the paper W_ij u_i / |W_ij|, with the Frobenius norm of the weights."""
    count, parents, inner, outer = weights.shape
    votes = np.zeros((count, parents, outer), np.result_type(children, weights))
    for i in range(count):
        for j in range(parents):
            size = length(weights[i, j].reshape(-1)) if normalised else 1.0
            for d in range(outer):
                for e in range(inner):
                    votes[i, j, d] += children[i, e] * weights[i, j, e, d] / size
    return votes


def weighed(coupling, votes):
    """S_j = sum_i c_ij o_ij."""
    total = np.zeros(votes.shape[1:], votes.dtype)
    for i in range(votes.shape[0]):
        for j in range(votes.shape[1]):
            total[j] += coupling[i, j] * votes[i, j]
    return total


def nearest_coupling(before, votes, parents, alpha):
    """The least of `-sum_j c_ij <o_ij, s_j> + alpha KL(c_i, before_i)` over c_i that sum to 1, for every child."""
    coupling = np.zeros(votes.shape[:2], votes.dtype)
    for i in range(votes.shape[0]):
        for j in range(votes.shape[1]):
            coupling[i, j] = before[i, j] * np.exp(np.sum(votes[i, j] * parents[j]) / alpha)
        coupling[i] /= np.sum(coupling[i])
    return coupling


def wang_liu(votes, *, alpha, iterations, guard=0.0):
    """Poses of parents: alternating minimisation of `-sum c <o, s> + alpha sum c log c`, where |s_j| <= 1.

    The entropy is the divergence from uniform coupling, up to a constant. Out of the last sums come S_j / (1 + max_k
    |S_k|). `guard` is added to squared lengths before the root; the paper has none.
    """
    equal = np.full(votes.shape[:2], 1 / votes.shape[1])
    coupling = equal
    for _ in range(iterations - 1):
        total = weighed(coupling, votes)
        parents = np.array([sum_of_votes / length(sum_of_votes, guard) for sum_of_votes in total])
        coupling = nearest_coupling(equal, votes, parents, alpha)
    total = weighed(coupling, votes)
    lengths = [length(sum_of_votes) for sum_of_votes in total]
    return total / (1 + lengths[int(np.argmax(np.real(lengths)))])


def dynamic_as_descent(votes, *, iterations, guard=0.0):
    """Dynamic routing in the same terms: the divergence is from the last coupling, parents are squashed, alpha is 1.

    Tsai et al. on the paper: it "formulated the Dynamic routing [...] as an optimization problem consisting of a
    clustering loss and a KL regularization term".
    """
    coupling = np.full(votes.shape[:2], 1 / votes.shape[1])
    for iteration in range(iterations):
        if iteration:
            coupling = nearest_coupling(coupling, votes, parents, 1.0)
        parents = weighed(coupling, votes)
        for j in range(len(parents)):
            squared = length(parents[j]) ** 2
            parents[j] *= squared / (1 + squared) / length(parents[j], guard)
    return parents


# Smith, Schut, Gal and van der Wilk, "Capsule networks: a probabilistic perspective", arXiv:2004.03553


def log_normal(x, mean, variance):
    return -((x - mean) ** 2) / (2 * variance) - np.log(2 * math.pi * variance) / 2


def concrete(probability, temperature, uniform):
    """Section 2.2: t "replaced with concrete distributed variables"; Maddison et al., 2017, section 3.1."""
    logit = np.log(probability / (1 - probability)) + np.log(uniform / (1 - uniform))
    return 1 / (1 + np.exp(-logit / temperature))


def log_concrete(t, probability, temperature):
    """Density over t between 0 and 1; Maddison et al., 2017, appendix B."""
    odds = probability / (1 - probability)
    above = temperature * odds * t ** (-temperature - 1) * (1 - t) ** (-temperature - 1)
    return np.log(above / (odds * t**-temperature + (1 - t) ** -temperature) ** 2)


def pose_of(deviation):
    """I + A, as a matrix of three rows."""
    matrix = np.zeros((3, 3), deviation.dtype)
    for r in range(3):
        for c in range(3):
            matrix[r, c] = (1 if r == c else 0) + (deviation[3 * r + c] if r < 2 else 0)
    return matrix


def log_objects(t0, A0, *, probability, temperature, variance=1.0):
    """Equations 1 and 2."""
    total = 0
    for i in range(len(t0)):
        total = total + log_concrete(t0[i], probability, temperature)
        for number in A0[i]:
            total = total + log_normal(number, 0, variance)
    return total


def selection(t0, rho):
    """Equation 3: p(s_j = i). "The dummy capsule is given the zero index" and "is always on"."""
    on = [1, *t0]
    chance = np.zeros(rho.shape, np.result_type(t0, rho))
    for j in range(rho.shape[1]):
        for i in range(len(on)):
            chance[i, j] = rho[i, j] * on[i] / sum(rho[k, j] * on[k] for k in range(len(on)))
    return chance


def log_part(t, A, mean, *, gamma, c, off, temperature):
    """Equations 4 to 6 for one part and one parent, with variances c and off.

    Between 0 and 1 a presence weighs the logarithms of equations 5 and 6, which the paper leaves open.
    """
    there, absent = 0, 0
    for r in range(len(A)):
        there = there + log_normal(A[r], mean[r], c)
        absent = absent + log_normal(A[r], 0, off)
    return log_concrete(t, gamma, temperature) + t * there + (1 - t) * absent


def mean_of(A0, M, *, printed=False):
    """The mean of equation 5, as six numbers: (I + A_i) M_ij - I, or as printed without - I.

    Printed is A_j of the layer above, the text has "the selected parent pose multiplied by a learned pose offset".
    """
    matrix = pose_of(A0) @ M
    if not printed:
        matrix = matrix - np.eye(3)
    return matrix[:2].reshape(-1)


def joint(t1, A1, t0, A0, *, rho, gamma, M, c, off, temperature):
    """log p(A_j, t_j, s_j = i | objects): the summands of equation 9, (parent, part); the dummy's pose has mean 0."""
    chance = selection(t0, rho)
    rows = []
    for i in range(len(chance)):
        row = []
        for j in range(len(t1)):
            mean = np.zeros(6) if i == 0 else mean_of(A0[i - 1], M[i - 1, j])
            found = log_part(t1[j], A1[j], mean, gamma=gamma[i, j], c=c[i, j], off=off, temperature=temperature)
            row.append(np.log(chance[i, j]) + found)
        rows.append(row)
    return np.array(rows)


def log_parts(summands):
    """Equation 9, over all parts.

    Equation 8 prints "sum_s [p(s | t, A) p(t, A, s)]", which counts p(s) twice; appendix A derives "sum_j p(A_i, t_i |
    A_j, t_j, s_i = j) p(s_i = j | A_j, t_j)".
    """
    total = 0
    for column in summands.T:
        top = max(np.real(column))
        total = total + top + np.log(sum(np.exp(summand - top) for summand in column))
    return total


def attached(summands):
    """Appendix D: the posterior over s, (parent, part); its sums over parts are the expected numbers of children."""
    shares = np.exp(summands)
    for j in range(shares.shape[1]):
        shares[:, j] /= sum(shares[:, j])
    return shares


def log_belief(t, A, *, probability, temperature, mean, deviation=None):
    """log q of one layer, a "mean field"; delta poses (no deviation) have no term."""
    total = 0
    for i in range(len(t)):
        total = total + log_concrete(t[i], probability[i], temperature)
        if deviation is not None:
            for r in range(len(A[i])):
                total = total + log_normal(A[i][r], mean[i][r], deviation[i][r] ** 2)
    return total


def moved(template, pose, size, extent):
    """A T: what lies at p in the template is drawn at A p, bilinearly, with zeros around it.

    Canvas and template reach from -1 to 1, x to the right and y down; `extent` is (x, y) of the corner of an unmoved
    template on the canvas. The paper says none of this.
    """
    height, width = size
    rows, columns = template.shape
    back = np.linalg.inv(np.diag([extent[0], extent[1], 1.0]) @ pose)
    image = np.zeros(size, np.result_type(template, pose))
    for r in range(height):
        for c in range(width):
            x, y, _ = back @ np.array([(c + 0.5) * 2 / width - 1, (r + 0.5) * 2 / height - 1, 1])
            across, down = (x + 1) / 2 * columns - 0.5, (y + 1) / 2 * rows - 0.5
            left, top = math.floor(np.real(across)), math.floor(np.real(down))
            for row, share in ((top, 1 - (down - top)), (top + 1, down - top)):
                for column, part in ((left, 1 - (across - left)), (left + 1, across - left)):
                    if 0 <= row < rows and 0 <= column < columns:
                        image[r, c] += share * part * template[row, column]
    return image


def composited(templates, alphas, poses, t1, size, extent=(1.0, 1.0)):
    """The procedure `alpha compositing` of section 2.1: `P <- over(A_k T_k, t_k * A_k alpha_k, P)`, P of zeros first.

    Returns the colour C_o (channel, row, column) and the alpha of P, which starts at 0 too.
    """
    kind = np.result_type(templates, alphas, poses, t1)
    colour, alpha = np.zeros((templates.shape[1], *size), kind), np.zeros(size, kind)
    for k in range(len(templates)):
        new = [moved(channel, poses[k], size, extent) for channel in templates[k]]
        cover = t1[k] * moved(alphas[k], poses[k], size, extent)
        for place in np.ndindex(*size):
            a, b = cover[place], alpha[place]
            both = a + b * (1 - a)
            alpha[place] = both
            if both != 0:
                for channel in range(len(new)):
                    under = colour[channel][place]
                    colour[channel][place] = (new[channel][place] * a + under * b * (1 - a)) / both
    return colour, alpha


def log_pixels(image, canvas, sigma):
    """Equation 7, with "pixel standard deviation" sigma."""
    total = 0
    for place in np.ndindex(image.shape):
        total = total + log_normal(image[place], canvas[place], sigma**2)
    return total
