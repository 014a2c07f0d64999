#include "compress/calibration/measure_curvature.h"

#include <algorithm>
#include <numeric>

#include "compress/calibration/sampled_gradients.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::compress {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;

class Measurement {
 public:
  Measurement(const models::Network& network, core::ThreadPool& pool, bool of_output)
      : pool_(pool) {
    for (const models::Block* block : models::all_blocks(network)) {
      for (const ops::LinearSet* set : models::linear_sets(*block)) {
        add(*set);
      }
    }
    if (of_output) {
      add(network.output);
    }
  }

  void observe(const ops::LinearSet& set, const Matrix& gradient) {
    const auto found = sets_.find(set.id);
    if (found == sets_.end()) {
      return;  // the output layer, when it is not wanted
    }
    std::int64_t column = 0;
    for (std::size_t part = 0; part < set.parts.size(); ++part) {
      const std::int64_t n = set.parts[part].weight.n;
      const float* from = gradient.data() + column;
      found->second.layers[part].add(from, gradient.rows(), gradient.columns(), pool_);
      for (std::int64_t i = 0; i < gradient.rows(); ++i) {
        squares_[set.id][part].push_back(
            ops::cpu::vector_kernels().sum_squares(from + i * gradient.columns(), n));
      }
      column += n;
    }
  }

  std::map<int, SetCurvature> finish() {
    for (auto& [id, curvature] : sets_) {
      curvature.token_weights = weights_of(squares_.at(id));
    }
    return std::move(sets_);
  }

 private:
  void add(const ops::LinearSet& set) {
    SetCurvature& curvature = sets_[set.id];
    for (const ops::Linear& part : set.parts) {
      curvature.layers.emplace_back(part.weight.n);
      squares_[set.id].emplace_back();
    }
  }

  // One weight for each token from |g|^2 of the set's layers, [layer][token].
  static std::vector<float> weights_of(const std::vector<std::vector<float>>& squares) {
    std::vector<float> weights(squares.front().size());
    double share = 0;
    for (const auto& layer : squares) {
      const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
      if (sum > 0) {
        const double unit = static_cast<double>(layer.size()) / sum;
        for (std::size_t i = 0; i < layer.size(); ++i) {
          weights[i] += static_cast<float>(layer[i] * unit);
        }
        share += 1;
      }
    }
    for (float& weight : weights) {
      weight = share > 0 ? weight / static_cast<float>(share) : 1.0f;
    }
    return weights;
  }

  core::ThreadPool& pool_;
  std::map<int, SetCurvature> sets_;
  std::map<int, std::vector<std::vector<float>>> squares_;  // |g|^2 by set, layer and token
};

}  // namespace

std::map<int, SetCurvature> measure_curvature(const models::Network& network,
                                              const CalibrationInputs& inputs, std::uint64_t seed,
                                              CpuOps& ops, core::ProgressSink& progress,
                                              bool of_output) {
  Measurement measurement(network, ops.pool(), of_output);
  sample_gradients(
      network, inputs, seed, ops,
      [&](const ops::LinearSet& set, const Matrix&, const Matrix& gradient) {
        measurement.observe(set, gradient);
      },
      "curvature", progress);
  return measurement.finish();
}

}  // namespace nibble::compress
