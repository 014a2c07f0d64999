#include "ops/cpu/linear/linear_input.h"

#include <algorithm>

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kRowsPerTask = 8;

}  // namespace

const QuantizedInput& LinearInput::quantized(const InputNeeds& needs, LinearWorkspace& workspace) {
  for (const auto& form : quantized_) {
    if (form->needs() == needs) {
      return *form;
    }
  }
  auto spare = std::find_if(workspace.spare.begin(), workspace.spare.end(),
                            [](const auto& form) { return form.use_count() == 1; });
  if (spare == workspace.spare.end()) {
    spare = workspace.spare.insert(workspace.spare.end(), std::make_shared<QuantizedInput>());
  }
  quantize_input(values_.data(), values_.rows(), values_.columns(), values_.columns(), needs,
                 **spare, workspace.pool);
  quantized_.push_back(*spare);
  return **spare;
}

const Matrix& LinearInput::transformed(const formats::PackedWeight& weight,
                                       LinearWorkspace& workspace) {
  const InputTransform transform(weight);
  if (transform.is_identity()) {
    return values_;
  }
  for (const auto& [known, matrix] : transformed_) {
    if (known == transform) {
      return matrix;
    }
  }
  Matrix y(workspace.buffers, values_.rows(), values_.columns());
  workspace.pool.parallel_for(y.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(values_.row(i), y.columns(), y.row(i));
      transform.apply({y.row(i), static_cast<std::size_t>(y.columns())});
    }
  });
  return transformed_.emplace_back(transform, std::move(y)).second;
}

}  // namespace nibble::ops::cpu
