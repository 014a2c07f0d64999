#include "models/token_table.h"

#include <mutex>
#include <utility>

#include "formats/row_slice.h"

namespace nibble::models {
namespace {

core::Tensor decode(const ops::StoredRows& stored, std::int64_t begin, std::int64_t end) {
  core::Tensor values = core::Tensor::zeros(core::DType::kF32, {end - begin, stored.columns()});
  const auto columns = static_cast<std::size_t>(stored.columns());
  for (std::int64_t row = begin; row < end; ++row) {
    stored.read(row, values.mutable_data<float>().subspan(
                         static_cast<std::size_t>(row - begin) * columns, columns));
  }
  return values;
}

}  // namespace

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
  std::call_once(decoded_->once, [&] { decoded_->values = decode(*stored_, 0, stored_->rows()); });
  return decoded_->values;
}

core::Tensor TokenTable::plain_rows(std::int64_t begin, std::int64_t end) const {
  return stored_ ? decode(*stored_, begin, end) : formats::own_rows_of(plain_, begin, end);
}

core::Shape TokenTable::shape() const {
  return stored_ ? core::Shape{stored_->rows(), stored_->columns()} : plain_.shape();
}

std::int64_t TokenTable::elements() const {
  return stored_ ? stored_->rows() * stored_->columns() : plain_.elements();
}

}  // namespace nibble::models
