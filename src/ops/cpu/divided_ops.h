#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/division.h"
#include "ranks/communicator.h"

namespace nibble::ops::cpu {

/// The operators of a CPU, where several ranks each have some outputs of a model's layers and some
/// heads: what an operator returns is whole on every rank, but for q|k|v and gate|up, of which each
/// has its own. Without a communicator they are CpuOps.
class DividedOps : public CpuOps {
 public:
  DividedOps(const CpuOptions& options, std::shared_ptr<ranks::Communicator> communicator,
             Division division)
      : CpuOps(options), ranks_(std::move(communicator)), division_(std::move(division)) {
    keep_values(ranks_ != nullptr);  // they are gathered
  }

  using CpuOps::embed;  // of stored rows, which no rank has a part of
  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids);
  /// Outputs of the last layer are those of all ranks on rank 0, on others their own.
  Matrix linear(Input& input, const LinearSet& set);
  std::optional<Matrix> linear(Input& input, const LinearSet& set, const Residual<Matrix>&) {
    return linear(input, set);
  }
  Input linear(Input& input, const LinearSet& set, const ActivateInto& into);
  Input attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                  const Batch<KvCache>& batch, const LinearSet& set);

 private:
  enum class To { kAll, kFirst };

  const Gathering* gathering(const LinearSet& set) const;
  Input whole(Input part, const LinearSet& set);
  Matrix gather_columns(const Matrix& mine, const Widths& widths, To to);
  Matrix gather_blocks(const Matrix& mine, std::span<const std::int64_t> floats, To to);

  std::shared_ptr<ranks::Communicator> ranks_;  // null: one rank
  Division division_;
};

}  // namespace nibble::ops::cpu
