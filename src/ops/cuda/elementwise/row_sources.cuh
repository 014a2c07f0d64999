#pragma once

#include <cstdint>
#include <type_traits>

#include "core/float16.h"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/elementwise/activated.cuh"
#include "ops/cuda/elementwise/matrix_view.h"
#include "ops/layer_kinds.h"

/// Where the values of a row come from. load(row, column) gives four of them, zeros past the end;
/// column is a multiple of 4. Where they take less room before they are numbers, fetch() gives what
/// held_values() makes numbers of.
namespace nibble::ops::cuda {

__device__ __forceinline__ float4 held_values(float4 values) {
  return values;
}
__device__ __forceinline__ float4 held_values(uint2 halves) {
  const float2 low = float2_of(halves.x);
  const float2 high = float2_of(halves.y);
  return {low.x, low.y, high.x, high.y};
}

/// Rows of a matrix whose columns may not be a multiple of 4.
struct Rows {
  using Element = float;
  const float* data;
  std::int64_t stride;
  int columns;
  bool aligned;  // every fourth element lies at a multiple of 16 bytes

  __device__ float4 load(std::int64_t row, int column) const {
    const float* x = data + row * stride + column;
    if (column + 4 <= columns && aligned) {
      return *reinterpret_cast<const float4*>(x);
    }
    const auto at = [&](int i) { return column + i < columns ? x[i] : 0.0f; };
    return {at(0), at(1), at(2), at(3)};
  }
};

inline Rows rows_of(const float* data, std::int64_t stride, std::int64_t columns) {
  return {data, stride, static_cast<int>(columns),
          stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(data) % sizeof(float4) == 0};
}

/// The same of float16; says where values are at the end of the range (matrix_view.h).
struct HalfRows {
  using Element = core::Fp16;
  const core::Fp16* data;
  std::int64_t stride;
  int columns;
  bool aligned;  // every fourth element lies at a multiple of 8 bytes
  std::int32_t* saturated;

  __device__ uint2 fetch(std::int64_t row, int column) const {
    const core::Fp16* x = data + row * stride + column;
    uint2 halves;
    if (column + 4 <= columns && aligned) {
      halves = *reinterpret_cast<const uint2*>(x);
    } else {
      const auto at = [&](int i) { return column + i < columns ? std::uint32_t{x[i].bits} : 0u; };
      halves = {at(0) | at(1) << 16, at(2) | at(3) << 16};
    }
    if (saturated != nullptr && has_saturated(halves.x, halves.y)) {
      *saturated = 1;
    }
    return halves;
  }
  __device__ float4 load(std::int64_t row, int column) const {
    return held_values(fetch(row, column));
  }
};

inline HalfRows rows_of(const core::Fp16* data, std::int64_t stride, std::int64_t columns,
                        std::int32_t* saturated = nullptr) {
  return {data, stride, static_cast<int>(columns),
          stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(data) % sizeof(uint2) == 0,
          saturated};
}

/// body(its rows) for a matrix of either type.
template <typename Body>
void with_rows(const MatrixView& x, std::int64_t columns, const Body& body) {
  if (x.half) {
    body(rows_of(static_cast<const core::Fp16*>(x.data), columns, columns, x.saturated));
  } else {
    body(rows_of(static_cast<const float*>(x.data), columns, columns));
  }
}

/// Four values as a matrix of that type can hold them.
template <typename Element>
__device__ __forceinline__ float4 rounded(float4 value) {
  if constexpr (std::is_same_v<Element, core::Fp16>) {
    return held_values(uint2{saturated_half2(value.x, value.y), saturated_half2(value.z, value.w)});
  } else {
    return value;
  }
}

__device__ __forceinline__ void store_row(float* data, const Rows& shape, std::int64_t row,
                                          int column, float4 value) {
  float* y = data + row * shape.stride + column;
  if (column + 4 <= shape.columns && shape.aligned) {
    *reinterpret_cast<float4*>(y) = value;
    return;
  }
  const float each[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (column + i < shape.columns) {
      y[i] = each[i];
    }
  }
}

__device__ __forceinline__ void store_row(core::Fp16* data, const HalfRows& shape, std::int64_t row,
                                          int column, float4 value) {
  core::Fp16* y = data + row * shape.stride + column;
  const uint2 halves = {saturated_half2(value.x, value.y), saturated_half2(value.z, value.w)};
  if (column + 4 <= shape.columns && shape.aligned) {
    *reinterpret_cast<uint2*>(y) = halves;
    return;
  }
  const std::uint32_t words[2] = {halves.x, halves.y};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (column + i < shape.columns) {
      y[i].bits = static_cast<std::uint16_t>(words[i / 2] >> (16 * (i % 2)));
    }
  }
}

template <typename R>
struct PlainSource {
  R x;
  __device__ float4 load(std::int64_t row, int column) const { return x.load(row, column); }
};

/// float16 that is held as it is, where nothing is changed in its place.
struct HalfSource {
  HalfRows x;
  __device__ uint2 fetch(std::int64_t row, int column) const { return x.fetch(row, column); }
  __device__ float4 load(std::int64_t row, int column) const { return x.load(row, column); }
};

/// x + delta.
template <typename R>
struct AddedSource {
  R x;
  R delta;
  __device__ float4 load(std::int64_t row, int column) const {
    const float4 a = x.load(row, column);
    const float4 b = delta.load(row, column);
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
  }
};

/// x += delta on the way. x and delta must be aligned alike.
template <typename R>
struct SumSource {
  AddedSource<R> added;
  typename R::Element* sum;  // x itself
  __device__ float4 load(std::int64_t row, int column) const {
    const float4 value = rounded<typename R::Element>(added.load(row, column));
    if (column < added.x.columns) {
      store_row(sum, added.x, row, column, value);
    }
    return value;
  }
};

__device__ __forceinline__ float4 activated(MlpActivation activation, float4 x) {
  return {activated(activation, x.x), activated(activation, x.y), activated(activation, x.z),
          activated(activation, x.w)};
}

template <typename R>
struct ActivationSource {
  R x;
  MlpActivation activation;
  __device__ float4 load(std::int64_t row, int column) const {
    return activated(activation, x.load(row, column));
  }
};

struct GatedSource {
  Rows gate;
  Rows up;
  MlpActivation activation;
  __device__ float4 load(std::int64_t row, int column) const {
    const float4 a = activated(activation, gate.load(row, column));
    const float4 b = up.load(row, column);
    return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
  }
};

/// Gate and up in pairs (DeviceMatrix::paired); columns are a multiple of 8.
struct PairedSource {
  const float* data;
  int columns;
  MlpActivation activation;
  __device__ float4 load(std::int64_t row, int column) const {
    if (column >= columns) {
      return {};
    }
    const float* pair = data + 2 * row * columns + column / 8 * 16 + column % 8;
    const float4 a = activated(activation, *reinterpret_cast<const float4*>(pair));
    const float4 b = *reinterpret_cast<const float4*>(pair + 8);
    return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
  }
};

/// Whose values have yet to come: all that begin(place(), ...) asks for is under way before
/// finish() waits for the first. All lanes of a warp call together, with columns as sinks have
/// them.
template <typename Source>
concept BegunSource = requires {
  typename Source::Begun;
};

/// What a thread holds of four values.
template <typename Source>
struct HeldValues {
  using Type = float4;
  __device__ static float4 of(const Source& source, std::int64_t row, int column) {
    return source.load(row, column);
  }
};
template <>
struct HeldValues<HalfSource> {
  using Type = uint2;
  __device__ static uint2 of(const HalfSource& source, std::int64_t row, int column) {
    return source.fetch(row, column);
  }
};

}  // namespace nibble::ops::cuda
