#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

/// What happens to rows of inputs before they meet a stored weight
/// (ops/input_transform.h does the same): a change of order, then Hadamards of the
/// inputs before the tail.
namespace nibble::ops::cuda {

/// One Hadamard matrix of formats/hadamard.h: x <- x (B (x) S) scale.
struct HadamardBlock {
  int size = 0;                  // base * a power of two; 0: there is none
  int base = 1;                  // of B
  float scale = 1.0f;            // 1 / sqrt(size)
  const float* signs = nullptr;  // B [base, base], row-major, on the device; null for base 1
};

/// Inputs of the largest block: it lies in shared memory.
inline constexpr std::int64_t kMaxHadamard = 49152;

struct InputTransformView {
  const std::uint16_t* order =
      nullptr;  // on the device (ordered_rows.h): y[i] = x[order[i]]; or null
  int columns = 0;
  int head = 0;         // inputs that are turned, where any are
  HadamardBlock block;  // of the head
  HadamardBlock last;   // of what is left at its end
};

/// y = x transformed, [m, columns], not in place: the same bits as on the CPU.
void transform_inputs(const InputTransformView& transform, const float* x, float* y, std::int64_t m,
                      cudaStream_t stream);

}  // namespace nibble::ops::cuda
