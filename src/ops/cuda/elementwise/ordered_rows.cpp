#include "ops/cuda/elementwise/ordered_rows.h"

#include "core/error.h"

namespace nibble::ops::cuda {

void check_ordered(std::int64_t columns) {
  const std::int64_t most = max_ordered_columns();
  core::require(columns <= most, core::ErrorKind::kUsage,
                "rows of {} values can't be put into an order on this GPU: up to {} can", columns,
                most);
}

}  // namespace nibble::ops::cuda
