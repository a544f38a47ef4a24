/* Convolution, bias, 2x2 max-pooling and ReLU of float32 images in one pass, and its gradient.
 *
 * Max-pooling passes the gradient of an output to one of four places, and ReLU stops that of an output that is not
 * positive. So at most a quarter of the convolution's gradient differs from zero. The forward pass keeps for each
 * output which of the four places was the largest, and the backward pass computes with these places alone.
 *
 * The passes are compiled once for each instruction set, with WIDTH float32 numbers in a vector. Sums are fused
 * multiply-adds in a fixed order: equal inputs give equal bytes with one instruction set, other bytes with another.
 */
#include <stdint.h>
#include <string.h>

/* Sizes of a layer. Convolutions are square with `kernel` 3 or 5, stride 1 and `padding` zeros on each side. `each`:
 * whether the gradients of weight and bias are those of each image, not their sums. */
typedef struct {
    int64_t images, channels, height, width, filters, kernel, padding, rectified, each;
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

enum {
    OFF = 4,     /* Place of an output that ReLU stops. */
    VECTOR = 16, /* Numbers of the widest vector. */
    GROUP = 16,  /* Images whose gradients are summed before they are added to the others': longer sums round more. */
};

static int64_t rounded(int64_t n) { return (n + VECTOR - 1) / VECTOR * VECTOR; }
static int64_t sides(const Layer *l) { return 2 * l->padding; }
static int64_t pooled_rows(const Layer *l) { return (l->height + sides(l) - l->kernel + 1) / 2; }
static int64_t pooled_columns(const Layer *l) { return (l->width + sides(l) - l->kernel + 1) / 2; }
static int64_t padded_size(const Layer *l) {
    return rounded((l->height + sides(l)) * (l->width + sides(l)) * l->channels) + VECTOR; /* vectors overlap the end */
}
static int64_t padded_row(const Layer *l) { return (l->width + sides(l)) * l->channels; }
static int64_t weight_row(const Layer *l) { return rounded(l->kernel * l->channels); }

/* Arrays of the backward pass. */
typedef struct {
    float *padded, *sum; /* An image with its padding (rows, columns, channels), and the gradient of it. */
    float *turned;       /* Weights, see turn_filters. */
    float *weight_sum;   /* (filters, kernel, weight_row) */
    float *bias_sum;     /* (filters,) */
    float *slopes;       /* (outputs, filters): gradient of an image's outputs. */
    int64_t *windows;    /* (outputs,): where the window of an output begins in `padded`. */
    Entry *lists;        /* (outputs, places, filters), or those of one filter. */
    int32_t *counts;     /* (outputs, places): lengths of the lists. */
    float *end;
} Workspace;

static Workspace workspace_of(const Layer *l, float *workspace) {
    const int64_t pooled = pooled_rows(l) * pooled_columns(l), weights = l->kernel * weight_row(l) * l->filters;
    Workspace work = {.padded = workspace};
    work.sum = work.padded + padded_size(l);
    work.turned = work.sum + padded_size(l);
    work.weight_sum = work.turned + weights;
    work.bias_sum = work.weight_sum + weights;
    work.slopes = work.bias_sum + rounded(l->filters);
    work.windows = (int64_t *)(work.slopes + rounded(pooled * l->filters));
    work.lists = (Entry *)((float *)work.windows + rounded(2 * pooled));
    work.counts = (int32_t *)((float *)work.lists + rounded(2 * pooled * (OFF + 1) * l->filters));
    work.end = (float *)work.counts + rounded(pooled * (OFF + 1));
    return work;
}

/* Number of float32 numbers of the workspace, whose address is a multiple of 64 bytes, for either pass. */
int64_t asyncfl_workspace(const Layer *l) {
    int64_t forward = padded_size(l) + (l->kernel * l->kernel * l->channels + 1) * rounded(l->filters);
    float origin;
    int64_t backward = workspace_of(l, &origin).end - &origin;
    return forward > backward ? forward : backward;
}

/* Number of this file's arithmetic and interface, which the caller compares with its own. */
int64_t asyncfl_kernels_version(void) { return 2; }

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Copy weights (filters, kernel, kernel, channels) to (kernel, channels, kernel, stride), filters last. */
static void turn_weights(const Layer *l, const float *weight, float *to, int64_t stride) {
    const int64_t K = l->kernel, C = l->channels;
    for (int64_t f = 0; f < l->filters; f++)
        for (int64_t r = 0; r < K; r++)
            for (int64_t q = 0; q < K; q++)
                for (int64_t c = 0; c < C; c++)
                    to[((r * C + c) * K + q) * stride + f] = weight[((f * K + r) * K + q) * C + c];
}

/* Copy an image (height, width, channels) into a padded one (rows, channels, columns), whose margins are zero. */
static void pad_by_channel(const Layer *l, const float *image, float *to) {
    const int64_t C = l->channels, P = l->padding, row = l->width + sides(l);
    for (int64_t i = 0; i < l->height; i++)
        for (int64_t j = 0; j < l->width; j++)
            for (int64_t c = 0; c < C; c++) to[((i + P) * C + c) * row + j + P] = image[(i * l->width + j) * C + c];
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Size of the equal parts, but perhaps the last, that `total` is cut into so that none exceeds `most`. */
static int64_t even_part(int64_t total, int64_t most) {
    const int64_t parts = (total + most - 1) / most;
    return (total + parts - 1) / parts;
}

/* Copy an image (height, width, channels) into the inside of a padded one, or back out of it. */
static void copy_inside(const Layer *l, const float *from, float *to, int out) {
    const int64_t width = l->width * l->channels, row = padded_row(l), first = l->padding * (row + l->channels);
    for (int64_t i = 0; i < l->height; i++)
        memcpy(to + (out ? i * width : first + i * row), from + (out ? first + i * row : i * width),
               sizeof(float) * width);
}

/* Set the gradients of weight and bias and the sums in `work` to zero, and find the windows. */
static void begin_sums(const Layer *l, float *weight_slope, float *bias_slope, const Workspace *work) {
    const int64_t columns = pooled_columns(l), weights = l->kernel * l->filters, sums = l->each ? l->images : 1;
    memset(weight_slope, 0, sizeof(float) * sums * weights * l->kernel * l->channels);
    memset(bias_slope, 0, sizeof(float) * sums * l->filters);
    memset(work->weight_sum, 0, sizeof(float) * weights * weight_row(l));
    memset(work->bias_sum, 0, sizeof(float) * l->filters);
    for (int64_t q = 0; q < pooled_rows(l) * columns; q++)
        work->windows[q] = 2 * (q / columns) * padded_row(l) + 2 * (q % columns) * l->channels;
}

/* Add the sums of some images to the gradients, and set them to zero. */
static void end_sums(const Layer *l, float *weight_slope, float *bias_slope, const Workspace *work) {
    const int64_t rows = l->kernel * l->filters, row = l->kernel * l->channels, stride = weight_row(l);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < row; k++) weight_slope[r * row + k] += work->weight_sum[r * stride + k];
    for (int64_t f = 0; f < l->filters; f++) bias_slope[f] += work->bias_sum[f];
    memset(work->weight_sum, 0, sizeof(float) * rows * stride);
    memset(work->bias_sum, 0, sizeof(float) * l->filters);
}

/* Names of this file's functions and of intrinsics for vectors of WIDTH numbers, BITS bits. */
#define JOINED_(a, b, c) a##b##_##c
#define JOINED(a, b, c) JOINED_(a, b, c)
#define NAME(name) JOINED(name, , WIDTH)
#define OF_VECTOR(name) JOINED(_mm, BITS, name)
#define INLINE static inline __attribute__((always_inline, target(TARGET)))
#define COMPILED static __attribute__((noinline, target(TARGET)))

#define load OF_VECTOR(loadu_ps)
#define store OF_VECTOR(storeu_ps)
#define filled OF_VECTOR(set1_ps)
#define multiply_add OF_VECTOR(fmadd_ps)

#define WIDTH 8
#define BITS 256
#define TARGET "avx2,fma"
#define Vector __m256
#include "pooled_forward.h"
#include "pooled_backward.h"
#undef WIDTH
#undef BITS
#undef TARGET
#undef Vector

#define WIDTH 16
#define BITS 512
#define TARGET "avx512f"
#define Vector __m512
#include "pooled_forward.h"
#include "pooled_backward.h"

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

/* Compute the gradients of weight, bias and, unless it is null, x, in the shapes of these; with `each` those of weight
 * and bias for one image after another.
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
