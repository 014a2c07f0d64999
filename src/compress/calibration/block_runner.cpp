#include "compress/calibration/block_runner.h"

#include <numeric>
#include <optional>

#include "compress/calibration/cuda_block_runner.h"
#include "models/forward.h"

namespace nibble::compress {

using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;

namespace {

// Sets of a block in the layout of their kernels, as long as this lives.
class Prepared {
 public:
  Prepared(CpuOps& ops, const models::Block& block) : ops_(ops), sets_(models::linear_sets(block)) {
    for (const ops::LinearSet* set : sets_) {
      ops_.prepare(*set);
    }
  }
  ~Prepared() {
    for (const ops::LinearSet* set : sets_) {
      ops_.release(*set);
    }
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

 private:
  CpuOps& ops_;
  std::vector<const ops::LinearSet*> sets_;
};

void require_float_activations(const std::map<std::string, formats::Scheme>& schemes) {
  for (const auto& [layer, scheme] : schemes) {
    core::require(scheme.activation.is_float() && scheme.inputs.hadamard == 0,
                  core::ErrorKind::kUsage,
                  "layer {}: calibration behind {}, whose activations are quantized or turned, "
                  "does not run on a GPU yet; use --device cpu",
                  core::printable(layer), scheme);
  }
}

}  // namespace

std::unique_ptr<BlockRunner> make_block_runner(
    const Backend& backend, const models::Network& network, const CalibrationWindows& windows,
    CpuOps& ops, bool keeps_original, const std::optional<std::filesystem::path>& spill,
    const std::map<std::string, formats::Scheme>& schemes) {
  if (!backend.has_gpu()) {
    return std::make_unique<CpuBlockRunner>(network, windows, ops, keeps_original, spill);
  }
  require_float_activations(schemes);
  core::require(!network.embeddings.project_in, core::ErrorKind::kUsage,
                "calibration of a model whose embedding is narrower than its residual stream does "
                "not run on a GPU yet; use --device cpu");
  return cuda::make_cuda_block_runner(backend.gpu(), network, windows, ops, keeps_original);
}

std::vector<float> mean_row(std::span<const float> x, std::int64_t m, std::int64_t k) {
  std::vector<double> sums(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < x.size(); ++i) {
    sums[i % sums.size()] += x[i];
  }
  std::vector<float> mean;
  for (const double sum : sums) {
    mean.push_back(static_cast<float>(sum / static_cast<double>(m)));
  }
  return mean;
}

CpuBlockRunner::CpuBlockRunner(const models::Network& network, const CalibrationWindows& windows,
                               CpuOps& ops, bool keeps_original,
                               const std::optional<std::filesystem::path>& spill)
    : network_(network), windows_(windows), ops_(ops), hidden_(spill) {
  if (keeps_original) {
    original_.emplace(spill);
  }
  for (const auto& window : windows_) {
    auto& positions = positions_.emplace_back(window.size());
    std::iota(positions.begin(), positions.end(), 0);
    const models::Batch<CpuOps> batch{window, positions, {}};
    Matrix x = models::embed(ops_, network_, batch);
    if (original_) {
      original_->add(ops_.copy(x));
    }
    hidden_.add(std::move(x));
  }
}

void CpuBlockRunner::run(std::int64_t layer, const models::Block& block, std::size_t window,
                         Matrix& x) {
  const ops::SequenceSlice<KvCache> alone{nullptr, 0, 0, x.rows()};
  const models::Batch<CpuOps> batch{windows_[window], positions_[window], {&alone, 1}};
  models::settle(
      ops_, x,
      models::run_block(ops_, network_.config, network_.decoder.norms, block, layer, batch, x, {}));
}

void CpuBlockRunner::move(std::int64_t layer, const models::Block& block, std::size_t window,
                          WindowStore& store) {
  Matrix x = store.read(window, ops_);
  run(layer, block, window, x);
  store.write(window, std::move(x));
}

std::map<int, Matrix> CpuBlockRunner::original_inputs(std::int64_t layer, std::size_t window,
                                                      const Observation& observation) {
  std::map<int, Matrix> inputs;
  ops_.set_observer([&](const ops::LinearSet& set, const Matrix& input) {
    if (!observation.set || set.id == *observation.set) {
      inputs.insert_or_assign(set.id, ops_.copy(input));
    }
  });
  Matrix x = original_->read(window, ops_);
  run(layer, *observation.original, window, x);
  ops_.set_observer(nullptr);
  return inputs;
}

std::map<int, InputStatistics> CpuBlockRunner::observe(std::int64_t layer,
                                                       const models::Block& block,
                                                       const Observation& observation) {
  std::map<int, InputStatistics> statistics;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    if (!observation.set || set->id == *observation.set) {
      statistics.emplace(set->id, InputStatistics(observation.kind, set->k()));
    }
  }
  const Prepared prepared(ops_, block);
  std::size_t token = 0;  // of all windows, where this window begins
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    on_window_(window);
    std::map<int, Matrix> originals;
    if (observation.kind >= StatisticsKind::kCross) {
      originals = original_inputs(layer, window, observation);
    }
    ops_.set_observer([&](const ops::LinearSet& set, const Matrix& input) {
      const auto found = statistics.find(set.id);
      if (found == statistics.end()) {
        return;
      }
      std::span<const float> weights;
      if (observation.curvature != nullptr && observation.curvature->contains(set.id)) {
        weights = std::span(observation.curvature->at(set.id).token_weights)
                      .subspan(token, windows_[window].size());
      }
      found->second.add(input, ops_.pool(), weights);
      if (observation.kind >= StatisticsKind::kCross) {
        found->second.add_cross(originals.at(set.id), input, ops_.pool(), weights);
      }
    });
    Matrix x = hidden_.read(window, ops_);
    run(layer, block, window, x);
    ops_.set_observer(nullptr);
    token += windows_[window].size();
  }
  return statistics;
}

InputStatistics CpuBlockRunner::observe_output(const Observation& observation) {
  const int id = network_.output.id;
  InputStatistics statistics(observation.kind, network_.output.k());
  std::size_t token = 0;  // of all windows, where this window begins
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    on_window_(window);
    std::span<const float> weights;
    if (observation.curvature != nullptr && observation.curvature->contains(id)) {
      weights = std::span(observation.curvature->at(id).token_weights)
                    .subspan(token, windows_[window].size());
    }
    const Matrix x = models::final_states(ops_, network_, hidden_.read(window, ops_));
    statistics.add(x, ops_.pool(), weights);
    if (observation.kind >= StatisticsKind::kCross) {
      const Matrix original = models::final_states(ops_, network_, original_->read(window, ops_));
      statistics.add_cross(original, x, ops_.pool(), weights);
    }
    token += windows_[window].size();
  }
  return statistics;
}

std::vector<float> CpuBlockRunner::mean_input(const ops::Norm* norm) {
  std::vector<float> rows;
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    const auto tokens = std::ssize(rows) / network_.config.hidden + std::ssize(windows_[window]);
    if (window > 0 && tokens > kMeanTokens) {
      break;
    }
    Matrix x = hidden_.read(window, ops_);
    if (norm != nullptr) {
      x = ops_.norm_matrix(x, *norm);
    }
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      rows.insert(rows.end(), x.row(row), x.row(row) + x.columns());
    }
  }
  return mean_row(rows, std::ssize(rows) / network_.config.hidden, network_.config.hidden);
}

void CpuBlockRunner::advance(std::int64_t layer, const models::Block& block,
                             const models::Block& original) {
  const Prepared prepared(ops_, block);
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    on_window_(window);
    move(layer, block, window, hidden_);
    if (original_) {
      move(layer, original, window, *original_);
    }
  }
}

}  // namespace nibble::compress
