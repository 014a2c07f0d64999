#include "ops/cuda/linear/unit_segment.h"

#include <span>
#include <vector>

namespace nibble::ops::cuda {

using device::cuda::Buffer;

UnitSegment::UnitSegment(const UnitRows& rows, const LayerPlan& plan, UnitPacker& packer)
    : plan_(plan) {
  view_.format = plan.shape.format;
  view_.n = plan.shape.n;
  view_.k = plan.shape.k;
  units_ = Buffer(unit_grid(view_.n, view_.k).count() * view_.format.bytes());
  packer.pack(rows, view_.format, units_.data());
  view_.units = units_.data();
  add_tables(rows, packer.pool());
}

void UnitSegment::add_tables(const UnitRows& rows, core::ThreadPool& pool) {
  if (!is_book(view_.format.codes)) {
    return;
  }
  const std::int64_t padded = unit_grid(view_.n, view_.k).row_groups * kUnitRows;
  std::vector<std::int8_t> tables(static_cast<std::size_t>(padded * 16));
  std::vector<float> factors(static_cast<std::size_t>(padded), 1.0f);
  pool.parallel_for(padded, kUnitRows, [&](std::int64_t begin, std::int64_t end) {
    const auto at = static_cast<std::size_t>(begin);
    const auto count = static_cast<std::size_t>(end - begin);
    write_tables(rows, begin, std::span(tables).subspan(at * 16, count * 16),
                 std::span(factors).subspan(at, count));
  });
  tables_ = Buffer::of<std::int8_t>(tables);
  factors_ = Buffer::of<float>(factors);
  view_.tables = tables_.as<std::int8_t>();
  view_.factors = factors_.as<float>();
}

}  // namespace nibble::ops::cuda
