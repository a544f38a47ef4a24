/* Convolution, bias, 2x2 max-pooling and ReLU of float32 images in one pass, and its gradient.
 *
 * Max-pooling passes the gradient of an output to one of four places, and ReLU stops that of an output that is not
 * positive. So at most a quarter of the convolution's gradient differs from zero. The forward pass keeps for each
 * output which of the four places was the largest, and the backward pass computes with these places alone.
 *
 * The file includes itself once for each instruction set, with WIDTH float32 numbers in a vector. Sums are fused
 * multiply-adds in a fixed order: equal inputs give equal bytes with one instruction set, other bytes with another.
 */
#ifndef WIDTH

#include <stdint.h>
#include <string.h>

/* Sizes of a layer. Convolutions are square with `kernel` 3 or 5, stride 1 and `padding` zeros on each side. */
typedef struct {
    int64_t images, channels, height, width, filters, kernel, padding, rectified;
} Layer;

/* Distances in floats between images, filters, rows and columns of an array (images, filters, rows, columns). */
typedef struct {
    int64_t image, filter, row, column;
} Strides;

/* One entry of a gradient: where it belongs and its value. */
typedef struct {
    int32_t offset;
    float value;
} Entry;

enum { OFF = 4, VECTOR = 16, MOST_COLUMNS = 14 };

static int64_t rounded(int64_t n) { return (n + VECTOR - 1) / VECTOR * VECTOR; }
static int64_t sides(const Layer *l) { return 2 * l->padding; }
static int64_t pooled_rows(const Layer *l) { return (l->height + sides(l) - l->kernel + 1) / 2; }
static int64_t pooled_columns(const Layer *l) { return (l->width + sides(l) - l->kernel + 1) / 2; }
static int64_t padded_size(const Layer *l) {
    return rounded((l->height + sides(l)) * (l->width + sides(l)) * l->channels) + VECTOR; /* vectors overlap the end */
}
static int64_t weight_row(const Layer *l) { return rounded(l->kernel * l->channels); }

/* Number of float32 numbers of the workspace, whose address is a multiple of 64 bytes, for either pass. */
int64_t asyncfl_workspace(const Layer *l) {
    int64_t pooled = pooled_rows(l) * pooled_columns(l), weights = l->kernel * weight_row(l) * rounded(l->filters);
    int64_t forward = padded_size(l) + l->kernel * l->kernel * l->channels * rounded(l->filters) + rounded(l->filters);
    int64_t lists = rounded(2 * pooled) + rounded(2 * pooled * (OFF + 1) * l->filters) + rounded(pooled * (OFF + 1));
    int64_t backward = 2 * padded_size(l) + 2 * weights + lists + rounded(pooled * l->filters);
    return forward > backward ? forward : backward;
}

/* Number of this file's arithmetic and interface, which the caller compares with its own. */
int64_t asyncfl_kernels_version(void) { return 1; }

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define JOINED_(name, width) name##_##width
#define JOINED(name, width) JOINED_(name, width)
#define NAME(name) JOINED(name, WIDTH)
#define INLINE static inline __attribute__((always_inline, target(TARGET)))

#define WIDTH 8
#define TARGET "avx2,fma"
#include "pooled_convolution.c"
#undef WIDTH
#undef TARGET

#define WIDTH 16
#define TARGET "avx512f"
#include "pooled_convolution.c"
#undef WIDTH
#undef TARGET

/* Numbers in a vector of the best instruction set of this CPU: 16 (AVX-512), 8 (AVX2 with FMA) or 0 (neither). */
int64_t asyncfl_widest(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}

/* Compute the layer's output.
 *
 * x: (images, height, width, channels); weight: (filters, kernel, kernel, channels); bias: (filters,); out: its strides
 * are `to`; places: (images, rows, columns, filters), of each output the place 0..3 in its window, row by row, or OFF
 * where ReLU stops it. As in torch the first of equal places counts, and a NaN is larger than any number.
 */
void asyncfl_forward(int64_t width, const Layer *l, const float *x, const float *weight, const float *bias, float *out,
                     const Strides *to, uint8_t *places, float *workspace) {
    (width == 16 ? forward_16 : forward_8)(l, x, weight, bias, out, to, places, workspace);
}

/* Compute the gradients of weight, bias and, unless it is null, x, in the shapes of these.
 *
 * slope: gradient of the output, with strides `from`; places: of the forward pass.
 */
void asyncfl_backward(int64_t width, const Layer *l, const float *x, const float *weight, const uint8_t *places,
                      const float *slope, const Strides *from, float *weight_slope, float *bias_slope, float *x_slope,
                      float *workspace) {
    (width == 16 ? backward_16 : backward_8)(l, x, weight, places, slope, from, weight_slope, bias_slope, x_slope,
                                             workspace);
}

#else
int64_t asyncfl_widest(void) { return 0; }
#endif

#else /* with WIDTH */

#define take_larger NAME(take_larger)
#define pool NAME(pool)
#define pooled_outputs NAME(pooled_outputs)
#define some_outputs NAME(some_outputs)
#define forward NAME(forward)
#define add_windows NAME(add_windows)
#define some_windows NAME(some_windows)
#define add_filters NAME(add_filters)
#define add_row NAME(add_row)
#define some_row NAME(some_row)
#define part NAME(part)
#define gather_slopes NAME(gather_slopes)
#define backward NAME(backward)

#if WIDTH == 16
#define Vector __m512
#define load _mm512_loadu_ps
#define store _mm512_storeu_ps
#define filled _mm512_set1_ps
#define multiply_add _mm512_fmadd_ps
/* Have the compiler read numbers again: kept in registers for the next column, they would displace the sums. */
#define RELOAD __asm__ volatile("" : : : "memory")
#else
#define Vector __m256
#define load _mm256_loadu_ps
#define store _mm256_storeu_ps
#define filled _mm256_set1_ps
#define multiply_add _mm256_fmadd_ps
#define RELOAD
#endif

#if WIDTH == 16
/* Replace the largest number so far, and its place, by `next` where this is larger, or NaN. */
INLINE void take_larger(Vector *largest, __m512i *place, Vector next, int number) {
    __mmask16 larger = _mm512_cmp_ps_mask(next, *largest, _CMP_GT_OQ) | _mm512_cmp_ps_mask(next, next, _CMP_UNORD_Q);
    *largest = _mm512_mask_mov_ps(*largest, larger, next);
    *place = _mm512_mask_mov_epi32(*place, larger, _mm512_set1_epi32(number));
}

/* Write the largest of four numbers to `out` and its place to `places`; with ReLU 0 and OFF where it is not positive. */
INLINE void pool(Vector a, Vector b, Vector c, Vector d, int rectified, float *out, uint8_t *places) {
    __m512i place = _mm512_setzero_si512();
    take_larger(&a, &place, b, 1);
    take_larger(&a, &place, c, 2);
    take_larger(&a, &place, d, 3);
    if (rectified) {
        __mmask16 off = _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_LE_OQ);
        a = _mm512_mask_mov_ps(a, off, _mm512_setzero_ps());
        place = _mm512_mask_mov_epi32(place, off, _mm512_set1_epi32(OFF));
    }
    store(out, a);
    _mm_storeu_si128((__m128i *)places, _mm512_cvtepi32_epi8(place));
}
#else
INLINE void take_larger(Vector *largest, Vector *place, Vector next, float number) {
    Vector larger = _mm256_or_ps(_mm256_cmp_ps(next, *largest, _CMP_GT_OQ), _mm256_cmp_ps(next, next, _CMP_UNORD_Q));
    *largest = _mm256_blendv_ps(*largest, next, larger);
    *place = _mm256_blendv_ps(*place, filled(number), larger);
}

INLINE void pool(Vector a, Vector b, Vector c, Vector d, int rectified, float *out, uint8_t *places) {
    Vector place = _mm256_setzero_ps();
    take_larger(&a, &place, b, 1);
    take_larger(&a, &place, c, 2);
    take_larger(&a, &place, d, 3);
    if (rectified) {
        Vector off = _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_LE_OQ);
        a = _mm256_blendv_ps(a, _mm256_setzero_ps(), off);
        place = _mm256_blendv_ps(place, filled(OFF), off);
    }
    store(out, a);
    __m256i whole = _mm256_cvtps_epi32(place);
    __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *)places, _mm_packus_epi16(half, half));
}
#endif

/* Compute `columns` pooled outputs of `vectors` vectors of filters.
 *
 * x: (rows, channels, row) of the padded image from the first output's window on; weight: (kernel, channels, kernel,
 * stride) from the first filter on; out, places: (columns, vectors * WIDTH).
 */
INLINE void pooled_outputs(const int columns, const int vectors, const int kernel, int64_t channels, const float *x,
                           int64_t row, const float *weight, int64_t stride, const float *bias, int rectified,
                           float *out, uint8_t *places) {
    Vector above[MOST_COLUMNS], below[MOST_COLUMNS];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
#pragma GCC unroll 14
        for (int n = 0; n < 2 * columns; n++) above[n * vectors + v] = below[n * vectors + v] = load(bias + v * WIDTH);
    }
    for (int r = 0; r < kernel; r++) {
        for (int64_t c = 0; c < channels; c++) {
            const float *upper = x + (r * channels + c) * row, *lower = upper + channels * row;
#pragma GCC unroll 5
            for (int q = 0; q < kernel; q++, weight += stride) {
                RELOAD;
                Vector w[2];
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++) w[v] = load(weight + v * WIDTH);
#pragma GCC unroll 14
                for (int n = 0; n < 2 * columns; n++) {
                    Vector u = filled(upper[n + q]), d = filled(lower[n + q]);
#pragma GCC unroll 2
                    for (int v = 0; v < vectors; v++) {
                        above[n * vectors + v] = multiply_add(w[v], u, above[n * vectors + v]);
                        below[n * vectors + v] = multiply_add(w[v], d, below[n * vectors + v]);
                    }
                }
            }
        }
    }
#pragma GCC unroll 7
    for (int n = 0; n < columns; n++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            int left = 2 * n * vectors + v, right = left + vectors, to = (n * vectors + v) * WIDTH;
            pool(above[left], above[right], below[left], below[right], rectified, out + to, places + to);
        }
    }
}

#if WIDTH == 16
enum { NAME(MOST_POOLED) = 7 };
#define CASE(n, k) case 8 * n + k: pooled_outputs(n, 1, k, l->channels, x, row, weight, stride, bias, rectified, out, places); break;
#define CASES(k) CASE(1, k) CASE(2, k) CASE(3, k) CASE(4, k) CASE(5, k) CASE(6, k) CASE(7, k)
#else
enum { NAME(MOST_POOLED) = 1 };
#define CASE(n, k) case 8 * n + k: pooled_outputs(1, n, k, l->channels, x, row, weight, stride, bias, rectified, out, places); break;
#define CASES(k) CASE(1, k) CASE(2, k)
#endif

/* Call `pooled_outputs` compiled for `n` columns (16 numbers in a vector) or vectors of filters (8). */
__attribute__((noinline, target(TARGET))) static void some_outputs(
    const Layer *l, int n, const float *x, int64_t row, const float *weight, int64_t stride, const float *bias,
    float *out, uint8_t *places) {
    const int rectified = l->rectified != 0;
    switch (8 * n + (int)l->kernel) { CASES(3) CASES(5) }
}
#undef CASE
#undef CASES

__attribute__((target(TARGET))) static void forward(
    const Layer *l, const float *x, const float *weight, const float *bias, float *out, const Strides *to,
    uint8_t *places, float *workspace) {
    const int64_t K = l->kernel, C = l->channels, F = l->filters, P = l->padding;
    const int64_t rows = pooled_rows(l), columns = pooled_columns(l), row = l->width + 2 * P, stride = rounded(F);
    float *padded = workspace, *turned = padded + padded_size(l), *shifts = turned + K * K * C * stride;
    const int each = WIDTH == 16 ? 1 : 2, most = NAME(MOST_POOLED);
    memset(turned, 0, sizeof(float) * (K * K * C + 1) * stride);
    memcpy(shifts, bias, sizeof(float) * F);
    for (int64_t f = 0; f < F; f++)
        for (int64_t r = 0; r < K; r++)
            for (int64_t q = 0; q < K; q++)
                for (int64_t c = 0; c < C; c++)
                    turned[((r * C + c) * K + q) * stride + f] = weight[((f * K + r) * K + q) * C + c];
    memset(padded, 0, sizeof(float) * padded_size(l));
    for (int64_t b = 0; b < l->images; b++) {
        const float *image = x + b * l->height * l->width * C;
        for (int64_t i = 0; i < l->height; i++)
            for (int64_t j = 0; j < l->width; j++)
                for (int64_t c = 0; c < C; c++)
                    padded[((i + P) * C + c) * row + j + P] = image[(i * l->width + j) * C + c];
        for (int64_t f = 0; f < F; f += each * WIDTH) {
            int64_t filters = F - f < each * WIDTH ? F - f : each * WIDTH;
            int vectors = (int)((filters + WIDTH - 1) / WIDTH);
            for (int64_t i = 0; i < rows; i++) {
                int64_t blocks = (columns + most - 1) / most;
                for (int64_t block = 0; block < blocks; block++) {
                    int64_t j = columns * block / blocks, n = columns * (block + 1) / blocks - j;
                    float values[7 * 16];
                    uint8_t found[7 * 16];
                    some_outputs(l, WIDTH == 16 ? (int)n : vectors, padded + 2 * i * C * row + 2 * j, row,
                                       turned + f, stride, shifts + f, values, found);
                    for (int64_t k = 0; k < n; k++) {
                        const float *value = values + k * vectors * WIDTH;
                        const uint8_t *from = found + k * vectors * WIDTH;
                        float *target = out + b * to->image + f * to->filter + i * to->row + (j + k) * to->column;
                        uint8_t *place = places + ((b * rows + i) * columns + j + k) * F + f;
                        if (filters == 16) { /* a constant size needs no call */
                            memcpy(place, from, 16);
                            if (to->filter == 1) memcpy(target, value, 16 * sizeof(float));
                            else for (int v = 0; v < 16; v++) target[v * to->filter] = value[v];
                        } else {
                            memcpy(place, from, filters);
                            for (int64_t v = 0; v < filters; v++) target[v * to->filter] = value[v];
                        }
                    }
                }
            }
        }
    }
}

/* Add the products of a filter's entries with the windows of x to `vectors` vectors of each row of its gradient.
 *
 * x: padded image from the first vector on, `row` floats a row; sum: rows of `stride` floats.
 */
INLINE void add_windows(const int kernel, const int vectors, const float *x, int64_t row, const Entry *entries,
                        int64_t n, float *sum, int64_t stride) {
    Vector a[30];
#pragma GCC unroll 5
    for (int r = 0; r < kernel; r++)
#pragma GCC unroll 6
        for (int v = 0; v < vectors; v++) a[r * vectors + v] = load(sum + r * stride + v * WIDTH);
    for (int64_t k = 0; k < n; k++) {
        const float *window = x + entries[k].offset;
        Vector value = filled(entries[k].value);
#pragma GCC unroll 5
        for (int r = 0; r < kernel; r++)
#pragma GCC unroll 6
            for (int v = 0; v < vectors; v++)
                a[r * vectors + v] = multiply_add(value, load(window + r * row + v * WIDTH), a[r * vectors + v]);
    }
#pragma GCC unroll 5
    for (int r = 0; r < kernel; r++)
#pragma GCC unroll 6
        for (int v = 0; v < vectors; v++) store(sum + r * stride + v * WIDTH, a[r * vectors + v]);
}

#define CASE(n, k) case 8 * n + k: add_windows(k, n, x, row, entries, count, sum, stride); break;
__attribute__((noinline, target(TARGET))) static void some_windows(
    int kernel, int vectors, const float *x, int64_t row, const Entry *entries, int64_t count, float *sum,
    int64_t stride) {
    switch (8 * vectors + kernel) {
        CASE(1, 3) CASE(2, 3) CASE(3, 3) CASE(4, 3) CASE(1, 5) CASE(2, 5)
#if WIDTH == 16
        CASE(5, 3) CASE(6, 3) CASE(3, 5) CASE(4, 5) CASE(5, 5)
#endif
    }
}
#undef CASE

/* Add the products of entries with the filters' weights to `vectors` vectors of a. */
INLINE void add_filters(const int vectors, const float *weight, const Entry *entries, int64_t n, Vector *a) {
    for (int64_t k = 0; k < n; k++) {
        const float *w = weight + (int64_t)entries[k].offset * vectors * WIDTH;
        Vector value = filled(entries[k].value);
#pragma GCC unroll 10
        for (int v = 0; v < vectors; v++) a[v] = multiply_add(value, load(w + v * WIDTH), a[v]);
    }
}

/* Add one row of all windows' contributions to the gradient of x. */
INLINE void add_row(const int vectors, const Layer *l, int64_t r, const float *weight, int64_t block, const Entry *lists,
                    const int32_t *counts, const int64_t *windows, float *sum, int64_t row) {
    const int64_t pooled = pooled_rows(l) * pooled_columns(l), F = l->filters;
    for (int64_t q = 0; q < pooled; q++) {
        for (int side = 0; side < 2; side++) {
            const int32_t *count = counts + q * (OFF + 1) + side;
            int64_t first = r < l->kernel ? count[0] : 0, second = r ? count[2] : 0;
            if (!(first + second)) continue;
            float *to = sum + windows[q] + r * row + side * l->channels;
            const Entry *list = lists + (q * (OFF + 1) + side) * F;
            Vector a[10];
#pragma GCC unroll 10
            for (int v = 0; v < vectors; v++) a[v] = load(to + v * WIDTH);
            add_filters(vectors, weight + r * block, list, first, a);
            add_filters(vectors, weight + (r - 1) * block, list + 2 * F, second, a);
#pragma GCC unroll 10
            for (int v = 0; v < vectors; v++) store(to + v * WIDTH, a[v]);
        }
    }
}

#define CASE(n) case n: add_row(n, l, r, weight, block, lists, counts, windows, sum, row); break;
__attribute__((noinline, target(TARGET))) static void some_row(
    int vectors, const Layer *l, int64_t r, const float *weight, int64_t block, const Entry *lists,
    const int32_t *counts, const int64_t *windows, float *sum, int64_t row) {
    switch (vectors) { CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) }
}
#undef CASE

/* Cut `total` vectors into equal parts of at most `most`: the size of each but perhaps the last. */
static int part(int64_t total, int64_t most) {
    int64_t parts = (total + most - 1) / most;
    return (int)((total + parts - 1) / parts);
}

/* Copy the slopes of an image's outputs (rows, columns, filters) to `to`, with 0 where ReLU stops them. */
__attribute__((target(TARGET))) static void gather_slopes(
    const Layer *l, const float *slope, const Strides *from, const uint8_t *places, float *to) {
    const int64_t rows = pooled_rows(l), columns = pooled_columns(l), F = l->filters;
    if (from->filter == 1) {
        for (int64_t q = 0; q < rows * columns; q++) {
            const float *slopes = slope + q / columns * from->row + q % columns * from->column;
            for (int64_t f = 0; f < F; f++) to[q * F + f] = places[q * F + f] == OFF ? 0 : slopes[f];
        }
        return;
    }
    for (int64_t f = 0; f < F; f++)
        for (int64_t i = 0, q = f; i < rows; i++) {
            const float *slopes = slope + f * from->filter + i * from->row;
            for (int64_t j = 0; j < columns; j++, q += F) to[q] = places[q] == OFF ? 0 : slopes[j * from->column];
        }
}

__attribute__((target(TARGET))) static void backward(
    const Layer *l, const float *x, const float *weight, const uint8_t *places, const float *slope, const Strides *from,
    float *weight_slope, float *bias_slope, float *x_slope, float *workspace) {
    const int64_t K = l->kernel, C = l->channels, F = l->filters, P = l->padding, W = l->width;
    const int64_t rows = pooled_rows(l), columns = pooled_columns(l), pooled = rows * columns;
    const int64_t row = (W + 2 * P) * C, stride = weight_row(l), vectors = (K * C + WIDTH - 1) / WIDTH;
    const int64_t most = WIDTH == 16 ? 30 / K - (K == 3 ? 4 : 1) : 12 / K;
    const int of_weights = part(vectors, most), of_x = part(vectors, 10);
    float *padded = workspace, *sum = padded + padded_size(l), *turned = sum + padded_size(l);
    float *weight_sum = turned + K * stride * F;
    int64_t *windows = (int64_t *)(weight_sum + K * stride * F);
    Entry *lists = (Entry *)((float *)windows + rounded(2 * pooled));
    int32_t *counts = (int32_t *)((float *)lists + rounded(2 * pooled * (OFF + 1) * F));
    float *slopes = (float *)counts + rounded(pooled * (OFF + 1));
    const int32_t shift[OFF + 1] = {0, (int32_t)C, (int32_t)row, (int32_t)(row + C), 0};

    for (int64_t q = 0; q < pooled; q++) windows[q] = 2 * (q / columns) * row + 2 * (q % columns) * C;
    memset(weight_sum, 0, sizeof(float) * K * stride * F);
    memset(bias_slope, 0, sizeof(float) * F);
    memset(padded, 0, sizeof(float) * padded_size(l));
    if (x_slope) { /* (rows, blocks of vectors, filters, block): what one pass over the image reads is together */
        memset(turned, 0, sizeof(float) * K * stride * F);
        for (int64_t f = 0; f < F; f++)
            for (int64_t r = 0; r < K; r++)
                for (int64_t v = 0; v < vectors; v += of_x) {
                    int64_t size = (vectors - v < of_x ? vectors - v : of_x) * WIDTH, rest = K * C - v * WIDTH;
                    memcpy(turned + (r * vectors + v) * WIDTH * F + f * size, weight + (f * K + r) * K * C + v * WIDTH,
                           sizeof(float) * (size < rest ? size : rest));
                }
    }
    for (int64_t b = 0; b < l->images; b++) {
        const uint8_t *place = places + b * pooled * F;
        for (int64_t i = 0; i < l->height; i++)
            memcpy(padded + (i + P) * row + P * C, x + (b * l->height + i) * W * C, sizeof(float) * W * C);
        gather_slopes(l, slope + b * from->image, from, place, slopes);
        for (int64_t q = 0; q < pooled; q++)
            for (int64_t f = 0; f < F; f++) bias_slope[f] += slopes[q * F + f];
        for (int64_t f = 0; f < F; f++) {
            int64_t n = 0;
            for (int64_t q = 0; q < pooled; q++) {
                const uint8_t at = place[q * F + f];
                lists[n] = (Entry){(int32_t)windows[q] + shift[at], slopes[q * F + f]};
                n += at != OFF;
            }
            for (int64_t v = 0; v < vectors; v += of_weights)
                some_windows((int)K, (int)(vectors - v < of_weights ? vectors - v : of_weights),
                                   padded + v * WIDTH, row, lists, n, weight_sum + f * K * stride + v * WIDTH, stride);
        }
        if (!x_slope) continue;
        for (int64_t q = 0; q < pooled; q++) {
            Entry *list = lists + q * (OFF + 1) * F, *ends[OFF + 1];
            for (int p = 0; p <= OFF; p++) ends[p] = list + p * F;
            for (int64_t f = 0; f < F; f++) *ends[place[q * F + f]]++ = (Entry){(int32_t)f, slopes[q * F + f]};
            for (int p = 0; p <= OFF; p++) counts[q * (OFF + 1) + p] = (int32_t)(ends[p] - (list + p * F));
        }
        memset(sum, 0, sizeof(float) * padded_size(l));
        for (int64_t v = 0; v < vectors; v += of_x) {
            int64_t n = vectors - v < of_x ? vectors - v : of_x;
            for (int64_t r = 0; r <= K; r++)
                some_row((int)n, l, r, turned + v * WIDTH * F, vectors * WIDTH * F, lists, counts, windows,
                               sum + v * WIDTH, row);
        }
        for (int64_t i = 0; i < l->height; i++)
            memcpy(x_slope + (b * l->height + i) * W * C, sum + (i + P) * row + P * C, sizeof(float) * W * C);
    }
    for (int64_t f = 0; f < F; f++)
        for (int64_t r = 0; r < K; r++)
            memcpy(weight_slope + (f * K + r) * K * C, weight_sum + (f * K + r) * stride, sizeof(float) * K * C);
}

#undef take_larger
#undef pool
#undef pooled_outputs
#undef some_outputs
#undef forward
#undef add_windows
#undef some_windows
#undef add_filters
#undef add_row
#undef some_row
#undef part
#undef gather_slopes
#undef backward
#undef Vector
#undef load
#undef store
#undef filled
#undef multiply_add
#undef RELOAD
#endif
