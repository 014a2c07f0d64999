#pragma once

#include <cstdint>

#include "ops/cuda/elementwise/elementwise.h"

/// What the row operators cannot do. Apart from them because the CUDA compiler does not take the
/// formatting library's checked strings.
namespace nibble::ops::cuda {

/// Throws kUsage unless rows are of 1 to kMaxColumns values.
void check_columns(std::int64_t columns);
/// Throws kUsage unless the integers that the target asks for can be made.
void check_target(const InputTarget& target);
/// Throws kFailed where codes of so many bits, in groups (0: of all), don't fit kInt4Tiles.
void check_int4(int bits, std::int64_t group);
/// Throws kFailed unless the weights can be read four at a time.
void check_weights(const NormWeights& norm);
/// Throws kFailed unless both are float32, or both float16.
void check_types(const MatrixView& a, const MatrixView& b);
/// Throws kFailed: nothing writes inputs in the form that was asked for.
[[noreturn]] void refuse_form();
/// Throws kUsage.
[[noreturn]] void refuse_table(core::DType type);

}  // namespace nibble::ops::cuda
