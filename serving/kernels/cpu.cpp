// CPU kernels of the target model's forward pass.
//
// Every kernel is row-invariant: what it computes for a row depends on that row (and, in attention, on the keys the
// row can see, in their logical order), never on which other rows share the call or how many threads run. A token is
// therefore verified inside a draft tree with exactly the bits that plain decoding would have produced.
//
// Vectors are written with the compiler's vector extension, so the file compiles for any processor; AVX512-BF16's dot
// product is used where the processor has it. T is the element type of weights and activations: bf16 (as uint16_t)
// or float. Accumulation is always in float32.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "pool.h"
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace {

constexpr int LANES = 16;

typedef float v16f __attribute__((vector_size(64), aligned(4)));
typedef int32_t v16i __attribute__((vector_size(64), aligned(4)));
typedef uint32_t v16u __attribute__((vector_size(64), aligned(4)));
typedef uint16_t v16h __attribute__((vector_size(32), aligned(2)));

typedef uint16_t bf16;

inline v16f splat(float x) { return x - v16f{}; }

inline float to_float(float x) { return x; }
inline float to_float(bf16 x) {
    uint32_t bits = uint32_t(x) << 16;
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
}

// Round to nearest even; NaN stays NaN.
inline void store(bf16* out, v16f x) {
    v16u bits = (v16u)x;
    v16u rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    v16u nan = (v16u)(x != x);
    rounded = (rounded & ~nan) | (nan & 0x7fc0);
    *(v16h*)out = __builtin_convertvector(rounded, v16h);
}
inline void store(float* out, v16f x) { *(v16f*)out = x; }

inline v16f load(const bf16* in) { return (v16f)(__builtin_convertvector(*(const v16h*)in, v16u) << 16); }
inline v16f load(const float* in) { return *(const v16f*)in; }

template <class T> inline v16f rounded(v16f x) {  // to T and back, where T's rounding is part of the model
    T tmp[LANES];
    store(tmp, x);
    return load(tmp);
}

inline bool any_lane(v16i mask) {  // by halves: compilers take lanes out one by one otherwise
    typedef int64_t v4l __attribute__((vector_size(32)));
    typedef int64_t v2l __attribute__((vector_size(16)));
    v4l quarters[2];
    std::memcpy(quarters, &mask, sizeof mask);
    const v4l both = quarters[0] | quarters[1];
    v2l pairs[2];
    std::memcpy(pairs, &both, sizeof both);
    const v2l any = pairs[0] | pairs[1];
    return (any[0] | any[1]) != 0;
}

inline float sum_lanes(v16f x) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

// exp(x) for x <= 0 to ~1 ulp: 2^n * P(r), |r| <= ln2/2; -inf gives 0, NaN stays NaN.
inline v16f exp_nonpositive(v16f x) {
    v16f clipped = x < -87.0f ? splat(-87.0f) : x;
    v16f n = clipped * 1.44269504f;
    n = (n + 12582912.0f) - 12582912.0f;
    v16f r = clipped - n * 0.693359375f + n * 2.12194440e-4f;
    v16f p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    v16f scaled = (v16f)((v16i)p + (__builtin_convertvector(n, v16i) << 23));
    v16f out = x < -87.0f ? v16f{} : scaled;
    return x != x ? x : out;
}

// One step of a dot product for 16 outputs. A "unit" is what is consumed at once: a pair of bf16, or one float.
template <class T> struct Unit;

template <> struct Unit<float> {
    static constexpr int WIDTH = 1;
    typedef float Scalar;
    static inline v16f mac(v16f acc, const float* w, Scalar x) { return acc + load(w) * x; }
};

template <> struct Unit<bf16> {
    static constexpr int WIDTH = 2;
    typedef uint32_t Scalar;
    static inline v16f mac(v16f acc, const bf16* w, Scalar x) {
#ifdef __AVX512BF16__
        return (v16f)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_loadu_si512(w), (__m512bh)_mm512_set1_epi32(x));
#else
        v16u pair = *(const v16u*)w;
        acc += (v16f)(pair << 16) * to_float(bf16(x));
        return acc + (v16f)(pair & 0xffff0000u) * to_float(bf16(x >> 16));
#endif
    }
};

// ---------------------------------------------------------------------------------------------- linear layers
//
// Weights are packed in strips of 16 outputs: [N/16][K/WIDTH][16][WIDTH]. A tile of up to 6 rows and 4 strips lives in
// registers; each output is one accumulator that runs over k in order, whatever the tile.

enum Epilogue { STORE = 0, STORE_F32 = 1, ADD_TO_OUTPUT = 2, SILU_MUL = 3 };

constexpr int MAX_ROWS = 6, MAX_STRIPS = 4;  // of a tile: 24 accumulators, and room for 4 weights, in 32 registers
typedef v16f Tile[MAX_ROWS][MAX_STRIPS];

template <class T, int M, int NB>
inline void tile(const T* x, int64_t ldx, const T* w, int64_t strip, int64_t units, Tile& out) {
    typedef Unit<T> U;
    v16f acc[M][NB];
    for (int m = 0; m < M; m++)
        for (int n = 0; n < NB; n++) acc[m][n] = v16f{};
    for (int64_t u = 0; u < units; u++) {
#pragma GCC unroll 6
        for (int m = 0; m < M; m++) {
            typename U::Scalar xs;
            std::memcpy(&xs, x + m * ldx + u * U::WIDTH, sizeof xs);
#pragma GCC unroll 4
            for (int n = 0; n < NB; n++) acc[m][n] = U::mac(acc[m][n], w + n * strip + u * LANES * U::WIDTH, xs);
        }
    }
    for (int m = 0; m < M; m++)
        for (int n = 0; n < NB; n++) out[m][n] = acc[m][n];
}

// The kernel for exactly `m` rows and `n` strips.
template <class T, int M = 1>
inline void tile_of(int m, int n, const T* x, int64_t ldx, const T* w, int64_t strip, int64_t units, Tile& out) {
    if constexpr (M < MAX_ROWS)
        if (m > M) return tile_of<T, M + 1>(m, n, x, ldx, w, strip, units, out);
    switch (n) {
        case 1: return tile<T, M, 1>(x, ldx, w, strip, units, out);
        case 2: return tile<T, M, 2>(x, ldx, w, strip, units, out);
        case 3: return tile<T, M, 3>(x, ldx, w, strip, units, out);
        default: return tile<T, M, 4>(x, ldx, w, strip, units, out);
    }
}

template <class T>
void epilogue(int mode, int rows, int strips, const Tile& acc, const float* bias, void* out, int64_t ldo,
              int64_t first_row, int64_t first_strip) {
    for (int m = 0; m < rows; m++) {
        int64_t row = (first_row + m) * ldo;
        for (int n = 0; n < strips; n++) {
            int64_t col = (first_strip + n) * LANES;
            v16f y = acc[m][n];
            if (bias) y += load(bias + col);
            if (mode == STORE) {
                store((T*)out + row + col, y);
            } else if (mode == STORE_F32) {
                store((float*)out + row + col, y);
            } else if (mode == ADD_TO_OUTPUT) {
                T* target = (T*)out + row + col;
                store(target, load(target) + rounded<T>(y));
            } else if (n % 2) {  // SILU_MUL: even strips are gates, odd ones the matching up projections
                v16f gate = acc[m][n - 1];
                if (bias) gate += load(bias + col - LANES);
                gate = rounded<T>(gate);
                v16f negative = gate < 0.0f ? gate : -gate;
                v16f e = exp_nonpositive(negative);
                v16f sigmoid = (gate < 0.0f ? e : splat(1.0f)) / (e + 1.0f);
                store((T*)out + row + col / 2 - LANES / 2, rounded<T>(gate * sigmoid) * rounded<T>(y));
            }
        }
    }
}

template <class T>
void rms_norm_row(T* out, const T* x, const T* weight, int64_t n, float eps) {
    v16f squares{};
    for (int64_t i = 0; i < n; i += LANES) {
        v16f v = load(x + i);
        squares += v * v;
    }
    float scale = 1.0f / std::sqrt(sum_lanes(squares) / float(n) + eps);
    for (int64_t i = 0; i < n; i += LANES) store(out + i, rounded<T>(load(x + i) * scale) * load(weight + i));
}

// Chunks of a loop over n: enough for the threads to even out, not so many that claiming them costs.
inline int64_t grain(int64_t n, int threads) { return n / (8 * threads) + 1; }

template <class Body> void parallel_for(int threads, int64_t n, int64_t grain, const Body& body) {
    pool::shared().run(threads, (n + grain - 1) / grain, [&](int64_t chunk) {
        const int64_t end = (chunk + 1) * grain < n ? (chunk + 1) * grain : n;
        for (int64_t i = chunk * grain; i < end; i++) body(i);
    });
}

template <class T>
void linear(void* out, const T* x, const T* norm_weight, T* normed, float eps, const T* w, const float* bias,
            int64_t rows, int64_t n, int64_t k, int64_t ldo, int mode, int threads) {
    if (rows == 0) return;
    if (norm_weight)
        parallel_for(threads, rows, 16, [&](int64_t r) { rms_norm_row(normed + r * k, x + r * k, norm_weight, k, eps); });
    const T* input = norm_weight ? normed : x;
    const int64_t units = k / Unit<T>::WIDTH, strip = k * LANES, strips = n / LANES;
    const int64_t tiles = (rows + MAX_ROWS - 1) / MAX_ROWS, groups = (strips + MAX_STRIPS - 1) / MAX_STRIPS;
    parallel_for(threads, groups, grain(groups, threads), [&](int64_t g) {
        const int64_t s = g * MAX_STRIPS;
        const int columns = int(strips - s < MAX_STRIPS ? strips - s : MAX_STRIPS);
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t first = t * rows / tiles;
            const int height = int((t + 1) * rows / tiles - first);
            Tile acc;
            tile_of<T>(height, columns, input + first * k, k, w + s * strip, strip, units, acc);
            epilogue<T>(mode, height, columns, acc, bias, out, ldo, first, s);
        }
    });
}

// out[r] = norm of x[r]; rows lie ldo and ldx elements apart.
template <class T>
void norm_rows(T* out, const T* x, const T* weight, float eps, int64_t rows, int64_t n, int64_t ldo, int64_t ldx) {
    for (int64_t r = 0; r < rows; r++) rms_norm_row(out + r * ldo, x + r * ldx, weight, n, eps);
}

// The last vector of a row, filled up with -inf.
inline v16f load_padded(const float* in, int64_t left) {
    if (left >= LANES) return load(in);
    v16f out = splat(-INFINITY);
    for (int64_t i = 0; i < left; i++) out[i] = in[i];
    return out;
}

// ---------------------------------------------------------------------------------------------- likeliest tokens

// log(x) of normal x > 0 to ~1 ulp: 2^e * m, |log m| <= ln2/2.
inline v16f log_positive(v16f x) {
    v16u bits = (v16u)x;
    v16i e = (v16i)(bits >> 23) - 126;
    v16f m = (v16f)((bits & 0x7fffff) | 0x3f000000);
    v16i low = (v16i)(m < 0.70710678f);
    e += low;
    m = (low ? m + m : m) - 1.0f;
    v16f z = m * m, p = splat(7.0376836292e-2f);
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    v16f f = __builtin_convertvector(e, v16f);
    return m + (p * m * z - f * 2.12194440e-4f - 0.5f * z) + f * 0.693359375f;
}

template <class U> inline U mix32(U bits) {  // of uint32_t or a vector of them
    bits = (bits ^ (bits >> 16)) * 0x21f0aaadu;
    bits = (bits ^ (bits >> 15)) * 0x735a2d97u;
    return bits ^ (bits >> 15);
}

// The noise of serving/spec/noise.py, from 24 of its 32 bits: near enough for a guess at the target's draw.
inline v16f gumbel(v16u tokens, uint32_t first, uint32_t second) {
    v16u bits = mix32(mix32(tokens ^ first) ^ second) >> 8;
    v16f uniform = (__builtin_convertvector((v16i)bits, v16f) + 0.5f) * 0x1p-24f;
    return -log_positive(-log_positive(uniform));
}

// x = (x / temperature + noise of the row's key) / spread, in rows whose temperature is not 0.
void couple(float* x, int64_t rows, int64_t n, int64_t ld, const int32_t* tokens, const uint32_t* keys,
            const float* temperatures, float spread, int threads) {
    parallel_for(threads, rows, 1, [&](int64_t r) {
        if (temperatures[r] == 0.0f) return;
        const float scale = 1.0f / (temperatures[r] * spread), weight = 1.0f / spread;
        float* row = x + r * ld;
        for (int64_t i = 0; i < n; i += LANES) {
            v16u ids{};
            std::memcpy(&ids, tokens + i, (n - i < LANES ? n - i : LANES) * 4);
            v16f noise = gumbel(ids, keys[2 * r], keys[2 * r + 1]) * weight;
            if (n - i >= LANES) {
                store(row + i, load(row + i) * scale + noise);
            } else {
                for (int64_t j = 0; j < n - i; j++) row[i + j] = row[i + j] * scale + noise[j];
            }
        }
    });
}

inline v16f larger(v16f a, v16f b) { return a > b ? a : b; }

struct Best {  // the `count` largest so far, falling; of equals the first
    float* values;
    int64_t* ids;
    int64_t count;

    void offer(float value, int64_t id) {
        int64_t place = count - 1;
        for (; place > 0 && values[place - 1] < value; place--) {
            values[place] = values[place - 1];
            ids[place] = ids[place - 1];
        }
        values[place] = value;
        ids[place] = id;
    }
};

// The largest of a row with their log-softmax. A row with a NaN gives NaN in all places.
inline void likeliest_row(const float* x, int64_t n, Best best) {
    constexpr int64_t BLOCK = 16 * LANES;  // one look at its lanes' maxima tells whether it has anything to offer
    for (int64_t i = 0; i < best.count; i++) best.values[i] = -INFINITY, best.ids[i] = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t end = start + BLOCK < n ? start + BLOCK : n;
        v16f most = splat(-INFINITY);
        for (int64_t i = start; i < end; i += LANES) most = larger(load_padded(x + i, end - i), most);
        bool any = false;
        for (int i = 0; i < LANES; i++) any |= most[i] > best.values[best.count - 1];
        if (!any) continue;
        for (int64_t i = start; i < end; i++)
            if (x[i] > best.values[best.count - 1]) best.offer(x[i], i);
    }
    const float top = best.values[0];
    v16f sums{};
    for (int64_t i = 0; i < n; i += LANES) sums += exp_nonpositive(load_padded(x + i, n - i) - top);
    const float normaliser = top + std::log(sum_lanes(sums));
    for (int64_t i = 0; i < best.count; i++) best.values[i] -= normaliser;
}

void likeliest(const float* logits, int64_t rows, int64_t n, int64_t ld, int64_t count, int64_t* ids, float* logs,
               int threads) {
    parallel_for(threads, rows, 1, [&](int64_t r) {
        likeliest_row(logits + r * ld, n, Best{logs + r * count, ids + r * count, count});
    });
}

// ---------------------------------------------------------------------------------------------- attention
//
// Cache of one layer: keys [block][kv head][slot / 16][D / WIDTH][16][WIDTH], values [block][kv head][slot][D].
// A sequence has a tree of rows at slots context, context + 1, ...: the first `done` were computed by earlier calls, the
// others are new. A row sees the `context` committed slots, itself and its ancestors: parents[r] is a row of the same
// tree, -1 for the first. A chunk of a prompt is a chain. Keys are summed in logical order (context, then the path from
// the root), not in slot order: a tree node gives the bits it would give at the same place in plain decoding.

struct Shape {
    int64_t heads, kv_heads, dim, block_size;
    float scale;
};

struct Step {  // arrays of one packed step, see serving/engine/batch.py
    int64_t num_seqs, num_rows, max_blocks;
    const int32_t *row_start, *num_new, *context, *is_chain, *done, *tree_start;  // per sequence
    const int32_t* block_table;                                                   // [seqs][max_blocks]
    const int32_t* parents;            // per tree row; a sequence's first is at tree_start
    const int32_t *positions, *slots;  // per new row
};

constexpr int AHEAD = 2 * LANES;  // slots between what is read and what is prefetched
constexpr int TILE = 6;        // (row, query head) pairs that share loads of keys and values
constexpr int MAX_PATH = 256;  // longest path in a tree (m <= 255); chains do not use it

template <class T> inline int64_t key_offset(const Shape& s, int64_t slot, int64_t head) {
    const int64_t block = slot / s.block_size, in_block = slot % s.block_size;
    return (block * s.kv_heads + head) * s.block_size * s.dim + in_block / LANES * LANES * s.dim +
           in_block % LANES * Unit<T>::WIDTH;
}

template <class T> inline int64_t key_step(int64_t d) {  // from dimension 0 to dimension d of one key
    constexpr int W = Unit<T>::WIDTH;
    return d / W * LANES * W + d % W;
}

inline int64_t value_offset(const Shape& s, int64_t slot, int64_t head) {
    return ((slot / s.block_size * s.kv_heads + head) * s.block_size + slot % s.block_size) * s.dim;
}

// Rotate one head (half-split convention) after an optional per-head norm; float32 out.
template <class T>
void rotate_head(float* out, const T* in, const T* norm, const float* cos, const float* sin, int64_t dim, float eps) {
    T buffer[512];
    if (norm) {
        rms_norm_row(buffer, in, norm, dim, eps);
        in = buffer;
    }
    const int64_t half = dim / 2;
    for (int64_t i = 0; i < half; i++) {
        float a = to_float(in[i]), b = to_float(in[i + half]);
        out[i] = a * cos[i] - b * sin[i];
        out[i + half] = b * cos[i] + a * sin[i];
    }
}

template <class T>
void write_row(const Shape& s, const Step& step, int64_t r, T* qkv, T* keys, T* values, const T* q_norm,
               const T* k_norm, float eps, const float* rope) {
    const int64_t width = (s.heads + 2 * s.kv_heads) * s.dim;
    T* row = qkv + r * width;
    const float *cos = rope + step.positions[r] * s.dim, *sin = cos + s.dim / 2;
    float rotated[512];
    for (int64_t h = 0; h < s.heads; h++) {
        rotate_head(rotated, row + h * s.dim, q_norm, cos, sin, s.dim, eps);
        for (int64_t d = 0; d < s.dim; d += LANES) store(row + h * s.dim + d, load(rotated + d));
    }
    const int64_t slot = step.slots[r];
    for (int64_t h = 0; h < s.kv_heads; h++) {
        rotate_head(rotated, row + (s.heads + h) * s.dim, k_norm, cos, sin, s.dim, eps);
        T key[512];
        for (int64_t d = 0; d < s.dim; d += LANES) store(key + d, load(rotated + d));
        T* column = keys + key_offset<T>(s, slot, h);
        for (int64_t d = 0; d < s.dim; d++) column[key_step<T>(d)] = key[d];
        std::memcpy(values + value_offset(s, slot, h), row + (s.heads + s.kv_heads + h) * s.dim, s.dim * sizeof(T));
    }
}

// The cache is read once per step, block by block: too scattered for the processor to guess what comes next.
template <class T> inline void prefetch(const T* from, int64_t elements) {
    const char* at = reinterpret_cast<const char*>(from);
    for (int64_t i = 0; i < int64_t(elements * sizeof(T)); i += 64) __builtin_prefetch(at + i);
}

// Scores of up to TILE queries against the 16 slots of one chunk.
template <class T, int R>
inline void score_chunk(const T* const* q, const T* keys, int64_t units, float* const* scores, int64_t at, float scale) {
    typedef Unit<T> U;
    v16f acc[R];
    for (int r = 0; r < R; r++) acc[r] = v16f{};
    for (int64_t u = 0; u < units; u++) {
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            typename U::Scalar x;
            std::memcpy(&x, q[r] + u * U::WIDTH, sizeof x);
            acc[r] = U::mac(acc[r], keys + u * LANES * U::WIDTH, x);
        }
    }
    for (int r = 0; r < R; r++) store(scores[r] + at, acc[r] * scale);
}

// acc[r] += weight of key `at` for row r * value, over NV vectors of the head dimension.
template <class T, int R, int NV>
inline void add_value(const T* value, float* const* weights, int64_t at, v16f (&acc)[R][NV]) {
    v16f v[NV];
    for (int i = 0; i < NV; i++) v[i] = load(value + i * LANES);
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < NV; i++) acc[r][i] += v[i] * weights[r][at];
}

// Softmax over scores[0 .. n), in place, unnormalised; returns the sum. Lanes are fixed by logical index.
inline float softmax(float* scores, int64_t n) {
    const int64_t padded = (n + LANES - 1) / LANES * LANES;
    for (int64_t i = n; i < padded; i++) scores[i] = -INFINITY;
    float top = -INFINITY;
    bool nan = false;
    for (int64_t i = 0; i < n; i++) {
        top = scores[i] > top ? scores[i] : top;
        nan |= scores[i] != scores[i];
    }
    if (nan) top = NAN;
    v16f sums{};
    for (int64_t i = 0; i < padded; i += LANES) {
        v16f e = exp_nonpositive(load(scores + i) - top);
        store(scores + i, e);
        sums += e;
    }
    return sum_lanes(sums);
}

template <class T> struct Head {  // one kv head of one sequence
    const Shape& s;
    const T *keys, *values;
    const int32_t* blocks;
    int64_t head;

    const T* key_chunk(int64_t logical_slot) const {
        const int64_t block = blocks[logical_slot / s.block_size], in_block = logical_slot % s.block_size;
        return keys + (block * s.kv_heads + head) * s.block_size * s.dim + in_block / LANES * LANES * s.dim;
    }
    const T* value(int64_t logical_slot) const {
        const int64_t block = blocks[logical_slot / s.block_size];
        return values + value_offset(s, block * s.block_size + logical_slot % s.block_size, head);
    }
};

template <class T, int R, int NV>
void weigh_values(const Head<T>& kv, T* const* out, float* const* weights, const float* sums, int64_t context,
                  int64_t common, bool chain, const int32_t (*tail)[MAX_PATH], const int64_t* tail_len) {
    const int64_t dim = kv.s.dim;
    for (int64_t d = 0; d < dim; d += NV * LANES) {
        v16f acc[R][NV] = {};
        for (int64_t at = 0; at < common; at += LANES) {
            const T* value = kv.value(at) + d;
            if (d == 0 && at + AHEAD < common) prefetch(kv.value(at + AHEAD), LANES * dim);
            const int64_t n = common - at < LANES ? common - at : LANES;
            for (int64_t i = 0; i < n; i++) add_value<T, R, NV>(value + i * dim, weights, at + i, acc);
        }
        for (int r = 0; r < R; r++) {
            for (int64_t i = 0; i < tail_len[r]; i++) {
                const T* value = kv.value(chain ? common + i : context + tail[r][i]) + d;
                for (int v = 0; v < NV; v++) acc[r][v] += load(value + v * LANES) * weights[r][common + i];
            }
            for (int v = 0; v < NV; v++) store(out[r] + d + v * LANES, acc[r][v] / sums[r]);
        }
    }
}

template <class T, int R>
void attend_tile(const Head<T>& kv, const T* const* q, T* const* out, const int64_t* rows, int64_t context,
                 const int32_t* parents, bool chain, float* workspace, int64_t stride) {
    const Shape& s = kv.s;
    const int64_t first = rows[0], last = rows[R - 1];
    const int64_t common = context + 1 + (chain ? first : 0);  // slots every row of the tile sees, in slot order
    float* scores[R];
    for (int r = 0; r < R; r++) scores[r] = workspace + r * stride;
    for (int64_t at = 0; at <= context + last; at += LANES) {
        if (at + AHEAD <= context + last) prefetch(kv.key_chunk(at + AHEAD), LANES * s.dim);
        score_chunk<T, R>(q, kv.key_chunk(at), s.dim / Unit<T>::WIDTH, scores, at, s.scale);
    }

    int32_t tail[R][MAX_PATH];
    int64_t tail_len[R];
    float sums[R];
    for (int r = 0; r < R; r++) {
        int64_t n = 0;
        if (chain) {
            n = rows[r] - first;
        } else {
            for (int64_t row = rows[r]; row > 0; row = parents[row]) n++;
            int64_t i = n;
            for (int64_t row = rows[r]; row > 0; row = parents[row]) tail[r][--i] = int32_t(row);
            for (i = 0; i < n; i++) scores[r][common + i] = scores[r][context + tail[r][i]];
        }
        tail_len[r] = n;
        sums[r] = softmax(scores[r], common + n);
    }

    if (s.dim % (4 * LANES) == 0)
        weigh_values<T, R, 4>(kv, out, scores, sums, context, common, chain, tail, tail_len);
    else
        weigh_values<T, R, 1>(kv, out, scores, sums, context, common, chain, tail, tail_len);
}

template <class T>
void attend_item(const Shape& s, const Step& step, int64_t seq, int64_t head, int64_t from, int64_t to, const T* qkv,
                 const T* keys, const T* values, T* out, float* workspace, int64_t stride) {
    const Head<T> kv{s, keys, values, step.block_table + seq * step.max_blocks, head};
    const int64_t group = s.heads / s.kv_heads, width = (s.heads + 2 * s.kv_heads) * s.dim, base = step.row_start[seq];
    const T* q[TILE];
    T* o[TILE];
    int64_t rows[TILE];
    for (int64_t i = from; i < to; i++) {
        const int64_t row = i / group, h = head * group + i % group;
        q[i - from] = qkv + (base + row) * width + h * s.dim;
        o[i - from] = out + ((base + row) * s.heads + h) * s.dim;
        rows[i - from] = step.done[seq] + row;
    }
    const int32_t* parents = step.parents + step.tree_start[seq];
    const int64_t context = step.context[seq];
    const bool chain = step.is_chain[seq];
    switch (to - from) {
        case 1: return attend_tile<T, 1>(kv, q, o, rows, context, parents, chain, workspace, stride);
        case 2: return attend_tile<T, 2>(kv, q, o, rows, context, parents, chain, workspace, stride);
        case 3: return attend_tile<T, 3>(kv, q, o, rows, context, parents, chain, workspace, stride);
        case 4: return attend_tile<T, 4>(kv, q, o, rows, context, parents, chain, workspace, stride);
        case 5: return attend_tile<T, 5>(kv, q, o, rows, context, parents, chain, workspace, stride);
        default: return attend_tile<T, 6>(kv, q, o, rows, context, parents, chain, workspace, stride);
    }
}

template <class T>
void attention(const Shape& s, const Step& step, T* qkv, T* keys, T* values, T* out, const T* q_norm, const T* k_norm,
               float eps, const float* rope, int64_t max_slots, int threads) {
    parallel_for(threads, step.num_rows, 4, [&](int64_t r) {
        write_row(s, step, r, qkv, keys, values, q_norm, k_norm, eps, rope);
    });
    const int64_t group = s.heads / s.kv_heads, stride = (max_slots + LANES - 1) / LANES * LANES;
    std::vector<int64_t> first(step.num_seqs + 1, 0);  // item at which each sequence begins
    for (int64_t seq = 0; seq < step.num_seqs; seq++)
        first[seq + 1] = first[seq] + (step.num_new[seq] * group + TILE - 1) / TILE * s.kv_heads;
    parallel_for(threads, first.back(), 1, [&](int64_t index) {
        static thread_local std::vector<float> scores;
        scores.resize(TILE * stride);
        const int64_t seq = std::upper_bound(first.begin(), first.end(), index) - first.begin() - 1;
        const int64_t item = index - first[seq], pairs = step.num_new[seq] * group;
        const int64_t from = item / s.kv_heads * TILE, to = from + TILE < pairs ? from + TILE : pairs;
        attend_item(s, step, seq, item % s.kv_heads, from, to, qkv, keys, values, out, scores.data(), stride);
    });
}

template <class T>
void move_slots(const Shape& s, int64_t layers, int64_t layer_stride, T* keys, T* values, const int32_t* from,
                const int32_t* to, int64_t count) {
    for (int64_t layer = 0; layer < layers; layer++) {
        T *k = keys + layer * layer_stride, *v = values + layer * layer_stride;
        for (int64_t i = 0; i < count; i++)
            for (int64_t h = 0; h < s.kv_heads; h++) {
                std::memcpy(v + value_offset(s, to[i], h), v + value_offset(s, from[i], h), s.dim * sizeof(T));
                T *target = k + key_offset<T>(s, to[i], h), *source = k + key_offset<T>(s, from[i], h);
                for (int64_t d = 0; d < s.dim; d++) target[key_step<T>(d)] = source[key_step<T>(d)];
            }
    }
}

// ---------------------------------------------------------------------------------------------- drawing a token
//
// A row of finite or -inf logits is seen as log weights: (logit - peak) * scale, rounded as float32 does after each.

struct LogWeights {
    const float* x;
    int64_t n;
    float peak, scale;

    inline v16f at(int64_t i) const { return (load_padded(x + i, n - i) - peak) * scale; }
};

// Tokens whose log weight is at least `least`, rising, with these, and the sum of all weights. Returns how many tokens.
int64_t heavy(const LogWeights& logs, float least, int32_t* ids, float* kept, double* mass) {
    constexpr int64_t BLOCK = 64 * LANES;  // summed in float32, blocks in float64
    int64_t count = 0;
    *mass = 0;
    for (int64_t start = 0; start < logs.n; start += BLOCK) {
        v16f block{};
        for (int64_t i = start; i < logs.n && i < start + BLOCK; i += LANES) {
            const v16f log_weight = logs.at(i);
            block += exp_nonpositive(log_weight);
            const v16i is_heavy = log_weight >= least;
            if (!any_lane(is_heavy)) continue;
            int32_t lanes[LANES];
            float values[LANES];
            std::memcpy(lanes, &is_heavy, sizeof lanes);
            store(values, log_weight);
            for (int64_t j = 0; j < LANES && i + j < logs.n; j++) {
                ids[count] = int32_t(i + j);
                kept[count] = values[j];
                count -= lanes[j];  // a comparison gives -1
            }
        }
        *mass += sum_lanes(block);
    }
    return count;
}

// exp(x) for x <= 0, up to 6.2% too large: 2^n * (1 + f) instead of 2^(n + f), written into a float's bits.
inline v16f exp_above(v16f x) {
    const v16f bits = (x < -87.0f ? splat(-87.0f) : x) * 12102203.0f + 1065353216.0f;
    return (v16f)__builtin_convertvector(bits, v16i);
}

double exact_gumbel(uint32_t bits) { return -std::log(-std::log((bits + 0.5) * 0x1p-32)); }

double exact_noise(int32_t id, const uint32_t* key) {
    return exact_gumbel(mix32(mix32(uint32_t(id) ^ key[0]) ^ key[1]));
}

// Tokens whose log weight is at least `least` and, with their noise, may be the largest of such; in order. Returns how
// many. ids: of the log weights; null: 0, 1, 2, ... A token beats the best so far if -log(u) < exp(its log weight -
// best), and -log(u) >= 1 - u, which costs nothing.
int64_t contenders(const LogWeights& logs, const int32_t* ids, float least, int32_t peak_id, const uint32_t* key,
                   int32_t* found) {
    constexpr float SLACK = 1e-3f;  // more than float32 rounds at scores that can win
    std::vector<float> scores;
    v16i id;
    for (int i = 0; i < LANES; i++) id[i] = i;
    float best = float(exact_noise(peak_id, key));
    int64_t count = 0;
    for (int64_t i = 0; i < logs.n; i += LANES, id += LANES) {
        if (ids) std::memcpy(&id, ids + i, (logs.n - i < LANES ? logs.n - i : LANES) * 4);
        const v16f log_weight = logs.at(i), lead = log_weight - (best - SLACK);
        const v16u bits = mix32(mix32((v16u)id ^ key[0]) ^ key[1]);
        const v16f rest = (__builtin_convertvector(~bits, v16f) + 0.5f) * 0x1p-32f;  // 1 - u
        const v16i may_win = (rest <= exp_above(lead > 0.0f ? v16f{} : lead)) & (log_weight >= least);
        if (!any_lane(may_win)) continue;
        for (int64_t j = 0; j < LANES && i + j < logs.n; j++) {
            if (!may_win[j]) continue;
            const float score = float(log_weight[j] + exact_gumbel(bits[j]));
            if (score < best - SLACK) continue;
            found[count++] = id[j];
            scores.push_back(score);
            if (score > best) best = score;
        }
    }
    int64_t kept = 0;  // without those that were best only for a while
    for (int64_t c = 0; c < count; c++)
        if (scores[c] >= best - SLACK) found[kept++] = found[c];
    return kept;
}

}  // namespace

#define EXPORT(T, SUFFIX)                                                                                             \
    extern "C" void linear_##SUFFIX(void* out, const T* x, const T* norm_weight, T* normed, float eps, const T* w,    \
                                    const float* bias, int64_t rows, int64_t n, int64_t k, int64_t ldo, int mode,     \
                                    int threads) {                                                                    \
        linear<T>(out, x, norm_weight, normed, eps, w, bias, rows, n, k, ldo, mode, threads);                         \
    }                                                                                                                 \
    extern "C" void attention_##SUFFIX(const Shape* s, const Step* step, T* qkv, T* keys, T* values, T* out,          \
                                       const T* q_norm, const T* k_norm, float eps, const float* rope,                \
                                       int64_t max_slots, int threads) {                                              \
        attention<T>(*s, *step, qkv, keys, values, out, q_norm, k_norm, eps, rope, max_slots, threads);               \
    }                                                                                                                 \
    extern "C" void norm_rows_##SUFFIX(T* out, const T* x, const T* weight, float eps, int64_t rows, int64_t n,       \
                                       int64_t ldo, int64_t ldx) {                                                    \
        norm_rows<T>(out, x, weight, eps, rows, n, ldo, ldx);                                                         \
    }                                                                                                                 \
    extern "C" void move_slots_##SUFFIX(const Shape* s, int64_t layers, int64_t layer_stride, T* keys, T* values,     \
                                        const int32_t* from, const int32_t* to, int64_t count) {                      \
        move_slots<T>(*s, layers, layer_stride, keys, values, from, to, count);                                       \
    }

EXPORT(float, float32)
EXPORT(bf16, bfloat16)

extern "C" void likeliest_float32(const float* logits, int64_t rows, int64_t n, int64_t ld, int64_t count, int64_t* ids,
                                  float* logs, int threads) {
    likeliest(logits, rows, n, ld, count, ids, logs, threads);
}

extern "C" int64_t heavy_float32(const float* x, int64_t n, float peak, float scale, float least, int32_t* ids,
                                 float* kept, double* mass) {
    return heavy({x, n, peak, scale}, least, ids, kept, mass);
}

extern "C" int64_t contenders_float32(const float* x, int64_t n, float peak, float scale, const int32_t* ids, float least,
                                      int32_t peak_id, const uint32_t* key, int32_t* found) {
    return contenders({x, n, peak, scale}, ids, least, peak_id, key, found);
}

extern "C" void couple_float32(float* x, int64_t rows, int64_t n, int64_t ld, const int32_t* tokens, const uint32_t* keys,
                               const float* temperatures, float spread, int threads) {
    couple(x, rows, n, ld, tokens, keys, temperatures, spread, threads);
}
