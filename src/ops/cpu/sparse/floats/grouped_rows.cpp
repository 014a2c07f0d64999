#include "ops/cpu/sparse/floats/grouped_rows.h"

namespace nibble::ops::cpu {

GroupedRows grouped_rows(const formats::PackedWeight& weight) {
  GroupedRows view;
  view.row_index = weight.row_index.data<std::int32_t>().data();
  view.groups = weight.groups.data<std::uint8_t>().data();
  view.values = weight.values.data<core::Fp16>().data();
  view.group = weight.scheme.scale.group;
  view.k = weight.k;
  view.index_bytes = static_cast<int>(weight.groups.dim(1));
  return view;
}

}  // namespace nibble::ops::cpu
