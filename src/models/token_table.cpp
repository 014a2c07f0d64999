#include "models/token_table.h"

#include <mutex>
#include <utility>

namespace nibble::models {

struct TokenTable::Decoded {
  std::once_flag once;
  core::Tensor values;
};

TokenTable::TokenTable(std::shared_ptr<const ops::StoredRows> stored)
    : stored_(std::move(stored)), decoded_(std::make_shared<Decoded>()) {}

const core::Tensor& TokenTable::plain() const {
  if (stored_ == nullptr) {
    return plain_;
  }
  std::call_once(decoded_->once, [&] {
    core::Tensor values = core::Tensor::zeros(core::DType::kF32, shape());
    const auto columns = static_cast<std::size_t>(stored_->columns());
    for (std::int64_t row = 0; row < stored_->rows(); ++row) {
      stored_->read(row, values.mutable_data<float>().subspan(
                             static_cast<std::size_t>(row) * columns, columns));
    }
    decoded_->values = std::move(values);
  });
  return decoded_->values;
}

core::Shape TokenTable::shape() const {
  return stored_ ? core::Shape{stored_->rows(), stored_->columns()} : plain_.shape();
}

std::int64_t TokenTable::elements() const {
  return stored_ ? stored_->rows() * stored_->columns() : plain_.elements();
}

}  // namespace nibble::models
