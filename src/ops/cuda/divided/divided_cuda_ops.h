#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/divided/collectives.h"
#include "ops/division.h"

namespace nibble::ops::cuda {

/// The operators of a GPU, where several ranks, each with one, have parts of a model that is
/// divided by inputs behind heads and the middle of MLPs (Gathering::adds): what an operator
/// returns is whole on every rank and the same bits, but for q|k|v, heads, gate|up and the middle,
/// of which each has its own. Without collectives they are CudaOps.
class DividedCudaOps : public CudaOps {
 public:
  using CudaOps::CudaOps;

  /// To be called before all else, where several ranks run the model.
  void divide(std::unique_ptr<Collectives> collectives, Division division);
  const Collectives* collectives() const { return collectives_.get(); }
  /// Ends what waits for other ranks: to be called before memory goes that it uses.
  void end() noexcept;

  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids);
  using CudaOps::linear;
  /// Outputs of the last layer are those of all ranks.
  Matrix linear(Input& input, const LinearSet& set);
  /// What it returns may be a part of a sum (MatrixType::kBlocks), to be given to add() or
  /// add_norm() before another layer's results are added.
  std::optional<Matrix> linear(Input& input, const LinearSet& set, const Residual<Matrix>& onto);
  void add(Matrix& x, const Matrix& delta);
  Input add_norm(Matrix& x, const Matrix& delta, const Norm& norm, const LinearSet& set);

 private:
  bool adds(const LinearSet& set) const;
  bool divides(const LinearSet& set, const Matrix& x) const;
  Matrix send_part(Input& input, const LinearSet& set, Matrix& x);
  void add_part(Matrix& x, const Matrix& mine);
  std::optional<Input> add_norm_rows(Matrix& x, const Matrix& mine, const Norm& norm,
                                     const LinearSet& set);
  void make_whole(Matrix& x);
  void copy(const float* from, float* to, std::int64_t count) const;
  Matrix join(const Matrix& mine, const Widths& widths);

  std::unique_ptr<Collectives> collectives_;  // null: one rank
  Division division_;
  int sent_by_ = -1;           // the set whose part of a sum is to be added
  std::set<int> needs_whole_;  // sets whose sums are not made in halves of the rows
};

}  // namespace nibble::ops::cuda
