// One sweep over the children and its gradient, without storing votes; README.md says how it is laid out.
//
// Compiled once per pose size: CHILD_POSE and POSE elements of a child and of a vote, SIDE of matrix poses (0: vectors).
// N images stand side by side in a vector register ("a block"), so weights are broadcast and softmax is element by
// element. Arrays are (block, ..., N). Each call does the child types [begin, end) of every window: calls for disjoint
// types write to disjoint gradients of weights and children, and to their own partial sums of parents.
#include <cmath>
#include <cstring>
#include <vector>

#if defined(__AVX512F__)
constexpr int N = 16;
#elif defined(__AVX__)
constexpr int N = 8;
#else
constexpr int N = 4;
#endif
constexpr int IN = CHILD_POSE, D = POSE, P = SIDE;
constexpr int FAN = P ? P : IN;                // products in one element of a vote
constexpr int SIZE = P ? P * P : IN * D;       // weights of one child and parent
constexpr int S = P ? P : 1, ROW = P ? P : D;  // rows of a matrix pose; elements of a vote in one row
constexpr int divisor(int n) { return n % 4 == 0 ? 4 : n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : n % 5 == 0 ? 5 : 1; }
constexpr int E = divisor(ROW), K = divisor(FAN);  // how many elements are in registers at a time

typedef float Vec __attribute__((vector_size(4 * N)));
typedef int Whole __attribute__((vector_size(4 * N)));

struct Problem {
    const Vec *children;    // (block, cell, IN)
    const float *weight;    // (child, parent, SIZE)
    const float *offset;    // (child, D), or null
    const Vec *query;       // (block, position, parent, D), as curvature and centre
    const Vec *curvature, *centre;
    const Vec *bias;        // (block, position, parent), or null
    const Vec *weights;     // (block, position, child), or null
    const Vec *normaliser;  // (block, cell): log of the sum over all that compete for a cell; null: the parents of a lane do
    const int *cells;       // (position, child): which cell a child of a window is
    long blocks, positions, cell_count, groups, types, parents;  // a window has groups x types children
    int orphan, uniform, full;  // full: with curvature, centre and second moments
};
struct Sums { Vec *mass, *first, *second; };               // as bias, as query
struct Gradients {
    const Vec *mass, *first, *second, *expectation;        // given: of the sums; as normaliser, or null
    Vec *children, *query, *curvature, *centre, *bias, *weights;
    float *weight, *offset;                                // wanted, or null
    int constant_coupling;
};

static inline Vec splat(float x) { return x - Vec{}; }
static inline float total(Vec v) { float s = 0; for (int n = 0; n < N; ++n) s += v[n]; return s; }
static inline Vec greater(Vec a, Vec b) { return a > b ? a : b; }

// e^x for x <= 0 (and hardly above), relative error below 2e-7; 0 below -87; NaN stays NaN.
static inline Vec exponential(Vec x) {
    Vec t = x * 1.44269504f;
    t = t < -126.f ? splat(-126.f) : t;
    Whole n = __builtin_convertvector(t - 0.5f, Whole);  // towards zero, hence to the nearest
    Vec f = (t - __builtin_convertvector(n, Vec)) * 0.69314718f;
    Vec p = f * (1.f / 5040) + (1.f / 720);
    p = p * f + (1.f / 120);
    p = p * f + (1.f / 24);
    p = p * f + (1.f / 6);
    p = p * f + 0.5f;
    p = p * f + 1.f;
    p = p * f + 1.f;
    return x < -87.f ? splat(0.f) : p * (Vec)((n + 127) << 23);
}

// The child elements and weights that make elements c E .. c E + E - 1 of a vote.
static inline int child_at(int c, int k) { return P ? c * E / S * S + k : k; }
static inline int weight_at(int c, int k) { return P ? k * P + c * E % S : k * D + c * E; }

template <int G> struct Lanes {  // G blocks at one position
    const Vec *query[G], *curvature[G], *centre[G], *bias[G];
    Lanes(const Problem& p, long block, long position) {
        for (int g = 0; g < G; ++g) {
            long lane = (block + g) * p.positions + position;
            query[g] = p.query + lane * p.parents * D;
            curvature[g] = p.curvature + lane * p.parents * D;
            centre[g] = p.centre + lane * p.parents * D;
            bias[g] = p.bias ? p.bias + lane * p.parents : nullptr;
        }
    }
};

// Votes about the centre, x (G, parent, D), and logits, r (G, parent), of one child.
template <bool LOGITS, bool FULL, int G>
static inline void look(const Problem& p, const Lanes<G>& at, long child, const Vec* const* u, Vec* x, Vec* r) {
    const long J = p.parents;
    for (long j = 0; j < J; ++j) {
        const float* w = p.weight + (child * J + j) * SIZE;
        Vec logit[G];
        for (int g = 0; g < G; ++g) logit[g] = LOGITS && p.bias ? at.bias[g][j] : splat(0);
        for (int c = 0; c < D / E; ++c) {
            Vec v[G][E];
            for (int g = 0; g < G; ++g)
                for (int e = 0; e < E; ++e) {
                    v[g][e] = p.offset ? splat(p.offset[child * D + c * E + e]) : splat(0);
                    if (FULL) v[g][e] -= at.centre[g][j * D + c * E + e];
                }
            for (int k = 0; k < FAN; ++k)
                for (int g = 0; g < G; ++g)
                    for (int e = 0; e < E; ++e) v[g][e] += u[g][child_at(c, k)] * w[weight_at(c, k) + e];
            for (int g = 0; g < G; ++g)
                for (int e = 0; e < E; ++e) {
                    const long d = j * D + c * E + e;
                    x[g * J * D + d] = v[g][e];
                    if (!LOGITS) continue;
                    Vec slope = at.query[g][d];
                    if (FULL) slope -= 0.5f * v[g][e] * at.curvature[g][d];
                    logit[g] += v[g][e] * slope;
                }
        }
        for (int g = 0; g < G; ++g) r[g * J + j] = logit[g];
    }
}

// Logits (parent) become coupling; with a normaliser, over all that compete for the cell.
template <bool LOGITS>
static inline void couple(const Problem& p, long block, long cell, Vec* r) {
    const long J = p.parents;
    if (!LOGITS) { for (long j = 0; j < J; ++j) r[j] = splat(1); return; }
    if (p.normaliser) {
        Vec z = p.normaliser[block * p.cell_count + cell];
        for (long j = 0; j < J; ++j) r[j] = exponential(r[j] - z);
        return;
    }
    Vec peak = r[0];
    for (long j = 1; j < J; ++j) peak = greater(peak, r[j]);
    if (p.orphan) peak = greater(peak, splat(0));
    Vec sum = p.orphan ? exponential(-peak) : splat(0);
    for (long j = 0; j < J; ++j) { r[j] = exponential(r[j] - peak); sum += r[j]; }
    Vec inverse = 1.f / sum;
    for (long j = 0; j < J; ++j) r[j] *= inverse;
}

static inline const Vec* pose(const Problem& p, long block, long cell) { return p.children + (block * p.cell_count + cell) * IN; }
static inline Vec weight_of(const Problem& p, long block, long position, long child) {
    return p.weights ? p.weights[(block * p.positions + position) * p.groups * p.types + child] : splat(1);
}

// Calls visit(position, child, cell) for the children of every window whose type is in [begin, end).
template <class Visit> static inline void children_of(const Problem& p, long position, long begin, long end, Visit visit) {
    for (long group = 0; group < p.groups; ++group)
        for (long child = group * p.types + begin; child < group * p.types + end; ++child)
            visit(child, (long)p.cells[position * p.groups * p.types + child]);
}

template <bool LOGITS, bool FULL, int G>
static void add_up(const Problem& p, const Sums& out, long block, long position, long child, long cell, Vec* x, Vec* r) {
    const long J = p.parents;
    const Vec* u[G];
    for (int g = 0; g < G; ++g) u[g] = pose(p, block + g, cell);
    look<LOGITS, FULL, G>(p, Lanes<G>(p, block, position), child, u, x, r);
    for (int g = 0; g < G; ++g) {
        couple<LOGITS>(p, block + g, cell, r + g * J);
        const long lane = (block + g) * p.positions + position;
        const Vec a = weight_of(p, block + g, position, child);
        Vec *mass = out.mass + lane * J, *first = out.first + lane * J * D, *second = out.second + lane * J * D;
        const Vec* v = x + g * J * D;
        for (long j = 0; j < J; ++j) {
            const Vec share = r[g * J + j] * a;
            mass[j] += share;
            for (int d = 0; d < D; ++d) {
                const Vec part = share * v[j * D + d];
                first[j * D + d] += part;
                if (FULL) second[j * D + d] += part * v[j * D + d];
            }
        }
    }
}

template <bool LOGITS, bool FULL> static void forward(const Problem& p, const Sums& out, long begin, long end) {
    const long J = p.parents, M = 4;  // blocks that go through a child together, while its weights are near
    std::vector<Vec> x(2 * J * D), r(2 * J);
    for (long start = 0; start < p.blocks; start += M)
        for (long position = 0; position < p.positions; ++position) {
            const long stop = start + M < p.blocks ? start + M : p.blocks;
            for (long block = start; block < stop; ++block) {
                const long lane = block * p.positions + position;
                memset((void*)(out.mass + lane * J), 0, J * sizeof(Vec));
                memset((void*)(out.first + lane * J * D), 0, J * D * sizeof(Vec));
                if (FULL) memset((void*)(out.second + lane * J * D), 0, J * D * sizeof(Vec));
            }
            children_of(p, position, begin, end, [&](long child, long cell) {
                long block = start;
                for (; block + 2 <= stop; block += 2) add_up<LOGITS, FULL, 2>(p, out, block, position, child, cell, x.data(), r.data());
                if (block < stop) add_up<LOGITS, FULL, 1>(p, out, block, position, child, cell, x.data(), r.data());
            });
        }
}

// log sum of exponentials over all logits that compete for a cell, into (block, cell).
template <bool FULL> static void normalise(const Problem& p, Vec* out, long begin, long end) {
    const long J = p.parents;
    std::vector<Vec> x(J * D), r(J), peak(p.cell_count), sum(p.cell_count);
    for (long block = 0; block < p.blocks; ++block) {
        for (Vec& v : peak) v = p.orphan ? splat(0) : splat(-INFINITY);
        for (Vec& v : sum) v = p.orphan ? splat(1) : splat(0);
        for (long position = 0; position < p.positions; ++position)
            children_of(p, position, begin, end, [&](long child, long cell) {
                const Vec* u = pose(p, block, cell);
                look<true, FULL, 1>(p, Lanes<1>(p, block, position), child, &u, x.data(), r.data());
                Vec top = peak[cell];
                for (long j = 0; j < J; ++j) top = greater(top, r[j]);
                Vec s = sum[cell] * exponential(peak[cell] - top);
                for (long j = 0; j < J; ++j) s += exponential(r[j] - top);
                peak[cell] = top;
                sum[cell] = s;
            });
        for (long cell = 0; cell < p.cell_count; ++cell)
            if (cell % p.types >= begin && cell % p.types < end)
                for (int n = 0; n < N; ++n) out[block * p.cell_count + cell][n] = peak[cell][n] + std::log(sum[cell][n]);
    }
}

// How the loss changes with each coupling coefficient of a child, by weight one, into d (parent); returns the mean over parents.
template <bool FULL>
static inline Vec slopes(const Problem& p, const Gradients& g, long lane, const Vec* x, const Vec* r, Vec* d) {
    const long J = p.parents;
    const Vec *gm = g.mass + lane * J, *gf = g.first + lane * J * D, *gs = g.second + lane * J * D;
    Vec mean = splat(0);
    for (long j = 0; j < J; ++j) {
        Vec sum = gm[j];
        for (int e = 0; e < D; ++e) {
            Vec slope = gf[j * D + e];
            if (FULL) slope += x[j * D + e] * gs[j * D + e];
            sum += x[j * D + e] * slope;
        }
        d[j] = sum;
        mean += r[j] * sum;
    }
    return mean;
}

// Expectation of those changes, times weights, over all that compete for a cell, into (block, cell).
template <bool FULL> static void expect(const Problem& p, const Gradients& g, Vec* out, long begin, long end) {
    const long J = p.parents;
    std::vector<Vec> x(J * D), r(J), d(J);
    for (long block = 0; block < p.blocks; ++block) {
        Vec* mine = out + block * p.cell_count;
        for (long cell = 0; cell < p.cell_count; ++cell)
            if (cell % p.types >= begin && cell % p.types < end) mine[cell] = splat(0);
        for (long position = 0; position < p.positions; ++position)
            children_of(p, position, begin, end, [&](long child, long cell) {
                const Vec* u = pose(p, block, cell);
                look<true, FULL, 1>(p, Lanes<1>(p, block, position), child, &u, x.data(), r.data());
                couple<true>(p, block, cell, r.data());
                const Vec mean = slopes<FULL>(p, g, block * p.positions + position, x.data(), r.data(), d.data());
                mine[cell] += weight_of(p, block, position, child) * mean;
            });
    }
}

// Gradients of everything but weights, for one child and block; the votes' own replaces x.
template <bool LOGITS, bool FULL>
static inline void pull(const Problem& p, const Gradients& g, long block, long position, long child, long cell, Vec* x, const Vec* r, Vec* d) {
    const long J = p.parents, lane = block * p.positions + position;
    const Vec a = weight_of(p, block, position, child);
    const Vec mean = slopes<FULL>(p, g, lane, x, r, d);
    if (g.weights) g.weights[lane * p.groups * p.types + child] = mean;
    const Vec drift = g.expectation ? g.expectation[block * p.cell_count + cell] : a * mean;
    const Vec *gf = g.first + lane * J * D, *gs = g.second + lane * J * D;
    const Vec *q = p.query + lane * J * D, *curvature = p.curvature + lane * J * D;
    Vec *gq = g.query + lane * J * D, *gk = g.curvature + lane * J * D, *gc = g.centre + lane * J * D;
    for (long j = 0; j < J; ++j) {
        const Vec share = a * r[j];
        const Vec change = LOGITS && !g.constant_coupling ? r[j] * (a * d[j] - drift) : splat(0);  // of the logit
        if (LOGITS && g.bias) g.bias[lane * J + j] += change;
        for (int e = 0; e < D; ++e) {
            const long at = j * D + e;
            const Vec v = x[at];
            Vec t = share * (FULL ? gf[at] + 2.f * v * gs[at] : gf[at]);
            if (LOGITS) {
                t += change * (FULL ? q[at] - v * curvature[at] : q[at]);
                gq[at] += change * v;
                if (FULL) gk[at] -= 0.5f * change * v * v;
            }
            if (FULL) gc[at] -= t;
            x[at] = t;
        }
    }
}

// Gradient of the children's poses, added to gu[G] (IN): sum over parents of gradients of votes, times weights.
template <int G> static inline void to_children(const Problem& p, long child, const Vec* t, Vec* const* gu) {
    const long J = p.parents;
    constexpr int CHUNKS = FAN / K;
    for (int c = 0; c < S * CHUNKS; ++c) {
        const int row = c / CHUNKS, k0 = c % CHUNKS * K;
        Vec s[G][K];
        for (int g = 0; g < G; ++g)
            for (int k = 0; k < K; ++k) s[g][k] = gu[g][row * P + k0 + k];
        for (long j = 0; j < J; ++j) {
            const float* w = p.weight + (child * J + j) * SIZE;
            for (int e = 0; e < ROW; ++e)
                for (int g = 0; g < G; ++g) {
                    const Vec grad = t[g * J * D + j * D + row * P + e];
                    for (int k = 0; k < K; ++k) s[g][k] += grad * w[(k0 + k) * ROW + e];
                }
        }
        for (int g = 0; g < G; ++g)
            for (int k = 0; k < K; ++k) gu[g][row * P + k0 + k] = s[g][k];
    }
}

// Gradient of one child's weights: sum over the lanes of several blocks of child elements times gradients of votes.
static inline void to_weights(const Problem& p, long start, long stop, long child, long cell, const Vec* t, float* gw) {
    const long J = p.parents;
    constexpr int H = ROW % 2 == 0 ? 2 : 1;
    for (long j = 0; j < J; ++j)
        for (int k0 = 0; k0 < FAN; k0 += K)
            for (int e0 = 0; e0 < ROW; e0 += H) {
                Vec s[K][H] = {};
                for (long block = start; block < stop; ++block) {
                    const Vec *u = pose(p, block, cell), *g = t + (block - start) * J * D + j * D;
                    for (int row = 0; row < S; ++row)
                        for (int k = 0; k < K; ++k)
                            for (int e = 0; e < H; ++e) s[k][e] += u[row * P + k0 + k] * g[row * P + e0 + e];
                }
                for (int k = 0; k < K; ++k)
                    for (int e = 0; e < H; ++e) gw[j * SIZE + (k0 + k) * ROW + e0 + e] += total(s[k][e]);
            }
}

static inline void to_offset(const Problem& p, long blocks, const Vec* t, float* go) {
    for (int e = 0; e < D; ++e) {
        Vec s = splat(0);
        for (long at = 0; at < blocks * p.parents; ++at) s += t[at * D + e];
        go[e] += total(s);
    }
}

template <bool LOGITS, bool FULL, int G>
static void pull_all(const Problem& p, const Gradients& g, long block, long position, long child, long cell, Vec* x, Vec* r, Vec* d) {
    const long J = p.parents;
    const Vec* u[G];
    for (int i = 0; i < G; ++i) u[i] = pose(p, block + i, cell);
    look<LOGITS, FULL, G>(p, Lanes<G>(p, block, position), child, u, x, r);
    for (int i = 0; i < G; ++i) {
        couple<LOGITS>(p, block + i, cell, r + i * J);
        pull<LOGITS, FULL>(p, g, block + i, position, child, cell, x + i * J * D, r + i * J, d);
    }
    if (!g.children) return;
    Vec* gu[G];
    for (int i = 0; i < G; ++i) gu[i] = g.children + ((block + i) * p.cell_count + cell) * IN;
    to_children<G>(p, child, x, gu);
}

template <bool LOGITS, bool FULL> static void backward(const Problem& p, const Gradients& g, long begin, long end) {
    const long J = p.parents;
    long M = 98304 / (J * D * (long)sizeof(Vec)) / 2 * 2;  // blocks whose gradients of votes stay in 96 KB of cache
    M = M < 2 ? 2 : M > 16 ? 16 : M;
    std::vector<Vec> x(M * J * D), r(2 * J), d(J);
    for (long start = 0; start < p.blocks; start += M)
        for (long position = 0; position < p.positions; ++position) {
            const long stop = start + M < p.blocks ? start + M : p.blocks;
            children_of(p, position, begin, end, [&](long child, long cell) {
                long block = start;
                for (; block + 2 <= stop; block += 2)
                    pull_all<LOGITS, FULL, 2>(p, g, block, position, child, cell, &x[(block - start) * J * D], r.data(), d.data());
                if (block < stop)
                    pull_all<LOGITS, FULL, 1>(p, g, block, position, child, cell, &x[(block - start) * J * D], r.data(), d.data());
                if (g.weight) to_weights(p, start, stop, child, cell, x.data(), g.weight + child * J * SIZE);
                if (g.offset) to_offset(p, stop - start, x.data(), g.offset + child * D);
            });
        }
}

extern "C" {
int lanes_in_a_block() { return N; }
void sweep_forward(const Problem* p, const Sums* out, long begin, long end) {
    if (p->uniform) p->full ? forward<false, true>(*p, *out, begin, end) : forward<false, false>(*p, *out, begin, end);
    else p->full ? forward<true, true>(*p, *out, begin, end) : forward<true, false>(*p, *out, begin, end);
}
void sweep_backward(const Problem* p, const Gradients* g, long begin, long end) {
    if (p->uniform) p->full ? backward<false, true>(*p, *g, begin, end) : backward<false, false>(*p, *g, begin, end);
    else p->full ? backward<true, true>(*p, *g, begin, end) : backward<true, false>(*p, *g, begin, end);
}
void sweep_normalise(const Problem* p, Vec* out, long begin, long end) {
    p->full ? normalise<true>(*p, out, begin, end) : normalise<false>(*p, out, begin, end);
}
void sweep_expect(const Problem* p, const Gradients* g, Vec* out, long begin, long end) {
    p->full ? expect<true>(*p, *g, out, begin, end) : expect<false>(*p, *g, out, begin, end);
}
}
