/* Backward pass, for vectors of WIDTH numbers; see pooled_convolution.c, which includes this file for each WIDTH. */

/* Add the products of a filter's entries with the windows of x to `vectors` vectors of each row of its gradient.
 *
 * x: padded image from the first vector on, `row` floats a row; sum: rows of `stride` floats.
 */
INLINE void NAME(add_windows)(const int kernel, const int vectors, const float *x, int64_t row, const Entry *entries,
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

/* Call `add_windows` as compiled for these numbers. */
COMPILED void NAME(some_windows)(int kernel, int vectors, const float *x, int64_t row, const Entry *entries, int64_t n,
                                 float *sum, int64_t stride) {
#define CASE(vectors, kernel)                                                   \
    case 8 * vectors + kernel:                                                  \
        NAME(add_windows)(kernel, vectors, x, row, entries, n, sum, stride);    \
        break;
    switch (8 * vectors + kernel) {
        CASE(1, 3) CASE(2, 3) CASE(3, 3) CASE(4, 3) CASE(1, 5) CASE(2, 5)
#if WIDTH == 16
        CASE(5, 3) CASE(6, 3) CASE(3, 5) CASE(4, 5) CASE(5, 5)
#endif
    }
#undef CASE
}

/* Add the products of entries with the filters' weights to `vectors` vectors of a. */
INLINE void NAME(add_filters)(const int vectors, const float *weight, const Entry *entries, int64_t n, Vector *a) {
    for (int64_t k = 0; k < n; k++) {
        const float *w = weight + (int64_t)entries[k].offset * vectors * WIDTH;
        Vector value = filled(entries[k].value);
#pragma GCC unroll 10
        for (int v = 0; v < vectors; v++) a[v] = multiply_add(value, load(w + v * WIDTH), a[v]);
    }
}

/* Add the products of an image's entries with row `r` - 1 or `r` of their filters to row `r` of their windows. The
 * entries of upper places have row `r` of a filter there, those of lower places row `r` - 1.
 *
 * weight: rows of `size` floats, (filters, vectors) each; sum: gradient of the padded image from the first vector on.
 */
INLINE void NAME(add_row)(const int vectors, const Layer *l, int64_t r, const float *weight, int64_t size,
                          const Workspace *work, float *sum) {
    const int64_t pooled = pooled_rows(l) * pooled_columns(l), F = l->filters, row = padded_row(l);
    for (int64_t q = 0; q < pooled; q++) {
        for (int side = 0; side < 2; side++) {
            const int32_t *count = work->counts + q * (OFF + 1) + side;
            const Entry *list = work->lists + (q * (OFF + 1) + side) * F;
            float *to = sum + work->windows[q] + r * row + side * l->channels;
            const int64_t upper = r < l->kernel ? count[0] : 0, lower = r ? count[2] : 0;
            if (!(upper + lower)) continue;
            Vector a[10];
#pragma GCC unroll 10
            for (int v = 0; v < vectors; v++) a[v] = load(to + v * WIDTH);
            if (upper) NAME(add_filters)(vectors, weight + r * size, list, upper, a);
            if (lower) NAME(add_filters)(vectors, weight + (r - 1) * size, list + 2 * F, lower, a);
#pragma GCC unroll 10
            for (int v = 0; v < vectors; v++) store(to + v * WIDTH, a[v]);
        }
    }
}

/* Call `add_row` as compiled for this number of vectors. */
COMPILED void NAME(some_row)(int vectors, const Layer *l, int64_t r, const float *weight, int64_t size,
                             const Workspace *work, float *sum) {
#define CASE(vectors)                                           \
    case vectors:                                               \
        NAME(add_row)(vectors, l, r, weight, size, work, sum);  \
        break;
    switch (vectors) { CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) }
#undef CASE
}

/* Copy weights (filters, kernel, row) to (kernel, blocks of vectors, filters, block): what `add_row` reads in a pass
 * over the image lies together. `most`: vectors of a block. */
COMPILED void NAME(turn_filters)(const Layer *l, const float *weight, int64_t most, float *to) {
    const int64_t K = l->kernel, C = l->channels, F = l->filters, vectors = (K * C + WIDTH - 1) / WIDTH;
    memset(to, 0, sizeof(float) * K * weight_row(l) * F);
    for (int64_t f = 0; f < F; f++)
        for (int64_t r = 0; r < K; r++)
            for (int64_t v = 0; v < vectors; v += most) {
                const int64_t size = least(most, vectors - v) * WIDTH, start = v * WIDTH;
                memcpy(to + r * vectors * WIDTH * F + start * F + f * size, weight + (f * K + r) * K * C + start,
                       sizeof(float) * least(size, K * C - start));
            }
}

/* Copy the slopes of an image's outputs to `work`, with 0 where ReLU stops them. */
COMPILED void NAME(gather_slopes)(const Layer *l, const float *slope, const Strides *from, const uint8_t *places,
                                  const Workspace *work) {
    const int64_t rows = pooled_rows(l), columns = pooled_columns(l), F = l->filters;
    float *to = work->slopes;
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

/* Add an image's part of the gradients of weight and bias to the sums in `work`. */
COMPILED void NAME(add_to_weights)(const Layer *l, const uint8_t *places, const Workspace *work) {
    const int64_t K = l->kernel, C = l->channels, F = l->filters, pooled = pooled_rows(l) * pooled_columns(l);
    const int64_t row = padded_row(l), stride = weight_row(l), vectors = (K * C + WIDTH - 1) / WIDTH;
    /* As many sums as there are registers, less those of inputs: 25 or 18 with AVX-512, 10 or 12 with AVX2. */
    const int64_t most = even_part(vectors, WIDTH == 16 ? (K == 5 ? 5 : 6) : 12 / K);
    const int32_t shift[OFF + 1] = {0, (int32_t)C, (int32_t)row, (int32_t)(row + C), 0};
    for (int64_t q = 0; q < pooled; q++)
        for (int64_t f = 0; f < F; f++) work->bias_sum[f] += work->slopes[q * F + f];
    for (int64_t f = 0; f < F; f++) {
        int64_t n = 0;
        for (int64_t q = 0; q < pooled; q++) {
            const uint8_t place = places[q * F + f];
            work->lists[n] = (Entry){(int32_t)work->windows[q] + shift[place], work->slopes[q * F + f]};
            n += place != OFF;
        }
        for (int64_t v = 0; v < vectors; v += most)
            NAME(some_windows)((int)K, (int)least(most, vectors - v), work->padded + v * WIDTH, row, work->lists, n,
                               work->weight_sum + f * K * stride + v * WIDTH, stride);
    }
}

/* Compute the gradient of a padded image into `work`. `most`: as in `turn_filters`. */
COMPILED void NAME(image_slope)(const Layer *l, const uint8_t *places, int64_t most, const Workspace *work) {
    const int64_t F = l->filters, pooled = pooled_rows(l) * pooled_columns(l);
    const int64_t vectors = (l->kernel * l->channels + WIDTH - 1) / WIDTH;
    for (int64_t q = 0; q < pooled; q++) {
        Entry *list = work->lists + q * (OFF + 1) * F, *ends[OFF + 1];
        for (int p = 0; p <= OFF; p++) ends[p] = list + p * F;
        for (int64_t f = 0; f < F; f++) *ends[places[q * F + f]]++ = (Entry){(int32_t)f, work->slopes[q * F + f]};
        for (int p = 0; p <= OFF; p++) work->counts[q * (OFF + 1) + p] = (int32_t)(ends[p] - (list + p * F));
    }
    memset(work->sum, 0, sizeof(float) * padded_size(l));
    for (int64_t v = 0; v < vectors; v += most)
        for (int64_t r = 0; r <= l->kernel; r++)
            NAME(some_row)((int)least(most, vectors - v), l, r, work->turned + v * WIDTH * F, vectors * WIDTH * F, work,
                           work->sum + v * WIDTH);
}

COMPILED void NAME(backward)(const Layer *l, const float *x, const float *weight, const uint8_t *places,
                             const float *slope, const Strides *from, float *weight_slope, float *bias_slope,
                             float *x_slope, float *workspace) {
    const int64_t pooled = pooled_rows(l) * pooled_columns(l), image = l->height * l->width * l->channels;
    const int64_t most = even_part((l->kernel * l->channels + WIDTH - 1) / WIDTH, 10);
    const int64_t weights = l->each ? l->filters * l->kernel * l->kernel * l->channels : 0;
    const int64_t biases = l->each ? l->filters : 0;
    const Workspace work = workspace_of(l, workspace);
    memset(work.padded, 0, sizeof(float) * padded_size(l));
    begin_sums(l, weight_slope, bias_slope, &work);
    if (x_slope) NAME(turn_filters)(l, weight, most, work.turned);
    for (int64_t b = 0; b < l->images; b++) {
        copy_inside(l, x + b * image, work.padded, 0);
        NAME(gather_slopes)(l, slope + b * from->image, from, places + b * pooled * l->filters, &work);
        NAME(add_to_weights)(l, places + b * pooled * l->filters, &work);
        if (l->each || (b + 1) % GROUP == 0 || b + 1 == l->images)
            end_sums(l, weight_slope + b * weights, bias_slope + b * biases, &work);
        if (!x_slope) continue;
        NAME(image_slope)(l, places + b * pooled * l->filters, most, &work);
        copy_inside(l, work.sum, x_slope + b * image, 1);
    }
}
