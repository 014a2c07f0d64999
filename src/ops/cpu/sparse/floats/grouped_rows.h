#pragma once

#include "formats/packed_weight.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {

/// Whether weights are block-sparse rows of floats (f16-g16-bsr).
inline bool has_grouped_rows(const formats::Scheme& scheme) {
  return formats::is_block_sparse(scheme) && !formats::has_codes(scheme);
}

/// Such a weight as kernels see it: a view.
GroupedRows grouped_rows(const formats::PackedWeight& weight);

}  // namespace nibble::ops::cpu
