#include "ops/cuda/sparse/sparse_rows.h"

#include <bit>
#include <utility>

#include "ops/cuda/elementwise/input_target.h"

namespace nibble::ops::cuda {

using device::cuda::Buffer;

SparseRows::SparseRows(const PackedSparse& packed, std::shared_ptr<WideScratch> scratch,
                       std::int64_t wide_tokens)
    : units_(Buffer::of<std::byte>(packed.units)),
      shares_(Buffer::of<SparseShare>(packed.shares)),
      pieces_(Buffer::of<std::uint32_t>(packed.rows)),
      stream_rows_(Buffer::of<std::uint16_t>(packed.stream_rows)),
      wide_(std::move(scratch), packed.n, packed.k, wide_tokens * padded_columns(packed.k)) {
  view_.units = units_.data();
  view_.shares = shares_.as<SparseShare>();
  view_.pieces = pieces_.as<std::uint32_t>();
  view_.stream_rows = stream_rows_.as<std::uint16_t>();
  view_.n = static_cast<int>(packed.n);
  view_.k = static_cast<int>(packed.k);
  view_.blocks = packed.plan.blocks;
  view_.warps_log2 = std::countr_zero(static_cast<unsigned>(packed.plan.warps));
  view_.most_rows = static_cast<int>(packed.most_rows);
  view_.stride = static_cast<int>(packed.stride);
  view_.code_blocks = packed.code_blocks;
}

}  // namespace nibble::ops::cuda
