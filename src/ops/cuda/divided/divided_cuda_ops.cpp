#include "ops/cuda/divided/divided_cuda_ops.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/cuda_ops_input.h"
#include "ops/cuda/divided/join_columns.h"
#include "ops/cuda/divided/pair_norm.h"
#include "ops/cuda/divided/pair_rows.h"

namespace nibble::ops::cuda {

void DividedCudaOps::divide(std::unique_ptr<Collectives> collectives, Division division) {
  core::require(collectives->size() <= kMostJoined, core::ErrorKind::kUsage,
                "{} GPUs are too many for one model; start at most {}", collectives->size(),
                kMostJoined);
  keep_layers_apart();  // kernels of other ranks are waited for in between
  collectives_ = std::move(collectives);
  division_ = std::move(division);
  set_wait([this] { collectives_->wait(stream()); });
}

void DividedCudaOps::end() noexcept {
  if (collectives_) {
    collectives_->end();
  }
}

bool DividedCudaOps::adds(const LinearSet& set) const {
  const auto id = static_cast<std::size_t>(set.id);
  return collectives_ != nullptr && id < division_.sets.size() && division_.sets[id].adds;
}

// Each rank has the rows of some tokens, and zeros for the others.
CudaOps::Matrix DividedCudaOps::embed(const core::Tensor& table,
                                      std::span<const std::int32_t> ids) {
  if (collectives_ == nullptr) {
    return CudaOps::embed(table, ids);
  }
  const auto before = division_.tokens.begin() + collectives_->rank();
  Matrix x = embed_part(table, ids, std::accumulate(division_.tokens.begin(), before, 0L));
  collectives_->add(x.data(), x.count(), stream());
  return x;
}

CudaOps::Matrix DividedCudaOps::linear(Input& input, const LinearSet& set) {
  Matrix y = CudaOps::linear(input, set);
  if (adds(set)) {
    collectives_->add(y.data(), y.count(), stream());
  } else if (collectives_ != nullptr && set.id == division_.output) {
    return join(y, division_.tokens);
  }
  return y;
}

std::optional<CudaOps::Matrix> DividedCudaOps::linear(Input& input, const LinearSet& set,
                                                      const Residual<Matrix>& onto) {
  if (!adds(set)) {
    return CudaOps::linear(input, set, onto);
  }
  if (!onto.x.is_half() && collectives_->by_products(onto.x.count()) &&
      (sends(input, set) || (divides(set, onto.x) && onto.x.columns() % kWireBlock == 0))) {
    return send_part(input, set, onto.x);
  }
  make_whole(onto.x);
  Matrix y = CudaOps::linear(input, set);
  if (!onto.x.is_half() && collectives_->by_peers(y.count())) {
    collectives_->add_onto(onto.x.data(), y.data(), y.count(), stream());
    return std::nullopt;
  }
  collectives_->add(y.data(), y.count(), stream());
  return y;
}

// Where what is behind the set lets both ranks go on with halves of the rows.
bool DividedCudaOps::divides(const LinearSet& set, const Matrix& x) const {
  return collectives_->divides_rows(x.rows()) && needs_whole_.count(set.id) == 0;
}

CudaOps::Matrix DividedCudaOps::send_part(Input& input, const LinearSet& set, Matrix& x) {
  const bool divided = divides(set, x);
  if (!divided) {
    make_whole(x);
  }
  Matrix mine = matrix(x.rows(), x.columns(), MatrixType::kBlocks);
  mine.divide_rows(divided);
  sent_by_ = set.id;
  const auto begin = [&] {
    return collectives_->begin_sum(mine.blocks(), x.rows(), divided, stream());
  };
  if (sends(input, set)) {
    send(input, set, begin());
  } else {
    const Matrix y = CudaOps::linear(input, set);
    send_over_pair(y.data(), y.columns(), begin(), stream());
  }
  return mine;
}

// NCCL gathers as many rows of each rank, so one more than there are where the number is odd.
void DividedCudaOps::make_whole(Matrix& x) {
  if (!x.rows_divided()) {
    return;
  }
  x.divide_rows(false);
  const std::int64_t m = x.rows();
  const std::int64_t columns = x.columns();
  const std::int64_t half = (m + 1) / 2;
  if (m % 2 == 0) {
    return collectives_->gather(x.data(), half * columns, stream());
  }
  const TokenRange rows = collectives_->own_rows(m);
  const Matrix all = matrix(2 * half, columns);
  copy(x.data() + rows.begin * columns, all.data() + rows.begin * columns,
       (rows.end - rows.begin) * columns);
  collectives_->gather(all.data(), half * columns, stream());
  copy(all.data(), x.data(), m * columns);
}

void DividedCudaOps::copy(const float* from, float* to, std::int64_t count) const {
  device::cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(float),
                                      cudaMemcpyDeviceToDevice, stream()),
                      "cudaMemcpyAsync");
}

// All rows on every rank.
void DividedCudaOps::add_part(Matrix& x, const Matrix& mine) {
  const PairSum sum = collectives_->end_sum(mine.blocks());
  if (!mine.rows_divided()) {
    return add_begun(sum, x.data(), x.count(), stream());
  }
  const TokenRange rows = collectives_->own_rows(x.rows());
  const std::int64_t first = rows.begin * x.columns();
  add_begun(sum.from(first), x.divided_data() + first, (rows.end - rows.begin) * x.columns(),
            stream());
  x.divide_rows(true);
  make_whole(x);
}

// A stream that was whole and has to be so again gains nothing from halves.
void DividedCudaOps::add(Matrix& x, const Matrix& delta) {
  if (!delta.is_blocks()) {
    return CudaOps::add(x, delta);
  }
  if (!x.rows_divided()) {
    needs_whole_.insert(sent_by_);
  }
  add_part(x, delta);
}

CudaOps::Input DividedCudaOps::add_norm(Matrix& x, const Matrix& delta, const Norm& norm,
                                        const LinearSet& set) {
  if (!delta.is_blocks()) {
    return CudaOps::add_norm(x, delta, norm, set);
  }
  if (!delta.rows_divided()) {
    return add_norm_by(
        x, norm, set,
        [&](const NormWeights& weights, const InputTarget& target) {
          add_begun_norm(collectives_->end_sum(delta.blocks()), x.data(), weights, target, x.rows(),
                         x.columns(), stream());
        },
        [&] { add_part(x, delta); });
  }
  if (std::optional<Input> input = add_norm_rows(x, delta, norm, set)) {
    return std::move(*input);
  }
  needs_whole_.insert(sent_by_);
  add_part(x, delta);
  return CudaOps::norm(x, norm, set);
}

// By each rank for its rows; nothing is done where no operator writes what the layers read.
std::optional<CudaOps::Input> DividedCudaOps::add_norm_rows(Matrix& x, const Matrix& mine,
                                                            const Norm& norm,
                                                            const LinearSet& set) {
  const std::int64_t m = x.rows();
  const std::optional<InputKey> key = direct_key(set, m);
  if (!key) {
    return std::nullopt;
  }
  constexpr std::int64_t kStep = 1024;  // at which scales begin
  const InputBytes bytes = plain_input_bytes(*key, m, x.columns());
  const std::int64_t scales = (bytes.values + kStep - 1) / kStep * kStep;
  const Collectives::SharedInput memory = collectives_->shared_input(scales + bytes.scales);
  if (memory.here == nullptr) {
    return std::nullopt;
  }
  const auto target = [&](std::byte* values) {
    return plain_target(*key, values, reinterpret_cast<float*>(values + scales));
  };
  add_begun_norm_rows(collectives_->end_sum(mine.blocks()), x.divided_data(), weights_of(norm),
                      target(memory.here), target(memory.there), collectives_->own_rows(m),
                      x.columns(), stream());
  x.divide_rows(true);
  collectives_->meet_on(stream());
  LinearInput made;
  made.m = m;
  made.target = target(memory.here);
  return made_input(made);
}

// NCCL gathers as much of each rank as the widest has.
CudaOps::Matrix DividedCudaOps::join(const Matrix& mine, const Widths& widths) {
  const std::int64_t m = mine.rows();
  const std::int64_t stride = m * *std::max_element(widths.begin(), widths.end());
  const Matrix parts = matrix(collectives_->size(), stride);
  copy(mine.data(), parts.data() + collectives_->rank() * stride, mine.count());
  collectives_->gather(parts.data(), stride, stream());
  RankColumns columns;
  for (const std::int64_t width : widths) {
    columns.first[columns.ranks + 1] =
        columns.first[columns.ranks] + static_cast<std::int32_t>(width);
    ++columns.ranks;
  }
  Matrix y = matrix(m, columns.first[columns.ranks]);
  join_columns(parts.data(), stride, columns, y.data(), m, stream());
  return y;
}

}  // namespace nibble::ops::cuda
