#include "ops/cuda/attention/hadamard_signs.h"

#include <span>
#include <vector>

#include "formats/hadamard.h"

namespace nibble::ops::cuda {

// The smallest base that leaves a power of two is the smallest of its family that exists; its signs
// are what the matrix does to unit vectors.
HadamardSigns::HadamardSigns(std::int64_t size) : exists_(formats::hadamard_exists(size)) {
  std::int64_t base = size;
  while (exists_ && base % 2 == 0) {
    base /= 2;
  }
  if (!exists_ || base == 1) {
    return;
  }
  while (!formats::hadamard_exists(base)) {
    base *= 2;
  }
  base_ = static_cast<std::int32_t>(base);
  const formats::Hadamard matrix(base);
  std::vector<float> signs(static_cast<std::size_t>(base * base), 0.0f);
  for (std::int64_t i = 0; i < base; ++i) {
    const std::span<float> row = std::span(signs).subspan(static_cast<std::size_t>(i * base),
                                                          static_cast<std::size_t>(base));
    row[static_cast<std::size_t>(i)] = 1.0f;
    matrix.apply(row);
    for (float& value : row) {
      value = value > 0 ? 1.0f : -1.0f;
    }
  }
  signs_ = device::cuda::Buffer::of(std::span<const float>(signs));
}

}  // namespace nibble::ops::cuda
