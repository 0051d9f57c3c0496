// One sweep over the children and its gradient, without storing votes; README.md says how it is laid out.
//
// Compiled once per pose size: CHILD_POSE and POSE elements of a child and of a vote, SIDE of matrix poses (0: vectors).
// N images stand side by side in a vector register ("a block"), so weights are broadcast and softmax is element by
// element. Arrays are (block, ..., N). Each part does the child types [begin, end) of every window: parts with disjoint
// types write to disjoint gradients of weights and children, and to their own partial sums of parents; no coupling may
// depend on children of other types.
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <vector>

#if defined(__AVX512F__)
#define N_LANES 16
#elif defined(__AVX__)
#define N_LANES 8
#else
#define N_LANES 4
#endif
constexpr int N = N_LANES;
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
    const float *weight;    // (child, parent, SIZE); (type, parent, SIZE) where all groups have it in common
    const float *offset;    // (child, D), or null
    const Vec *query;       // (block, position, parent, D), as curvature and centre
    const Vec *curvature, *centre;
    const Vec *bias;        // (block, position, parent), or null
    const Vec *weights;     // (block, position, child), or null
    const Vec *peak, *scale;  // (block, cell), or with `apart` (block, cell, parent): greatest logit of all that compete for
                              // a cell, and 1 / sum of exponentials of logits less that; null: the parents of a lane compete
    const int *cells;       // (position, child): which cell a child of a window is
    long blocks, positions, cell_count, groups, types, parents;  // a window has groups x types children
    int orphan, uniform, full, apart, common;  // full: with curvature, centre and second moments; apart: only positions compete for
                                       // a cell, those of each parent for themselves
};
struct Sums { Vec *mass, *first, *second; };               // as bias, as query
struct Gradients {
    const Vec *mass, *first, *second, *expectation;        // given: of the sums; as peak, or null
    Vec *children, *query, *curvature, *centre, *bias, *weights;
    float *weight, *offset;                                // wanted, or null
    int constant_coupling;
};

// The child whose weights a child has.
static inline long owner(const Problem& p, long child) { return p.common ? child % p.types : child; }
static inline Vec splat(float x) { return x - Vec{}; }
static inline float total(Vec v) { float s = 0; for (int n = 0; n < N; ++n) s += v[n]; return s; }
// Keeps a vector in a register, where the compiler would rather load it again for every product.
#if defined(__x86_64__)
#define HOLD(v) asm("" : "+v"(v))
#elif defined(__aarch64__)
#define HOLD(v) asm("" : "+w"(v))
#else
#define HOLD(v)
#endif
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

// Some children of one window and G blocks of images, which go through a kernel together: what belongs to parents is
// read and written once for all of them.
template <int G> struct Tile {
    long child, count, block, position;
    const int* cell;  // (count)
    Tile(const Problem& p, long child, long count, long block, long position)
        : child(child), count(count), block(block), position(position), cell(p.cells + position * p.groups * p.types + child) {}
    long lane(const Problem& p, int g) const { return (block + g) * p.positions + position; }
    const Vec* pose(const Problem& p, long c, int g) const { return p.children + ((block + g) * p.cell_count + cell[c]) * IN; }
    Vec weight(const Problem& p, long c, int g) const {
        return p.weights ? p.weights[lane(p, g) * p.groups * p.types + child + c] : splat(1);
    }
};
constexpr int TILE = 4;  // children

// v[b][e] += u[b][k] w[e]
template <int G> static inline void multiply(Vec (&v)[G][E], const Vec* const* u, int k, const float* w) {
    Vec held[G];
    for (int b = 0; b < G; ++b) {
        held[b] = u[b][k];
        HOLD(held[b]);
    }
    for (int e = 0; e < E; ++e) {
        Vec weight = splat(w[e]);
        HOLD(weight);
        for (int b = 0; b < G; ++b) v[b][e] += held[b] * weight;
    }
}

// What a tile leaves for later: votes about the centre, x (child, block, parent, D); logits, then coupling, r, and slopes
// of the loss along the share, d, both (child, block, parent): how it changes with coupling times the child's weight.
struct Scratch {
    std::vector<Vec> x, r, d;
    long per_child, per_block, blocks;
    Scratch(const Problem& p, long blocks)
        : x(TILE * blocks * p.parents * D), r(TILE * blocks * p.parents), d(r.size()),
          per_child(blocks * p.parents), per_block(p.parents), blocks(blocks) {}
    long at(long c, long b) const { return c * per_child + b * per_block; }
};

// Calls visit(child, count) for tiles of the children of a window whose type is in [begin, end).
template <class Visit> static inline void tiles(const Problem& p, long begin, long end, Visit visit) {
    for (long group = 0; group < p.groups; ++group)
        for (long type = begin; type < end; type += TILE)
            visit(group * p.types + type, end - type < TILE ? end - type : TILE);
}
// Calls visit(block, G) for pairs of blocks in [start, stop), and for the last one alone.
template <class Visit> static inline void pairs(long start, long stop, Visit visit) {
    for (; start + 2 <= stop; start += 2) visit(start, std::integral_constant<int, 2>());
    if (start < stop) visit(start, std::integral_constant<int, 1>());
}

// Votes and logits of a tile; with SLOPES also d, with KEEP also x. `first` is the tile's first block in the scratch.
template <bool LOGITS, bool FULL, bool KEEP, bool SLOPES, int G>
static inline void look(const Problem& p, const Gradients* g, const Tile<G>& tile, Scratch& to, long first) {
    const long J = p.parents;
    for (long j = 0; j < J; ++j) {
        const Vec *query[G], *curvature[G], *centre[G], *gf[G], *gs[G];
        for (int b = 0; b < G; ++b) {
            const long at = (tile.lane(p, b) * J + j) * D;
            query[b] = p.query + at, curvature[b] = p.curvature + at, centre[b] = p.centre + at;
            if (SLOPES) gf[b] = g->first + at, gs[b] = g->second + at;
        }
        for (long c = 0; c < tile.count; ++c) {
            const float* w = p.weight + (owner(p, tile.child + c) * J + j) * SIZE;
            const float* offset = p.offset ? p.offset + (tile.child + c) * D : nullptr;
            const Vec* u[G];
            Vec logit[G], slope[G], *x[G];
            for (int b = 0; b < G; ++b) {
                u[b] = tile.pose(p, c, b);
                x[b] = &to.x[(to.at(c, first + b) + j) * D];
                if (LOGITS) logit[b] = p.bias ? p.bias[tile.lane(p, b) * J + j] : splat(0);
                if (SLOPES) slope[b] = g->mass[tile.lane(p, b) * J + j];
            }
            for (int part = 0; part < D / E; ++part) {
                Vec v[G][E];
                for (int b = 0; b < G; ++b)
                    for (int e = 0; e < E; ++e) {
                        v[b][e] = offset ? splat(offset[part * E + e]) : splat(0);
                        if (FULL) v[b][e] -= centre[b][part * E + e];
                    }
                for (int k = 0; k < FAN; ++k) multiply<G>(v, u, child_at(part, k), w + weight_at(part, k));
                for (int b = 0; b < G; ++b)
                    for (int e = 0; e < E; ++e) {
                        const int d = part * E + e;
                        if (KEEP) x[b][d] = v[b][e];
                        if (LOGITS) logit[b] += v[b][e] * (FULL ? query[b][d] - 0.5f * v[b][e] * curvature[b][d] : query[b][d]);
                        if (SLOPES) slope[b] += v[b][e] * (FULL ? gf[b][d] + v[b][e] * gs[b][d] : gf[b][d]);
                    }
            }
            for (int b = 0; b < G; ++b) {
                if (LOGITS) to.r[to.at(c, first + b) + j] = logit[b];
                if (SLOPES) to.d[to.at(c, first + b) + j] = slope[b];
            }
        }
    }
}

// Of a cell: where the first of its competitions is in `peak`, and its like; that of parent j is j * apart further.
static inline long competition(const Problem& p, long block, long cell) {
    return (block * p.cell_count + cell) * (p.apart ? p.parents : 1);
}
// Calls visit(competition) for all competitions for cells whose type is in [begin, end).
template <class Visit> static inline void competitions(const Problem& p, long begin, long end, Visit visit) {
    for (long at = 0; at < p.blocks * p.cell_count; at += p.types)
        for (long n = competition(p, 0, at + begin); n < competition(p, 0, at + end); ++n) visit(n);
}

// Logits (parent) become coupling, over the parents or all that compete for the cell.
template <bool LOGITS> static inline void couple(const Problem& p, long block, long cell, Vec* r) {
    const long J = p.parents;
    if (!LOGITS) { for (long j = 0; j < J; ++j) r[j] = splat(1); return; }
    if (p.peak) {
        const Vec *peak = p.peak + competition(p, block, cell), *scale = p.scale + competition(p, block, cell);
        for (long j = 0; j < J; ++j) r[j] = exponential(r[j] - peak[j * p.apart]) * scale[j * p.apart];
        return;
    }
    Vec peak = r[0];
    for (long j = 1; j < J; ++j) peak = greater(peak, r[j]);
    if (p.orphan) peak = greater(peak, splat(0));
    Vec sum = p.orphan ? exponential(-peak) : splat(0);
    for (long j = 0; j < J; ++j) { r[j] = exponential(r[j] - peak); sum += r[j]; }
    const Vec inverse = 1.f / sum;
    for (long j = 0; j < J; ++j) r[j] *= inverse;
}

// Coupling of a tile in r, where its logits are.
template <bool LOGITS, int G> static inline void couple(const Problem& p, const Tile<G>& tile, Scratch& to, long first) {
    for (long c = 0; c < tile.count; ++c)
        for (int b = 0; b < G; ++b) couple<LOGITS>(p, tile.block + b, tile.cell[c], &to.r[to.at(c, first + b)]);
}

// Adds a tile's shares and weighted votes to the parents' sums.
template <bool FULL, int G> static inline void add_up(const Problem& p, const Sums& out, const Tile<G>& tile, Scratch& to) {
    const long J = p.parents;
    for (int b = 0; b < G; ++b) {
        Vec a[TILE];
        for (long c = 0; c < tile.count; ++c) a[c] = tile.weight(p, c, b);
        Vec *mass = out.mass + tile.lane(p, b) * J, *first = out.first + tile.lane(p, b) * J * D;
        Vec* second = out.second + tile.lane(p, b) * J * D;
        for (long j = 0; j < J; ++j) {
            Vec share[TILE];
            for (long c = 0; c < tile.count; ++c) mass[j] += share[c] = to.r[to.at(c, b) + j] * a[c];
            for (int d = 0; d < D; d += E) {
                Vec one[E], two[E];
                for (int e = 0; e < E; ++e) one[e] = first[j * D + d + e];
                if (FULL) for (int e = 0; e < E; ++e) two[e] = second[j * D + d + e];
                for (long c = 0; c < tile.count; ++c) {
                    const Vec* x = &to.x[(to.at(c, b) + j) * D + d];
                    for (int e = 0; e < E; ++e) {
                        const Vec part = share[c] * x[e];
                        one[e] += part;
                        if (FULL) two[e] += part * x[e];
                    }
                }
                for (int e = 0; e < E; ++e) first[j * D + d + e] = one[e];
                if (FULL) for (int e = 0; e < E; ++e) second[j * D + d + e] = two[e];
            }
        }
    }
}

static inline void clear(const Problem& p, const Sums& out, long block, long position, bool full) {
    const long J = p.parents, lane = block * p.positions + position;
    memset((void*)(out.mass + lane * J), 0, J * sizeof(Vec));
    memset((void*)(out.first + lane * J * D), 0, J * D * sizeof(Vec));
    if (full) memset((void*)(out.second + lane * J * D), 0, J * D * sizeof(Vec));
}

template <bool LOGITS, bool FULL> static void forward(const Problem& p, const Sums& out, long begin, long end) {
    const long M = 4;  // blocks that go through a tile of children together, while its weights are near
    Scratch to(p, 2);
    for (long start = 0; start < p.blocks; start += M)
        for (long position = 0; position < p.positions; ++position) {
            const long stop = start + M < p.blocks ? start + M : p.blocks;
            for (long block = start; block < stop; ++block) clear(p, out, block, position, FULL);
            tiles(p, begin, end, [&](long child, long count) {
                pairs(start, stop, [&](long block, auto g) {
                    const Tile<g()> tile(p, child, count, block, position);
                    look<LOGITS, FULL, true, false>(p, nullptr, tile, to, 0);
                    couple<LOGITS>(p, tile, to, 0);
                    add_up<FULL>(p, out, tile, to);
                });
            });
        }
}

// Takes the logits of `count` parents into a competition: its greatest, and the sum of exponentials of logits less that.
static inline void compete(const Vec* logits, long count, Vec& peak, Vec& sum) {
    Vec top = peak;
    for (long j = 0; j < count; ++j) top = greater(top, logits[j]);
    sum *= exponential(peak - top);
    for (long j = 0; j < count; ++j) sum += exponential(logits[j] - top);
    peak = top;
}

// Greatest of all logits of each competition for a cell, and 1 / sum of exponentials of logits less that.
template <bool FULL> static void normalise(const Problem& p, Vec* peak, Vec* scale, long begin, long end) {
    Scratch to(p, 2);
    competitions(p, begin, end, [&](long n) {
        peak[n] = p.orphan ? splat(0) : splat(-INFINITY);
        scale[n] = p.orphan ? splat(1) : splat(0);
    });
    pairs(0, p.blocks, [&](long block, auto g) {
        for (long position = 0; position < p.positions; ++position)
            tiles(p, begin, end, [&](long child, long count) {
                const Tile<g()> tile(p, child, count, block, position);
                look<true, FULL, false, false>(p, nullptr, tile, to, 0);
                for (long c = 0; c < count; ++c)
                    for (int b = 0; b < g(); ++b) {
                        const Vec* r = &to.r[to.at(c, b)];
                        const long n = competition(p, block + b, tile.cell[c]);
                        if (p.apart) for (long j = 0; j < p.parents; ++j) compete(r + j, 1, peak[n + j], scale[n + j]);
                        else compete(r, p.parents, peak[n], scale[n]);
                    }
            });
    });
    competitions(p, begin, end, [&](long n) { scale[n] = 1.f / scale[n]; });
}

static inline Vec mean(const Problem& p, const Vec* r, const Vec* d) {
    Vec sum = splat(0);
    for (long j = 0; j < p.parents; ++j) sum += r[j] * d[j];
    return sum;
}

// Expectation of the slopes, times weights, over all that compete for a cell.
template <bool FULL> static void expect(const Problem& p, const Gradients& g, Vec* out, long begin, long end) {
    Scratch to(p, 2);
    competitions(p, begin, end, [&](long n) { out[n] = splat(0); });
    pairs(0, p.blocks, [&](long block, auto two) {
        for (long position = 0; position < p.positions; ++position)
            tiles(p, begin, end, [&](long child, long count) {
                const Tile<two()> tile(p, child, count, block, position);
                look<true, FULL, false, true>(p, &g, tile, to, 0);
                couple<true>(p, tile, to, 0);
                for (long c = 0; c < count; ++c)
                    for (int b = 0; b < two(); ++b) {
                        const Vec a = tile.weight(p, c, b), *r = &to.r[to.at(c, b)], *d = &to.d[to.at(c, b)];
                        Vec* own = out + competition(p, block + b, tile.cell[c]);
                        if (p.apart) for (long j = 0; j < p.parents; ++j) own[j] += a * r[j] * d[j];
                        else *own += a * mean(p, r, d);
                    }
            });
    });
}

// Gradients of what belongs to parents, and of weights of children; those of votes take the place of votes in x.
template <bool LOGITS, bool FULL, int G>
static inline void pull(const Problem& p, const Gradients& g, const Tile<G>& tile, Scratch& to, long first) {
    const long J = p.parents;
    for (int b = 0; b < G; ++b) {
        const long lane = tile.lane(p, b);
        Vec a[TILE], means[TILE];
        const Vec* drift[TILE];
        const long apart = g.expectation ? p.apart : 0;
        for (long c = 0; c < tile.count; ++c) {
            const long at = to.at(c, first + b);
            means[c] = mean(p, &to.r[at], &to.d[at]);
            a[c] = tile.weight(p, c, b);
            if (g.weights) g.weights[lane * p.groups * p.types + tile.child + c] = means[c];
            drift[c] = g.expectation ? g.expectation + competition(p, tile.block + b, tile.cell[c]) : means + c;
        }
        for (long j = 0; j < J; ++j) {
            Vec share[TILE], change[TILE];  // change: of the logit
            for (long c = 0; c < tile.count; ++c) {
                const long at = to.at(c, first + b) + j;
                share[c] = a[c] * to.r[at];
                const Vec d = to.d[at], of_all = drift[c][j * apart];
                change[c] = g.expectation ? to.r[at] * (a[c] * d - of_all) : share[c] * (d - of_all);
                if (g.constant_coupling) change[c] = splat(0);
                if (LOGITS && g.bias) g.bias[lane * J + j] += change[c];
            }
            for (int d = 0; d < D; d += E)
                for (int e = 0; e < E; ++e) {
                    const long at = (lane * J + j) * D + d + e;
                    const Vec gf = g.first[at], gs = FULL ? g.second[at] : splat(0), q = LOGITS ? p.query[at] : splat(0);
                    const Vec curvature = LOGITS && FULL ? p.curvature[at] : splat(0);
                    Vec of_query = splat(0), of_curvature = splat(0), of_centre = splat(0);
                    for (long c = 0; c < tile.count; ++c) {
                        Vec& x = to.x[(to.at(c, first + b) + j) * D + d + e];
                        const Vec v = x;
                        Vec t = share[c] * (FULL ? gf + 2.f * v * gs : gf);
                        if (LOGITS) {
                            const Vec moved = change[c] * v;
                            t += change[c] * (FULL ? q - v * curvature : q);
                            of_query += moved;
                            if (FULL) of_curvature += moved * v;
                        }
                        if (FULL) of_centre += t;
                        x = t;
                    }
                    if (LOGITS) g.query[at] += of_query;
                    if (LOGITS && FULL) g.curvature[at] -= 0.5f * of_curvature;
                    if (FULL) g.centre[at] -= of_centre;
                }
        }
    }
}

// Sum over parents of gradients of votes t[b] (parent, D), times weights, is the gradient of a child's poses: h[b] (IN).
template <int G> static inline void to_child(const Problem& p, long child, const Vec* const* t, Vec (*h)[IN]) {
    const long J = p.parents;
    constexpr int CHUNKS = FAN / K;
    for (int part = 0; part < S * CHUNKS; ++part) {
        const int row = part / CHUNKS, k0 = part % CHUNKS * K;
        Vec s[G][K] = {};
        for (long j = 0; j < J; ++j) {
            const float* w = p.weight + (owner(p, child) * J + j) * SIZE;
            for (int e = 0; e < ROW; ++e)
            {
                Vec held[G];
                for (int b = 0; b < G; ++b) {
                    held[b] = t[b][j * D + row * P + e];
                    HOLD(held[b]);
                }
                for (int k = 0; k < K; ++k) {
                    Vec weight = splat(w[(k0 + k) * ROW + e]);
                    HOLD(weight);
                    for (int b = 0; b < G; ++b) s[b][k] += held[b] * weight;
                }
            }
        }
        for (int b = 0; b < G; ++b)
            for (int k = 0; k < K; ++k) h[b][row * P + k0 + k] = s[b][k];
    }
}

#if N_LANES >= 8 && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TREE 1
#endif
#endif
#ifdef TREE
typedef float Eight __attribute__((vector_size(32), aligned(4)));
static inline Eight fold(Vec v) {
#if N_LANES == 16
    return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    return v;
#endif
}
static inline Eight pick1(Eight a, Eight b) {
    return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) + __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}
static inline Eight pick2(Eight a, Eight b) {
    return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) + __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
static inline Eight pick4(Eight a, Eight b) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}
// Sums over lanes of eight vectors, at the price of a few.
static inline Eight totals(const Vec* v) {
    const Eight a = pick1(fold(v[0]), fold(v[1])), b = pick1(fold(v[2]), fold(v[3]));
    const Eight c = pick1(fold(v[4]), fold(v[5])), d = pick1(fold(v[6]), fold(v[7]));
    return pick4(pick2(a, b), pick2(c, d));
}
#endif

// Adds the sums over lanes of s (KK, H) to weights, ROW apart.
template <int KK, int H> static inline void add_totals(const Vec (&s)[KK][H], float* to) {
#ifdef TREE
    if (KK == 2 && H == 4) {
        const Eight sums = totals(&s[0][0]);
        for (int e = 0; e < 4; ++e) to[e] += sums[e], to[ROW + e] += sums[4 + e];
        return;
    }
#endif
    for (int k = 0; k < KK; ++k)
        for (int e = 0; e < H; ++e) to[k * ROW + e] += total(s[k][e]);
}

// Gradient of one child's weights: over the lanes of `count` blocks, its poses u[b] (IN) times gradients of votes t[b].
static inline void to_weights(const Problem& p, long count, const Vec* const* u, const Vec* const* t, float* gw) {
    constexpr int KK = FAN % 2 == 0 ? 2 : 1, H = ROW % 4 == 0 ? 4 : ROW % 3 == 0 ? 3 : ROW % 2 == 0 ? 2 : 1;
    for (long j = 0; j < p.parents; ++j)
        for (int k0 = 0; k0 < FAN; k0 += KK)
            for (int e0 = 0; e0 < ROW; e0 += H) {
                Vec s[KK][H] = {};
                for (long b = 0; b < count; ++b)
                    for (int row = 0; row < S; ++row) {
                        Vec held[KK];
                        for (int k = 0; k < KK; ++k) {
                            held[k] = u[b][row * P + k0 + k];
                            HOLD(held[k]);
                        }
                        for (int e = 0; e < H; ++e) {
                            Vec grad = t[b][j * D + row * P + e0 + e];
                            HOLD(grad);
                            for (int k = 0; k < KK; ++k) s[k][e] += held[k] * grad;
                        }
                    }
                add_totals<KK, H>(s, gw + j * SIZE + k0 * ROW + e0);
            }
}

constexpr long MOST = 16;  // blocks whose gradients of votes are kept for the weights

// Zeroes what the children of types [begin, end) are added to.
static inline void clear(const Problem& p, const Gradients& g, long begin, long end) {
    const long J = p.parents;
    for (long group = 0; group < p.groups; ++group) {
        const long child = group * p.types + begin;
        if (g.weight && !(p.common && group)) memset(g.weight + child * J * SIZE, 0, (end - begin) * J * SIZE * sizeof(float));
        if (g.offset) memset(g.offset + child * D, 0, (end - begin) * D * sizeof(float));
    }
    for (long at = 0; g.children && at < p.blocks * p.cell_count; at += p.types)
        memset((void*)(g.children + (at + begin) * IN), 0, (end - begin) * IN * sizeof(Vec));
}

// Zeroes what the gradients of one lane's parents are added to.
static inline void clear(const Problem& p, const Gradients& g, long lane) {
    const long J = p.parents;
    for (Vec* of_pose : {g.query, g.curvature, g.centre})
        if (of_pose) memset((void*)(of_pose + lane * J * D), 0, J * D * sizeof(Vec));
    if (g.bias) memset((void*)(g.bias + lane * J), 0, J * sizeof(Vec));
}

template <bool LOGITS, bool FULL> static void backward(const Problem& p, const Gradients& g, long begin, long end) {
    const long J = p.parents;
    long M = 262144 / (TILE * J * D * (long)sizeof(Vec)) / 2 * 2;  // what they take stays in 256 KB of cache
    M = M < 2 ? 2 : M > MOST ? MOST : M;
    Scratch to(p, M);
    clear(p, g, begin, end);
    for (long start = 0; start < p.blocks; start += M)
        for (long position = 0; position < p.positions; ++position) {
            const long stop = start + M < p.blocks ? start + M : p.blocks;
            for (long block = start; block < stop; ++block) clear(p, g, block * p.positions + position);
            tiles(p, begin, end, [&](long child, long count) {
                pairs(start, stop, [&](long block, auto two) {
                    constexpr int G = two();
                    const Tile<G> tile(p, child, count, block, position);
                    look<LOGITS, FULL, true, true>(p, &g, tile, to, block - start);
                    couple<LOGITS>(p, tile, to, block - start);
                    pull<LOGITS, FULL>(p, g, tile, to, block - start);
                    for (long c = 0; g.children && c < count; ++c) {
                        const Vec* t[G];
                        Vec h[G][IN];
                        for (int b = 0; b < G; ++b) t[b] = &to.x[to.at(c, block - start + b) * D];
                        to_child<G>(p, child + c, t, h);
                        for (int b = 0; b < G; ++b)
                            for (int k = 0; k < IN; ++k) g.children[((block + b) * p.cell_count + tile.cell[c]) * IN + k] += h[b][k];
                    }
                });
                for (long c = 0; c < count; ++c) {
                    const Vec *u[MOST], *t[MOST];
                    for (long b = 0; b < stop - start; ++b)
                        u[b] = Tile<1>(p, child, count, start + b, position).pose(p, c, 0), t[b] = &to.x[to.at(c, b) * D];
                    if (g.weight) to_weights(p, stop - start, u, t, g.weight + owner(p, child + c) * J * SIZE);
                    for (int e = 0; g.offset && e < D; ++e) {
                        Vec s = splat(0);
                        for (long b = 0; b < stop - start; ++b)
                            for (long j = 0; j < J; ++j) s += t[b][j * D + e];
                        g.offset[(child + c) * D + e] += total(s);
                    }
                }
            });
        }
}

// Equal coupling, first moment only: poses times weights are added up, and no vote is made.
static void forward_uniform(const Problem& p, const Sums& out, long begin, long end) {
    const long J = p.parents, M = 4;
    Vec scaled[TILE][2][IN];
    for (long start = 0; start < p.blocks; start += M)
        for (long position = 0; position < p.positions; ++position) {
            const long stop = start + M < p.blocks ? start + M : p.blocks;
            for (long block = start; block < stop; ++block) clear(p, out, block, position, false);
            tiles(p, begin, end, [&](long child, long count) {
                pairs(start, stop, [&](long block, auto two) {
                    constexpr int G = two();
                    const Tile<G> tile(p, child, count, block, position);
                    for (int b = 0; b < G; ++b) {
                        Vec mass = splat(0);
                        for (long c = 0; c < count; ++c) {
                            const Vec a = tile.weight(p, c, b), *u = tile.pose(p, c, b);
                            mass += a;
                            for (int k = 0; k < IN; ++k) scaled[c][b][k] = a * u[k];
                        }
                        for (long j = 0; j < J; ++j) out.mass[tile.lane(p, b) * J + j] += mass;
                    }
                    for (long j = 0; j < J; ++j)
                        for (int part = 0; part < D / E; ++part) {
                            Vec v[G][E];
                            for (int b = 0; b < G; ++b)
                                for (int e = 0; e < E; ++e) v[b][e] = out.first[(tile.lane(p, b) * J + j) * D + part * E + e];
                            for (long c = 0; c < count; ++c) {
                                const float* w = p.weight + (owner(p, child + c) * J + j) * SIZE;
                                const Vec* u[G];
                                for (int b = 0; b < G; ++b) u[b] = scaled[c][b];
                                for (int k = 0; k < FAN; ++k) multiply<G>(v, u, child_at(part, k), w + weight_at(part, k));
                            }
                            for (int b = 0; b < G; ++b)
                                for (int e = 0; e < E; ++e) out.first[(tile.lane(p, b) * J + j) * D + part * E + e] = v[b][e];
                        }
                });
            });
        }
}

// Its gradient: with h = sum_j W_ij g_j, that of the pose is a h and that of the child's weight a is sum_j mass_j + <u, h>.
static void backward_uniform(const Problem& p, const Gradients& g, long begin, long end) {
    const long J = p.parents;
    Vec scaled[MOST][IN];
    clear(p, g, begin, end);
    for (long start = 0; start < p.blocks; start += MOST)
        for (long position = 0; position < p.positions; ++position) {
            const long stop = start + MOST < p.blocks ? start + MOST : p.blocks;
            const Vec *u[MOST], *t[MOST];
            for (long b = 0; b < stop - start; ++b) {
                u[b] = scaled[b];
                t[b] = g.first + ((start + b) * p.positions + position) * J * D;
            }
            tiles(p, begin, end, [&](long child, long count) {
                for (long c = 0; c < count; ++c) {
                    pairs(start, stop, [&](long block, auto two) {
                        constexpr int G = two();
                        const Tile<G> tile(p, child, count, block, position);
                        Vec h[G][IN];
                        if (g.children || g.weights) to_child<G>(p, child + c, t + (block - start), h);
                        for (int b = 0; b < G; ++b) {
                            const Vec a = tile.weight(p, c, b), *pose = tile.pose(p, c, b);
                            Vec of_weight = splat(0);
                            for (long j = 0; j < J; ++j) of_weight += g.mass[tile.lane(p, b) * J + j];
                            for (int k = 0; k < IN; ++k) {
                                scaled[block - start + b][k] = a * pose[k];
                                if (g.weights) of_weight += pose[k] * h[b][k];
                                if (g.children) g.children[((block + b) * p.cell_count + tile.cell[c]) * IN + k] += a * h[b][k];
                            }
                            if (g.weights) g.weights[tile.lane(p, b) * p.groups * p.types + child + c] = of_weight;
                        }
                    });
                    if (g.weight) to_weights(p, stop - start, u, t, g.weight + owner(p, child + c) * J * SIZE);
                }
            });
        }
}

// Elements of one block's images, from (image, element) to (element, image in the block): the lines of N images are read
// side by side, so that both arrays are gone through once, in order. Missing images of the last block are zeros.
static void pack(const float* from, Vec* to, long images, long elements) {
    for (long i = 0; i < elements; ++i) {
        Vec v = splat(0);
        if (images == N) for (int n = 0; n < N; ++n) v[n] = from[n * elements + i];
        else for (int n = 0; n < images; ++n) v[n] = from[n * elements + i];
        to[i] = v;
    }
}
static void unpack(const Vec* from, float* to, long images, long elements) {
    for (long i = 0; i < elements; ++i) {
        const Vec v = from[i];
        if (images == N) for (int n = 0; n < N; ++n) to[n * elements + i] = v[n];
        else for (int n = 0; n < images; ++n) to[n * elements + i] = v[n];
    }
}
static inline long in_block(long images, long block) { return images - block * N < N ? images - block * N : N; }

// Entries. Part k of `parts` does the types [edges[k], edges[k + 1]) and has out[k] or g[k] to write to. All parts run at
// once on the threads of OpenMP, which are torch's own where both are of one make: none waits for a core that another
// keeps warm. Compiled without OpenMP, parts run one after the other.
#define EACH_PART _Pragma("omp parallel for num_threads(parts) schedule(static, 1)") for (long k = 0; k < parts; ++k)

extern "C" {
int lanes_in_a_block() { return N; }
int has_openmp() {
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}
void sweep_forward(const Problem* p, const Sums* out, const long* edges, long parts) {
    auto run = p->uniform ? p->full ? forward<false, true> : forward_uniform : p->full ? forward<true, true> : forward<true, false>;
    EACH_PART run(*p, out[k], edges[k], edges[k + 1]);
}
void sweep_backward(const Problem* p, const Gradients* g, const long* edges, long parts) {
    auto run = p->uniform ? p->full ? backward<false, true> : backward_uniform : p->full ? backward<true, true> : backward<true, false>;
    EACH_PART run(*p, g[k], edges[k], edges[k + 1]);
}
void sweep_normalise(const Problem* p, Vec* peak, Vec* scale, const long* edges, long parts) {
    auto run = p->full ? normalise<true> : normalise<false>;
    EACH_PART run(*p, peak, scale, edges[k], edges[k + 1]);
}
void sweep_expect(const Problem* p, const Gradients* g, Vec* out, const long* edges, long parts) {
    auto run = p->full ? expect<true> : expect<false>;
    EACH_PART run(*p, g[k], out, edges[k], edges[k + 1]);
}
void pack_images(const float* from, Vec* to, long images, long elements, long parts) {
    const long blocks = (images + N - 1) / N;
    EACH_PART for (long b = blocks * k / parts; b < blocks * (k + 1) / parts; ++b)
        pack(from + b * N * elements, to + b * elements, in_block(images, b), elements);
}
void unpack_images(const Vec* from, float* to, long images, long elements, long parts) {
    const long blocks = (images + N - 1) / N;
    EACH_PART for (long b = blocks * k / parts; b < blocks * (k + 1) / parts; ++b)
        unpack(from + b * elements, to + b * N * elements, in_block(images, b), elements);
}
}
