/* Forward pass, for vectors of WIDTH numbers; see pooled_convolution.c, which includes this file for each WIDTH. */

/* AVX-512 has registers for seven outputs of a vector of filters, AVX2 for one of two vectors. */
enum { NAME(MOST_COLUMNS) = WIDTH == 16 ? 7 : 1, NAME(MOST_VECTORS) = WIDTH == 16 ? 1 : 2 };

#if WIDTH == 16
/* Have the compiler read inputs again: kept in registers for the next column, they would displace the sums. */
#define RELOAD __asm__ volatile("" : : : "memory")

/* Replace the largest number so far, and its place, by `next` where this is larger, or NaN. */
INLINE void NAME(take_larger)(Vector *largest, __m512i *place, Vector next, int number) {
    __mmask16 larger = _mm512_cmp_ps_mask(next, *largest, _CMP_GT_OQ) | _mm512_cmp_ps_mask(next, next, _CMP_UNORD_Q);
    *largest = _mm512_mask_mov_ps(*largest, larger, next);
    *place = _mm512_mask_mov_epi32(*place, larger, _mm512_set1_epi32(number));
}

/* Write the largest of four numbers to `out`, its place to `places`; with ReLU 0 and OFF where it is not positive. */
INLINE void NAME(pool)(Vector a, Vector b, Vector c, Vector d, int rectified, float *out, uint8_t *places) {
    __m512i place = _mm512_setzero_si512();
    NAME(take_larger)(&a, &place, b, 1);
    NAME(take_larger)(&a, &place, c, 2);
    NAME(take_larger)(&a, &place, d, 3);
    if (rectified) {
        __mmask16 off = _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_LE_OQ);
        a = _mm512_mask_mov_ps(a, off, _mm512_setzero_ps());
        place = _mm512_mask_mov_epi32(place, off, _mm512_set1_epi32(OFF));
    }
    store(out, a);
    _mm_storeu_si128((__m128i *)places, _mm512_cvtepi32_epi8(place));
}
#else
#define RELOAD

INLINE void NAME(take_larger)(Vector *largest, Vector *place, Vector next, float number) {
    Vector larger = _mm256_or_ps(_mm256_cmp_ps(next, *largest, _CMP_GT_OQ), _mm256_cmp_ps(next, next, _CMP_UNORD_Q));
    *largest = _mm256_blendv_ps(*largest, next, larger);
    *place = _mm256_blendv_ps(*place, filled(number), larger);
}

INLINE void NAME(pool)(Vector a, Vector b, Vector c, Vector d, int rectified, float *out, uint8_t *places) {
    Vector place = _mm256_setzero_ps();
    NAME(take_larger)(&a, &place, b, 1);
    NAME(take_larger)(&a, &place, c, 2);
    NAME(take_larger)(&a, &place, d, 3);
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
INLINE void NAME(pooled_outputs)(const int columns, const int vectors, const int kernel, const Layer *l, const float *x,
                                 int64_t row, const float *weight, int64_t stride, const float *bias, float *out,
                                 uint8_t *places) {
    const int64_t channels = l->channels;
    const int rectified = l->rectified != 0;
    Vector above[14], below[14];
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
            NAME(pool)(above[left], above[right], below[left], below[right], rectified, out + to, places + to);
        }
    }
}

/* Call `pooled_outputs` as compiled for these numbers of columns and vectors. */
COMPILED void NAME(some_outputs)(int columns, int vectors, const Layer *l, const float *x, int64_t row,
                                 const float *weight, int64_t stride, const float *bias, float *out, uint8_t *places) {
#define CASE(columns, vectors, kernel)                                                              \
    case 8 * (columns * vectors) + kernel:                                                          \
        NAME(pooled_outputs)(columns, vectors, kernel, l, x, row, weight, stride, bias, out, places); \
        break;
    switch (8 * columns * vectors + (int)l->kernel) {
        CASE(1, 1, 3) CASE(1, 1, 5)
#if WIDTH == 16
        CASE(2, 1, 3) CASE(3, 1, 3) CASE(4, 1, 3) CASE(5, 1, 3) CASE(6, 1, 3) CASE(7, 1, 3)
        CASE(2, 1, 5) CASE(3, 1, 5) CASE(4, 1, 5) CASE(5, 1, 5) CASE(6, 1, 5) CASE(7, 1, 5)
#else
        CASE(1, 2, 3) CASE(1, 2, 5)
#endif
    }
#undef CASE
}
#undef RELOAD

/* Copy outputs of one place to their array. Constant sizes need no call. */
INLINE void NAME(put)(const float *values, const uint8_t *found, int64_t filters, float *out, int64_t stride,
                      uint8_t *places) {
    if (filters == 16 && stride == 1) {
        memcpy(out, values, 16 * sizeof(float));
        memcpy(places, found, 16);
        return;
    }
    if (filters == 16) memcpy(places, found, 16);
    else memcpy(places, found, filters);
    for (int64_t f = 0; f < filters; f++) out[f * stride] = values[f];
}

COMPILED void NAME(forward)(const Layer *l, const float *x, const float *weight, const float *bias, float *out,
                            const Strides *to, uint8_t *places, float *workspace) {
    const int64_t F = l->filters, rows = pooled_rows(l), columns = pooled_columns(l), stride = rounded(F);
    const int64_t row = l->width + sides(l), taps = l->kernel * l->kernel * l->channels;
    const int64_t blocks = (columns + NAME(MOST_COLUMNS) - 1) / NAME(MOST_COLUMNS), most = NAME(MOST_VECTORS) * WIDTH;
    float *padded = workspace, *turned = padded + padded_size(l), *shifts = turned + taps * stride;
    memset(padded, 0, sizeof(float) * padded_size(l));
    memset(turned, 0, sizeof(float) * (taps + 1) * stride);
    memcpy(shifts, bias, sizeof(float) * F);
    turn_weights(l, weight, turned, stride);
    for (int64_t b = 0; b < l->images; b++) {
        pad_by_channel(l, x + b * l->height * l->width * l->channels, padded);
        for (int64_t f = 0; f < F; f += most) {
            const int64_t filters = F - f < most ? F - f : most, vectors = (filters + WIDTH - 1) / WIDTH;
            for (int64_t i = 0; i < rows; i++)
                for (int64_t block = 0; block < blocks; block++) {
                    const int64_t j = columns * block / blocks, n = columns * (block + 1) / blocks - j;
                    float values[7 * 16];
                    uint8_t found[7 * 16];
                    NAME(some_outputs)((int)n, (int)vectors, l, padded + 2 * i * l->channels * row + 2 * j, row,
                                       turned + f, stride, shifts + f, values, found);
                    for (int64_t k = 0; k < n; k++)
                        NAME(put)(values + k * vectors * WIDTH, found + k * vectors * WIDTH, filters,
                                  out + b * to->image + f * to->filter + i * to->row + (j + k) * to->column,
                                  to->filter, places + ((b * rows + i) * columns + j + k) * F + f);
                }
        }
    }
}
