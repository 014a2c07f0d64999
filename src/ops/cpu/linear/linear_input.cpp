#include "ops/cpu/linear/linear_input.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

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

std::shared_ptr<QuantizedInput> unused_codes(LinearWorkspace& workspace) {
  return unused(workspace.spare);
}

LinearInput::LinearInput(Matrix values)
    : values_(std::move(values)), rows_(values_.rows()), columns_(values_.columns()) {}

LinearInput::LinearInput(std::shared_ptr<QuantizedInput> codes)
    : rows_(codes->m()), columns_(codes->k()) {
  quantized_.push_back(std::move(codes));
}

const Matrix& LinearInput::values() const {
  core::require(!values_.empty() || rows_ * columns_ == 0, core::ErrorKind::kFailed,
                "an input of {} x {} was made as integers alone; a layer reads it in another form",
                rows_, columns_);
  return values_;
}

const QuantizedInput& LinearInput::quantized(const InputNeeds& needs, LinearWorkspace& workspace) {
  for (const auto& form : quantized_) {
    if (form->needs() == needs) {
      return *form;
    }
  }
  const Matrix& x = values();
  const std::shared_ptr<QuantizedInput> form = unused_codes(workspace);
  quantize_input(x.data(), x.rows(), x.columns(), x.columns(), needs, *form, workspace.pool);
  quantized_.push_back(form);
  return *form;
}

const Matrix& LinearInput::transformed(const formats::PackedWeight& weight,
                                       LinearWorkspace& workspace) {
  const InputTransform transform(weight);
  const Matrix& x = values();
  if (transform.is_identity()) {
    return x;
  }
  for (const auto& [known, matrix] : transformed_) {
    if (known == transform) {
      return matrix;
    }
  }
  Matrix y(workspace.buffers, x.rows(), x.columns());
  workspace.pool.parallel_for(y.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(x.row(i), y.columns(), y.row(i));
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
