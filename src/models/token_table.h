#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.h"
#include "ops/stored_rows.h"

namespace nibble::models {

/// The vectors of the tokens [rows, columns]: plain numbers, or rows that are decoded when they are
/// looked up. Copies share them.
class TokenTable {
 public:
  TokenTable() = default;
  TokenTable(core::Tensor plain) : plain_(std::move(plain)) {}  // NOLINT: a tensor is a table
  explicit TokenTable(std::shared_ptr<const ops::StoredRows> stored);

  /// Null for plain numbers.
  const ops::StoredRows* stored() const { return stored_.get(); }

  /// All rows as plain numbers. Those of stored rows are float32, and are decoded by the first
  /// caller: for what needs the whole table.
  const core::Tensor& plain() const;

  /// Rows [begin, end) as plain numbers, in memory of their own (plain ones of mapped files: where
  /// they are). Only these are decoded.
  core::Tensor plain_rows(std::int64_t begin, std::int64_t end) const;

  /// Whether a matrix is this table. Nothing is decoded.
  bool is(const core::Tensor& matrix) const {
    return stored_ == nullptr && !plain_.empty() && plain_.raw() == matrix.raw();
  }

  core::Shape shape() const;
  std::int64_t elements() const;
  std::int64_t bytes() const { return stored_ ? stored_->bytes() : plain_.bytes(); }

 private:
  struct Decoded;

  core::Tensor plain_;
  std::shared_ptr<const ops::StoredRows> stored_;
  std::shared_ptr<Decoded> decoded_;  // of stored rows
};

}  // namespace nibble::models
