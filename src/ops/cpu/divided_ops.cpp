#include "ops/cpu/divided_ops.h"

#include <algorithm>
#include <numeric>

namespace nibble::ops::cpu {
namespace {

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

const Gathering* DividedOps::gathering(const LinearSet& set) const {
  const auto id = static_cast<std::size_t>(set.id);
  return ranks_ != nullptr && id < division_.sets.size() ? &division_.sets[id] : nullptr;
}

// What every rank gives, block after block; `floats` is the length of each.
Matrix DividedOps::gather_blocks(const Matrix& mine, std::span<const std::int64_t> floats, To to) {
  const bool takes = to == To::kAll || ranks_->rank() == 0;
  Matrix blocks = matrix(1, takes ? std::accumulate(floats.begin(), floats.end(), 0L) : 0);
  std::vector<std::span<std::byte>> places(floats.size());
  float* place = blocks.data();
  for (std::size_t rank = 0; takes && rank < floats.size(); ++rank) {
    const std::span block(place, index(floats[rank]));
    places[rank] = std::as_writable_bytes(block);
    if (std::cmp_equal(rank, ranks_->rank())) {
      std::copy(mine.values().begin(), mine.values().end(), block.begin());
    }
    place += floats[rank];
  }
  const auto given = std::as_bytes(mine.values());
  to == To::kAll ? ranks_->all_gather(given, places) : ranks_->gather(given, places);
  return blocks;
}

// The columns of all ranks side by side; an empty matrix where rank 0 alone takes them.
Matrix DividedOps::gather_columns(const Matrix& mine, const Widths& widths, To to) {
  const std::int64_t rows = mine.rows();
  std::vector<std::int64_t> floats(widths.size());
  std::transform(widths.begin(), widths.end(), floats.begin(),
                 [rows](std::int64_t width) { return rows * width; });
  const Matrix blocks = gather_blocks(mine, floats, to);
  if (blocks.columns() == 0) {
    return {};
  }
  Matrix all = matrix(rows, std::accumulate(widths.begin(), widths.end(), 0L));
  const float* block = blocks.data();
  std::int64_t column = 0;
  for (std::size_t rank = 0; rank < widths.size(); ++rank) {
    for (std::int64_t i = 0; i < rows; ++i) {
      std::copy_n(block + i * widths[rank], widths[rank], all.row(i) + column);
    }
    block += floats[rank];
    column += widths[rank];
  }
  return all;
}

Matrix DividedOps::linear(Input& input, const LinearSet& set) {
  Matrix y = CpuOps::linear(input, set);
  const Gathering* const gathered = gathering(set);
  if (gathered == nullptr || gathered->outputs.empty()) {
    return y;
  }
  Matrix all =
      gather_columns(y, gathered->outputs, set.id == division_.output ? To::kFirst : To::kAll);
  return all.empty() ? std::move(y) : std::move(all);
}

CpuOps::Input DividedOps::linear(Input& input, const LinearSet& set, const ActivateInto& into) {
  return whole(CpuOps::linear(input, set, into), into.next);
}

CpuOps::Input DividedOps::attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                                    const Batch<KvCache>& batch, const LinearSet& set) {
  return whole(CpuOps::attention(qkv, spec, layer, batch, set), set);
}

// The columns of a set's inputs that all ranks have.
CpuOps::Input DividedOps::whole(Input part, const LinearSet& set) {
  const Gathering* const gathered = gathering(set);
  if (gathered == nullptr || gathered->inputs.empty()) {
    return part;
  }
  return Input(gather_columns(part.values(), gathered->inputs, To::kAll));
}

// Each rank gives the rows of those tokens that it has.
Matrix DividedOps::embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
  if (ranks_ == nullptr || division_.tokens.empty()) {
    return CpuOps::embed(table, ids);
  }
  const std::int64_t columns = table.dim(1);
  std::vector<std::vector<std::int32_t>> rows_of_rank(division_.tokens.size());
  std::vector<std::int32_t> mine;  // rows of `table`
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::int64_t token = ids[i];
    std::size_t owner = 0;
    while (owner < division_.tokens.size() && token >= division_.tokens[owner]) {
      token -= division_.tokens[owner++];
    }
    core::require(token >= 0 && owner < division_.tokens.size(), core::ErrorKind::kFailed,
                  "token id {} lies outside the vocabulary", ids[i]);
    rows_of_rank[owner].push_back(static_cast<std::int32_t>(i));
    if (std::cmp_equal(owner, ranks_->rank())) {
      mine.push_back(static_cast<std::int32_t>(token));
    }
  }
  std::vector<std::int64_t> floats;
  for (const auto& rows : rows_of_rank) {
    floats.push_back(std::ssize(rows) * columns);
  }
  const Matrix blocks = gather_blocks(CpuOps::embed(table, mine), floats, To::kAll);
  Matrix x = matrix(std::ssize(ids), columns);
  const float* from = blocks.data();
  for (const auto& rows : rows_of_rank) {
    for (const std::int32_t row : rows) {
      std::copy_n(from, columns, x.row(row));
      from += columns;
    }
  }
  return x;
}

}  // namespace nibble::ops::cpu
