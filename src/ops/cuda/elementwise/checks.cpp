#include "ops/cuda/elementwise/checks.h"

#include "core/error.h"

namespace nibble::ops::cuda {

using core::ErrorKind;

void check_columns(std::int64_t columns) {
  core::require(columns > 0 && columns <= kMaxColumns, ErrorKind::kUsage,
                "rows of {} values can't be handled on the GPU: 1 to {} are", columns, kMaxColumns);
}

void check_target(const InputTarget& target) {
  const bool wide = target.bits == 16 && target.symmetric && target.clip == 1.0f;
  const bool bits = target.bits == 8 || target.bits == 4 || wide;
  const bool group =
      target.group == 0 || target.group == 32 || target.group == 64 || target.group == 128;
  core::require(
      bits && group, ErrorKind::kUsage,
      "activations of {} bits in groups of {} can't be made on the GPU: 4, 8 or 16 bits in "
      "groups of 32, 64 or 128, or with one scale for a token (0), can",
      target.bits, target.group);
  if (target.form == InputForm::kInt4Tiles) {
    check_int4(target.bits, target.group);
  }
}

void check_int4(int bits, std::int64_t group) {
  core::require(
      bits <= 4 && group % kInputPadding == 0, ErrorKind::kFailed,
      "activations of {} bits in groups of {} can't be written in 4 bits: those of 3 or 4 bits in "
      "groups of {} n can, or with one scale for a token (0)",
      bits, group, kInputPadding);
}

void check_weights(const NormWeights& norm) {
  constexpr std::uintptr_t kAlignment = 16;
  const bool aligned = reinterpret_cast<std::uintptr_t>(norm.weight) % kAlignment == 0 &&
                       reinterpret_cast<std::uintptr_t>(norm.bias) % kAlignment == 0;
  core::require(aligned, ErrorKind::kFailed,
                "the weights of a norm must lie at a multiple of {} bytes on the GPU", kAlignment);
}

void check_types(const MatrixView& a, const MatrixView& b) {
  core::require(a.half == b.half, ErrorKind::kFailed,
                "an operator of the GPU takes matrices of one type: all float32 or all float16");
}

void refuse_form() {
  core::fail(ErrorKind::kFailed, "no operator of the GPU writes inputs in this form");
}

void refuse_table(core::DType type) {
  core::fail(ErrorKind::kUsage, "embedding tables of type {} can't be read on the GPU",
             core::name_of(type));
}

}  // namespace nibble::ops::cuda
