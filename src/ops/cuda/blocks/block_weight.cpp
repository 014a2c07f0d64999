#include "ops/cuda/blocks/block_weight.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/error.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

constexpr int kByteBits = 8;
constexpr int kByteMiddle = 128;
constexpr int kFewCodes = 32;  // of five bits, in bytes
constexpr std::int64_t kRowsOfTask = 16;

std::size_t index(std::int64_t at) {
  return static_cast<std::size_t>(at);
}

// What is to be subtracted from codes.
int middle_of(const PackedWeight& weight) {
  const int bits = weight.scheme.code.bits;
  if (bits == kByteBits) {
    const auto codes = weight.codes.data<std::uint8_t>();
    const bool few =
        std::all_of(codes.begin(), codes.end(), [](std::uint8_t code) { return code < kFewCodes; });
    return few ? kFewCodes / 2 : kByteMiddle;
  }
  return 1 << (bits - 1);
}

// Codes whose middle is that of their bits.
core::Tensor moved_codes(const PackedWeight& weight, int middle) {
  if (weight.scheme.code.bits != kByteBits || middle == kByteMiddle) {
    return weight.codes;
  }
  core::Tensor moved =
      core::Tensor::zeros(core::DType::kU8, {weight.codes.dim(0), weight.codes.dim(1)});
  const auto from = weight.codes.data<std::uint8_t>();
  std::transform(
      from.begin(), from.end(), moved.mutable_data<std::uint8_t>().begin(),
      [&](std::uint8_t code) { return static_cast<std::uint8_t>(code + kByteMiddle - middle); });
  return moved;
}

}  // namespace

bool is_block_scheme(const formats::Scheme& scheme) {
  return formats::has_minima(scheme) || formats::has_supers(scheme);
}

PackedWeight block_weight(const PackedWeight& weight, std::string_view name,
                          core::ThreadPool& pool) {
  const bool minima = formats::has_minima(weight.scheme);
  const std::int64_t groups = groups_per_row(weight.scheme, weight.k);
  const int middle = minima ? middle_of(weight) : 0;
  PackedWeight plain;
  plain.scheme = weight.scheme;
  plain.scheme.scale.type = formats::ScaleType::kF16;
  plain.scheme.code.used_bits = 0;
  plain.n = weight.n;
  plain.k = weight.k;
  plain.codes = minima ? moved_codes(weight, middle) : weight.codes;
  plain.book = weight.book;
  plain.scales = core::Tensor::zeros(core::DType::kF16, {weight.n, groups});
  const auto scales = plain.scales.mutable_data<core::Fp16>();
  std::span<core::Fp16> shifts;
  if (minima) {
    plain.minima = core::Tensor::zeros(core::DType::kF16, {weight.n, groups});
    shifts = plain.minima.mutable_data<core::Fp16>();
  }
  std::atomic<bool> fits = true;
  const auto rounded = [&](float value) {
    const core::Fp16 half = core::to_fp16(value);
    if (!std::isfinite(core::to_float(half))) {
      fits = false;
    }
    return half;
  };
  pool.parallel_for(weight.n, kRowsOfTask, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(index(groups));
    std::vector<float> lowest(row.size());
    for (std::int64_t n = begin; n < end; ++n) {
      unpack_scales(weight, n, row);
      const auto of_row = scales.subspan(index(n * groups), index(groups));
      std::transform(row.begin(), row.end(), of_row.begin(), rounded);
      if (minima) {
        unpack_minima(weight, n, lowest);
        for (std::size_t group = 0; group < row.size(); ++group) {
          shifts[index(n * groups) + group] =
              rounded(lowest[group] + static_cast<float>(middle) * row[group]);
        }
      }
    }
  });
  core::require(fits, core::ErrorKind::kUsage,
                "layer {}: a scale or a minimum of {} is beyond the range of float16; use --device "
                "cpu",
                name, weight.scheme);
  return plain;
}

}  // namespace nibble::ops::cuda
