// Templates drawn over each other, and the gradient, pixel by pixel where a template covers the canvas and nowhere else.
//
// Compiled once per number of channels: CHANNELS of colour; a template has one more, its opacity. Images are shared out
// between threads; each thread sums the gradient of the templates for itself, in the order of its images.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

constexpr int C = CHANNELS, V = CHANNELS + 1;

struct Problem {
    const float *templates;  // (template, row + 2, column + 2, V), with zeros around
    const float *maps;       // (image, template, 6): from a pixel (x, y, 1) to (column, row) of the padded template
    const float *presences;  // (image, template)
    long images, count, rows, columns, height, width;  // rows and columns of a template without the zeros
};
struct Gradients {
    const float *canvas, *opacity;          // given: (image, height, width, C), (image, height, width)
    float *templates, *maps, *presences;    // wanted; templates: (thread, template, row + 2, column + 2, V)
};

// Where a row of the canvas meets a template: pixels [first, last) with 0 < a + b x < end.
static inline void within(float a, float b, float end, long &first, long &last) {
    if (std::fabs(b) < 1e-12f) {
        if (!(a > 0 && a < end)) last = first;
        return;
    }
    float from = -a / b, to = (end - a) / b;
    if (from > to) std::swap(from, to);
    // One pixel more on either side, for rounding: what is outside is left out below.
    first = std::max(first, (long)std::floor(std::min(std::max(from, -1e6f), 1e6f)));
    last = std::min(last, (long)std::ceil(std::min(std::max(to, -1e6f), 1e6f)) + 1);
}

struct Sample { float value[V]; const float *corner; float right, lower; };

// The template at a place, bilinearly; false outside.
static inline bool look(const float *base, long rows, long columns, float column, float row, Sample &s) {
    if (!(column > 0 && column < columns + 1 && row > 0 && row < rows + 1)) return false;
    long left = (long)column, top = (long)row, pitch = (columns + 2) * V;
    s.corner = base + top * pitch + left * V;
    s.right = column - left;
    s.lower = row - top;
    float w11 = s.right * s.lower, w01 = s.right - w11, w10 = s.lower - w11, w00 = 1 - s.right - w10;
    for (int c = 0; c < V; ++c)
        s.value[c] = w00 * s.corner[c] + w01 * s.corner[V + c] + w10 * s.corner[pitch + c] + w11 * s.corner[pitch + V + c];
    return true;
}

template <typename Visit>
static inline void cover(const Problem &p, const float *base, const float *m, Visit visit) {
    for (long y = 0; y < p.height; ++y) {
        float column = m[1] * y + m[2], row = m[4] * y + m[5];
        long first = 0, last = p.width;
        within(column, m[0], p.columns + 1, first, last);
        within(row, m[3], p.rows + 1, first, last);
        for (long x = first; x < last; ++x) {
            Sample s;
            if (look(base, p.rows, p.columns, column + m[0] * x, row + m[3] * x, s)) visit(y, x, s);
        }
    }
}

static void draw_image(const Problem &p, long image, float *canvas, float *opacity) {
    const long size = p.height * p.width, one = (p.rows + 2) * (p.columns + 2) * V;
    std::memset(canvas, 0, size * C * sizeof(float));
    std::memset(opacity, 0, size * sizeof(float));
    for (long k = 0; k < p.count; ++k) {
        const float there = p.presences[image * p.count + k];
        cover(p, p.templates + k * one, p.maps + (image * p.count + k) * 6, [&](long y, long x, const Sample &s) {
            const long place = y * p.width + x;
            const float alpha = s.value[C] * there;
            for (int c = 0; c < C; ++c) canvas[place * C + c] += alpha * (s.value[c] - canvas[place * C + c]);
            opacity[place] += alpha * (1 - opacity[place]);
        });
    }
}

struct Before { int y, x; Sample sample; float canvas[C], opacity; };  // a pixel before a template was drawn on it

static void pull_image(const Problem &p, long image, const Gradients &g, float *templates, std::vector<Before> &seen,
                       std::vector<long> &ends, std::vector<float> &room) {
    const long size = p.height * p.width, one = (p.rows + 2) * (p.columns + 2) * V, pitch = (p.columns + 2) * V;
    room.assign(size * 2 * V, 0.f);
    float *canvas = room.data(), *opacity = canvas + size * C, *of_canvas = opacity + size, *of_opacity = of_canvas + size * C;
    seen.clear();
    ends.clear();
    for (long k = 0; k < p.count; ++k) {  // forward again, remembering what was there before
        const float there = p.presences[image * p.count + k];
        cover(p, p.templates + k * one, p.maps + (image * p.count + k) * 6, [&](long y, long x, const Sample &s) {
            const long place = y * p.width + x;
            Before now;
            now.y = y, now.x = x, now.sample = s, now.opacity = opacity[place];
            const float alpha = s.value[C] * there;
            for (int c = 0; c < C; ++c) {
                now.canvas[c] = canvas[place * C + c];
                canvas[place * C + c] += alpha * (s.value[c] - now.canvas[c]);
            }
            opacity[place] += alpha * (1 - now.opacity);
            seen.push_back(now);
        });
        ends.push_back((long)seen.size());
    }
    std::memcpy(of_canvas, g.canvas + image * size * C, size * C * sizeof(float));
    std::memcpy(of_opacity, g.opacity + image * size, size * sizeof(float));
    for (long k = p.count; k-- > 0;) {
        const float there = p.presences[image * p.count + k];
        const float *base = p.templates + k * one;
        float *mine = templates + k * one;
        float of_there = 0, m[6] = {};
        for (long n = k ? ends[k - 1] : 0; n < ends[k]; ++n) {
            const Before &b = seen[n];
            const Sample &s = b.sample;
            const long place = b.y * p.width + b.x;
            float of_value[V], of_alpha = of_opacity[place] * (1 - b.opacity);
            const float alpha = s.value[C] * there;
            for (int c = 0; c < C; ++c) {
                float &flow = of_canvas[place * C + c];
                of_value[c] = flow * alpha;
                of_alpha += flow * (s.value[c] - b.canvas[c]);
                flow *= 1 - alpha;
            }
            of_opacity[place] *= 1 - alpha;
            of_there += of_alpha * s.value[C];
            of_value[C] = of_alpha * there;
            float w11 = s.right * s.lower, w01 = s.right - w11, w10 = s.lower - w11, w00 = 1 - s.right - w10;
            float *corner = mine + (s.corner - base), of_column = 0, of_row = 0;
            for (int c = 0; c < V; ++c) {
                const float v00 = s.corner[c], v01 = s.corner[V + c], v10 = s.corner[pitch + c], v11 = s.corner[pitch + V + c];
                of_column += of_value[c] * ((v01 - v00) * (1 - s.lower) + (v11 - v10) * s.lower);
                of_row += of_value[c] * ((v10 - v00) * (1 - s.right) + (v11 - v01) * s.right);
                corner[c] += w00 * of_value[c];
                corner[V + c] += w01 * of_value[c];
                corner[pitch + c] += w10 * of_value[c];
                corner[pitch + V + c] += w11 * of_value[c];
            }
            m[0] += of_column * b.x, m[1] += of_column * b.y, m[2] += of_column;
            m[3] += of_row * b.x, m[4] += of_row * b.y, m[5] += of_row;
        }
        std::copy(m, m + 6, g.maps + (image * p.count + k) * 6);
        g.presences[image * p.count + k] = of_there;
    }
}

extern "C" {
void draw(const Problem *problem, float *canvas, float *opacity, long parts) {
    const Problem &p = *problem;
    const long size = p.height * p.width;
#pragma omp parallel for schedule(static, 1) num_threads(parts)
    for (long part = 0; part < parts; ++part)
        for (long image = p.images * part / parts; image < p.images * (part + 1) / parts; ++image)
            draw_image(p, image, canvas + image * size * C, opacity + image * size);
}

void pull(const Problem *problem, const Gradients *gradients, long parts) {
    const Problem &p = *problem;
    const long all = p.count * (p.rows + 2) * (p.columns + 2) * V;
#pragma omp parallel for schedule(static, 1) num_threads(parts)
    for (long part = 0; part < parts; ++part) {
        std::vector<Before> seen;
        std::vector<long> ends;
        std::vector<float> room;
        for (long image = p.images * part / parts; image < p.images * (part + 1) / parts; ++image)
            pull_image(p, image, *gradients, gradients->templates + part * all, seen, ends, room);
    }
}
}
