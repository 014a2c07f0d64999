#include "formats/hadamard_loops.h"

#include <cmath>
#include <utility>

#include "core/vector_level.h"

namespace nibble::formats {
namespace {

template <typename T, int kLanes>
struct VectorOf {
  using Type = typename core::VectorOf<T, kLanes>::Type;

  static NIBBLE_INLINE void load(const T* p, Type& v) { __builtin_memcpy(&v, p, sizeof(v)); }
  static NIBBLE_INLINE void store(T* p, const Type& v) { __builtin_memcpy(p, &v, sizeof(v)); }
};

// Butterflies among lanes kHalf apart: sums in the lower lane, differences in the higher.
template <typename V, int kHalf, int... kLane>
NIBBLE_INLINE void lane_round(V& v, std::integer_sequence<int, kLane...>) {
  const V other = __builtin_shufflevector(v, v, (kLane ^ kHalf)...);
  const V signs = {((kLane & kHalf) == 0 ? 1 : -1)...};
  v = other + v * signs;
}

// Rounds of butterflies inside a vector: kHalf, 2 kHalf, ... lanes apart.
template <typename V, int kLanes, int kHalf>
NIBBLE_INLINE void lane_rounds(V& v) {
  if constexpr (kHalf < kLanes) {
    lane_round<V, kHalf>(v, std::make_integer_sequence<int, kLanes>());
    lane_rounds<V, kLanes, 2 * kHalf>(v);
  }
}

// One round among values `half` apart.
template <int kLanes, typename T>
NIBBLE_INLINE void one_round(T* x, std::int64_t half) {
  using Vector = VectorOf<T, kLanes>;
  T* high = x + half;
  for (std::int64_t j = 0; j < half; j += kLanes) {
    typename Vector::Type a;
    typename Vector::Type b;
    Vector::load(x + j, a);
    Vector::load(high + j, b);
    Vector::store(x + j, a + b);
    Vector::store(high + j, a - b);
  }
}

// One round, then another among values twice as far apart: four runs of `half` values.
template <int kLanes, typename T>
NIBBLE_INLINE void two_rounds(T* x, std::int64_t half) {
  using Vector = VectorOf<T, kLanes>;
  for (T* end = x + half; x != end; x += kLanes) {
    typename Vector::Type run[4];
    for (int i = 0; i < 4; ++i) {
      Vector::load(x + i * half, run[i]);
    }
    const auto sum01 = run[0] + run[1];
    const auto difference01 = run[0] - run[1];
    const auto sum23 = run[2] + run[3];
    const auto difference23 = run[2] - run[3];
    Vector::store(x, sum01 + sum23);
    Vector::store(x + half, difference01 + difference23);
    Vector::store(x + 2 * half, sum01 - sum23);
    Vector::store(x + 3 * half, difference01 - difference23);
  }
}

// x <- x S for 2^m values, with rounds of butterflies among values 1, 2, 4, ... apart.
template <int kLanes, typename T>
NIBBLE_INLINE void butterflies(T* x, std::int64_t size) {
  if (size < kLanes) {
    for (std::int64_t half = 1; half < size; half *= 2) {
      for (std::int64_t i = 0; i < size; i += 2 * half) {
        one_round<1>(x + i, half);
      }
    }
    return;
  }
  using Vector = VectorOf<T, kLanes>;
  for (std::int64_t i = 0; i < size; i += kLanes) {
    typename Vector::Type v;
    Vector::load(x + i, v);
    lane_rounds<typename Vector::Type, kLanes, 1>(v);
    Vector::store(x + i, v);
  }
  std::int64_t half = kLanes;
  for (; 4 * half <= size; half *= 4) {
    for (std::int64_t i = 0; i < size; i += 4 * half) {
      two_rounds<kLanes>(x + i, half);
    }
  }
  if (half < size) {
    one_round<kLanes>(x, half);
  }
}

// kVectors vectors of columns of one row of B^T x (of B x when transposed): its signs lie `stride`
// apart. x [base, width] from the first of the columns on.
template <int kLanes, int kVectors, typename T>
NIBBLE_INLINE void mix_columns(const T* x, const HadamardTurn& turn, const float* signs,
                               std::int64_t stride, T* to) {
  using Vector = VectorOf<T, kLanes>;
  typename Vector::Type sums[kVectors] = {};
  for (std::int64_t from = 0; from < turn.base; ++from) {
    const auto sign = static_cast<T>(signs[from * stride]);
    for (int i = 0; i < kVectors; ++i) {
      typename Vector::Type v;
      Vector::load(x + from * turn.width + i * kLanes, v);
      sums[i] += sign * v;
    }
  }
  for (int i = 0; i < kVectors; ++i) {
    Vector::store(to + i * kLanes, sums[i]);
  }
}

// x [base, width] <- B^T x, or B x when transposed.
template <int kLanes, typename T>
NIBBLE_INLINE void mix(const HadamardTurn& turn, T* x, T* scratch) {
  constexpr std::int64_t kTogether = 4;
  const std::int64_t stride = turn.transposed ? 1 : turn.base;
  for (std::int64_t to = 0; to < turn.base; ++to) {
    const float* row = turn.signs + (turn.transposed ? to * turn.base : to);
    T* sums = scratch + to * turn.width;
    std::int64_t j = 0;
    for (; j + kTogether * kLanes <= turn.width; j += kTogether * kLanes) {
      mix_columns<kLanes, kTogether>(x + j, turn, row, stride, sums + j);
    }
    for (; j + kLanes <= turn.width; j += kLanes) {
      mix_columns<kLanes, 1>(x + j, turn, row, stride, sums + j);
    }
    for (; j < turn.width; ++j) {
      mix_columns<1, 1>(x + j, turn, row, stride, sums + j);
    }
  }
  __builtin_memcpy(x, scratch, static_cast<unsigned long>(turn.base * turn.width) * sizeof(T));
}

template <int kLanes, typename T>
NIBBLE_INLINE void turn_in_lanes(const HadamardTurn& turn, T* x, std::int64_t blocks, T* scratch,
                                 T scale) {
  const std::int64_t size = turn.base * turn.width;
  for (T* end = x + blocks * size; x != end; x += size) {
    for (std::int64_t i = 0; i < turn.base; ++i) {
      butterflies<kLanes>(x + i * turn.width, turn.width);
    }
    if (turn.signs != nullptr) {
      mix<kLanes>(turn, x, scratch);
    }
    for (std::int64_t j = 0; j < size; ++j) {
      x[j] *= scale;
    }
  }
}

template <typename T>
T scale_of(const HadamardTurn& turn) {
  return T{1} / std::sqrt(static_cast<T>(turn.base * turn.width));
}

struct TurnFloats {
  template <int kVectorBytes>
  static NIBBLE_INLINE void run(const HadamardTurn& turn, float* x, std::int64_t blocks,
                                float* scratch, float scale) {
    turn_in_lanes<kVectorBytes / int{sizeof(float)}>(turn, x, blocks, scratch, scale);
  }
};

}  // namespace

void turn_blocks_plainly(const HadamardTurn& turn, float* x, std::int64_t blocks, float* scratch) {
  core::VectorVersions<TurnFloats>::plain(turn, x, blocks, scratch, scale_of<float>(turn));
}

void turn_blocks(const HadamardTurn& turn, float* x, std::int64_t blocks, float* scratch) {
  core::VectorVersions<TurnFloats>::best(turn, x, blocks, scratch, scale_of<float>(turn));
}

void turn_blocks(const HadamardTurn& turn, double* x, std::int64_t blocks, double* scratch) {
  turn_in_lanes<2>(turn, x, blocks, scratch, scale_of<double>(turn));
}

}  // namespace nibble::formats
