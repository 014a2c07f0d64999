#include "compress/block_runner.h"

#include <cstring>
#include <numeric>
#include <optional>

#include "models/forward.h"

namespace nibble::compress {

using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;

BlockRunner::BlockRunner(const models::Decoder& decoder, const CalibrationWindows& windows,
                         CpuOps& ops)
    : decoder_(decoder), windows_(windows), ops_(ops) {
  for (const auto& window : windows_) {
    auto& positions = positions_.emplace_back(window.size());
    std::iota(positions.begin(), positions.end(), 0);
    const models::Batch<CpuOps> batch{window, positions, {}};
    hidden_.push_back(models::embed(ops_, decoder_, batch));
  }
}

Matrix BlockRunner::run(std::int64_t layer, const models::Block& block, std::size_t window,
                        Matrix& x) {
  const ops::SequenceSlice<KvCache> alone{nullptr, 0, 0, x.rows()};
  const models::Batch<CpuOps> batch{windows_[window], positions_[window], {&alone, 1}};
  return models::run_block(ops_, decoder_.config, block, layer, batch, x, std::optional<Matrix>());
}

std::map<int, InputStatistics> BlockRunner::observe(std::int64_t layer, const models::Block& block,
                                                    StatisticsKind kind) {
  std::map<int, InputStatistics> statistics;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    statistics.emplace(set->id, InputStatistics(kind, set->k()));
  }
  ops_.set_observer([&](const ops::LinearSet& set, const Matrix& input) {
    statistics.at(set.id).add(input, ops_.pool());
  });
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    Matrix x = ops_.matrix(hidden_[window].rows(), hidden_[window].columns());
    std::memcpy(x.data(), hidden_[window].data(), hidden_[window].values().size_bytes());
    run(layer, block, window, x);
  }
  ops_.set_observer(nullptr);
  return statistics;
}

void BlockRunner::advance(std::int64_t layer, const models::Block& block) {
  const auto sets = models::linear_sets(block);
  for (const ops::LinearSet* set : sets) {
    ops_.prepare(*set);
  }
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    Matrix& x = hidden_[window];
    ops_.add(x, run(layer, block, window, x));
  }
  for (const ops::LinearSet* set : sets) {
    ops_.release(*set);
  }
}

}  // namespace nibble::compress
