#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/packed/page_buffer.h"
#include "ops/cpu/packed/quantized_input.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/variants.h"

namespace nibble::ops::cpu {

/// Whether weights of the scheme come into the layout of PackedLinear: integers and books, but not
/// block-sparse rows.
bool has_layout(const formats::Scheme& scheme);

/// How a layer wants its input. Groups of the layout are the smaller of the weight's and the
/// activation's group where that is at most 256, and whole rows where both have one scale for a
/// row. Longer groups, and rows whose activations stay in float, are cut into groups of 128, or of
/// 64 or 32 where only those divide them. A scheme that leaves activations in float reads them in 8
/// bits with a scale for each group of the layout.
InputNeeds input_needs(const formats::Scheme& scheme, std::int64_t k);

/// The layout of a weight without a tail, as bytes that can be stored and mapped again.
struct PackedBytes {
  std::span<const std::byte> tiles;    // [tile_count * tile_bytes], 64-byte aligned
  std::span<const std::int32_t> sums;  // weight_sums()
  int zero = 0;                        // those of TiledWeight
  int largest = 0;
};

/// Zero and largest of PackedBytes.
struct PackedRange {
  int zero = 0;
  int largest = 0;
};

/// What PackedBytes of a weight must be.
struct PackedPlan {
  std::int64_t tile_bytes = 0;
  std::int64_t sums = 0;             // values
  std::optional<PackedRange> range;  // not told where rows have tables of their own: those are many
};

/// For a weight without a tail. Throws as PackedLinear::pack().
PackedPlan packed_plan(const formats::PackedWeight& weight);

/// The range in any case.
PackedRange packed_range(const formats::PackedWeight& weight);

/// A compressed linear layer in the layout of the CPU kernels (tile_layout.h).
///
/// Codes keep their bits. Groups are padded to 32 inputs, but those of 16 that fill rows in pairs.
/// Books run as INT8 tables (int8_table.h):
/// exact for FP4, MXFP4 and NVFP4, rounded to 1/127 of the largest entry for the others. Sizes must
/// stay below 2^31 rows and inputs.
class PackedLinear {
 public:
  /// Throws kFailed for a weight without a layout (has_layout).
  static PackedLinear pack(const formats::PackedWeight& weight, core::ThreadPool& pool);

  /// The same over bytes() that pack() of an equal weight made, which `owner` keeps alive. `tail`
  /// is not read where the weight has none. Throws kIntegrity when sizes, alignment, zero or
  /// largest are not those of the weight.
  static PackedLinear view(const formats::PackedWeight& weight, const PackedBytes& head,
                           const PackedBytes& tail, std::shared_ptr<const void> owner);

  std::int64_t n() const { return tiled_.n; }
  std::int64_t k() const { return k_ + needs_.tail; }
  std::int64_t group() const { return needs_.group; }
  InputNeeds needs() const { return needs_; }
  /// Memory of the packed layout, all of which one token reads.
  std::int64_t bytes() const { return tile_bytes() + (tail_ ? tail_->bytes() : 0); }
  /// The same without the tail.
  std::int64_t tile_bytes() const { return tiled_.tile_count * tiled_.tile_bytes; }
  /// Without the tail, which has bytes of its own.
  PackedBytes stored() const;
  /// The INT8 weights of the last inputs; null without a tail. All else is about the inputs before.
  const PackedLinear* tail() const { return tail_.get(); }
  const TiledWeight& tiled() const { return tiled_; }
  /// y of the rows of tiles [begin, end), without the tail: y points at the first of them. `bias`
  /// [n] is added to them where there is one.
  void run(const Variant& variant, const TiledInput& x, std::int64_t begin, std::int64_t end,
           float* y, std::int64_t ldy, const float* bias = nullptr) const;
  /// Of zero_points.h; empty unless the activations carry zeros.
  std::span<const std::int32_t> weight_sums() const { return sums_; }

 private:
  PackedLinear() = default;
  void read_needs(const formats::PackedWeight& weight);
  static PackedLinear pack_head(const formats::PackedWeight& weight, core::ThreadPool& pool);
  static PackedLinear view_head(const formats::PackedWeight& weight, const PackedBytes& bytes,
                                std::shared_ptr<const void> owner);

  PageBuffer memory_;                      // of pack()
  std::vector<std::int32_t> sums_memory_;  // of pack()
  std::shared_ptr<const void> owner_;      // of view()
  TiledWeight tiled_;
  std::span<const std::int32_t> sums_;
  std::unique_ptr<PackedLinear> tail_;
  std::int64_t k_ = 0;  // without the tail
  InputNeeds needs_;
};

/// y[m, n_0 + n_1 + ...] (rows ldy apart) = x W^T for each part; the parts share the input and
/// stand side by side. A tail is a product of its own that is added, and then, where there are any,
/// the biases: one for each part, [n] or empty. One parallel region. The
/// result does not depend on m, on the other tokens, on the number of threads or on the variant.
void packed_linear(std::span<const PackedLinear* const> parts, const QuantizedInput& input,
                   float* y, std::int64_t ldy, core::ThreadPool& pool);

/// The same with the kernels of one variant.
void packed_linear(const Variant& variant, std::span<const PackedLinear* const> parts,
                   const QuantizedInput& input, float* y, std::int64_t ldy, core::ThreadPool& pool,
                   std::span<const std::span<const float>> biases = {});

/// Longest run of additions into one float of the result: one for each group.
std::int64_t packed_linear_chain(const PackedLinear& linear);

}  // namespace nibble::ops::cpu
