#include "ops/cpu/linear/linear_input.h"

#include <algorithm>

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kRowsPerTask = 8;

/// A form that no input has, or a new one.
template <class Form>
std::shared_ptr<Form> unused(std::vector<std::shared_ptr<Form>>& spare) {
  const auto found = std::find_if(spare.begin(), spare.end(),
                                  [](const auto& form) { return form.use_count() == 1; });
  return found != spare.end() ? *found : spare.emplace_back(std::make_shared<Form>());
}

}  // namespace

const QuantizedInput& LinearInput::quantized(const InputNeeds& needs, LinearWorkspace& workspace) {
  for (const auto& form : quantized_) {
    if (form->needs() == needs) {
      return *form;
    }
  }
  const std::shared_ptr<QuantizedInput> form = unused(workspace.spare);
  quantize_input(values_.data(), values_.rows(), values_.columns(), values_.columns(), needs, *form,
                 workspace.pool);
  quantized_.push_back(form);
  return *form;
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

const FloatDigits& LinearInput::digits(const FloatTiles& tiles, const Matrix& x, bool is_f16,
                                       LinearWorkspace& workspace) {
  for (const auto& form : digits_) {
    if (form->x() == x.data() && form->is_f16() == is_f16) {
      return *form;
    }
  }
  const std::shared_ptr<FloatDigits> form = unused(workspace.spare_digits);
  form->split(tiles, x.data(), x.rows(), x.columns(), x.columns(), is_f16, workspace.pool);
  digits_.push_back(form);
  return *form;
}

}  // namespace nibble::ops::cpu
