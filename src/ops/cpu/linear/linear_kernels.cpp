#include "ops/cpu/linear/linear_kernels.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/fp8/fp8_linear.h"
#include "ops/cpu/sparse/floats/float_rows.h"
#include "ops/cpu/sparse/sparse_linear.h"
#include "ops/cpu/trellis/trellis_linear.h"

namespace nibble::ops::cpu {
namespace {

std::int64_t bytes_of(const std::monostate&) {
  return 0;
}
std::int64_t bytes_of(const PackedLinear& tiles) {
  return tiles.bytes();
}
std::int64_t bytes_of(const formats::PackedWeight& weight) {
  return formats::stored_bytes(weight);
}
std::int64_t bytes_of(const SparseStreams& units) {
  return units.bytes();
}

}  // namespace

std::int64_t PreparedLayer::bytes() const {
  return std::visit([](const auto& held) { return bytes_of(held); }, form);
}

std::span<const LinearKernel> linear_kernels() {
  static const std::vector<LinearKernel> kernels = [] {
    std::vector<LinearKernel> all;
    for (const Variant& variant : variants()) {
      all.push_back(packed_kernel(variant));
    }
    for (const SparseKernel& kernel : sparse_kernels()) {
      all.push_back(sparse_kernel(kernel));
    }
    std::reverse(all.begin(), all.end());  // the fastest first
    all.push_back(fp8_kernel());
    all.push_back(trellis_kernel());
    all.push_back(float_rows_kernel());
    if (const FloatTiles* const tiles = architecture_float_tiles(); tiles != nullptr) {
      all.push_back(dense_kernel(*tiles));
      all.push_back(whole_kernel(*tiles));
    }
    all.push_back(dense_kernel());
    all.push_back(whole_kernel());
    all.push_back(decoded_kernel());
    return all;
  }();
  return kernels;
}

Refusal epilogue_refusal(const Epilogue& epilogue) {
  if (epilogue.adds || epilogue.gate || epilogue.half || epilogue.activation) {
    return Reason("the kernels of a CPU do nothing else with their results");
  }
  return std::nullopt;
}

}  // namespace nibble::ops::cpu
