#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "formats/packed_weight.h"
#include "ops/cpu/packed/quantized_input.h"

namespace nibble::ops::cpu {

/// What packed_linear computes, slowly and plainly: the same INT8 activations, weights from the
/// format's codes, sums in double.
struct PackedReference {
  std::vector<double> y;          // [m, n]
  std::vector<double> magnitude;  // [m, n]: sum over groups, or runs, of |what each adds|
};

inline constexpr std::int64_t kWholeGroups = std::numeric_limits<std::int64_t>::max();

/// `run_inputs`: a kernel rounds its sums behind so many inputs of a group.
///
/// 16-entry books are taken as the INT8 tables that kernels run (int8_table.h); everything else is
/// what formats::decode_row says.
PackedReference packed_linear_reference(const formats::PackedWeight& weight,
                                        const QuantizedInput& input,
                                        std::int64_t run_inputs = kWholeGroups);

}  // namespace nibble::ops::cpu
