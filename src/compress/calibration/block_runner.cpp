#include "compress/calibration/block_runner.h"

#include <cmath>
#include <optional>

#include "compress/calibration/cuda_block_runner.h"
#include "compress/calibration/gpu_layers.h"
#include "compress/calibration/pack_forward.h"
#include "compress/calibration/prepared_block.h"
#include "compress/calibration/row_products.h"
#include "ops/plain_attention.h"

namespace nibble::compress {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;

namespace {

void require_gpu_layers(const std::map<std::string, formats::Scheme>& schemes) {
  for (const auto& [layer, scheme] : schemes) {
    const std::string problem = cuda::gpu_calibration_problem(scheme);
    core::require(problem.empty(), core::ErrorKind::kUsage,
                  "layer {}: calibration behind {}: {}; use --device cpu", core::printable(layer),
                  scheme, problem);
  }
}

// Of a decoder without an encoder.
CalibrationWindows windows_of(const CalibrationInputs& inputs) {
  CalibrationWindows windows;
  for (const CalibrationPack& pack : inputs.decoder) {
    windows.push_back(pack.tokens);
  }
  return windows;
}

InputStatistics made_for(const Observation& observation, std::int64_t k) {
  InputStatistics statistics(observation.kind, k);
  if (observation.magnitudes) {
    statistics.count_magnitudes();
  }
  return statistics;
}

// The weights of the next tokens of a set, where `observation` has any.
class TokenWeights {
 public:
  explicit TokenWeights(const Observation& observation) : curvature_(observation.curvature) {}

  std::span<const float> take(int set, std::int64_t rows) {
    if (curvature_ == nullptr || !curvature_->contains(set)) {
      return {};
    }
    std::size_t& next = next_[set];
    const auto count = static_cast<std::size_t>(rows);
    next += count;
    return std::span(curvature_->at(set).token_weights).subspan(next - count, count);
  }

 private:
  const std::map<int, SetCurvature>* curvature_;
  std::map<int, std::size_t> next_;  // token, by set
};

}  // namespace

std::unique_ptr<BlockRunner> make_block_runner(
    const Backend& backend, const models::Network& network, CalibrationInputs inputs, CpuOps& ops,
    bool keeps_original, const std::optional<std::filesystem::path>& spill,
    const std::map<std::string, formats::Scheme>& schemes) {
  if (!backend.has_gpu()) {
    return std::make_unique<CpuBlockRunner>(network, std::move(inputs), ops, keeps_original, spill);
  }
  core::require(!network.has_encoder(), core::ErrorKind::kUsage,
                "calibration of a model with an encoder does not run on a GPU yet; use --device "
                "cpu");
  require_gpu_layers(schemes);
  for (const models::Block& block : network.decoder.blocks) {
    ops::require_plain(block.attention.spec);
  }
  core::require(network.embeddings.scale == 1.0f, core::ErrorKind::kUsage,
                "calibration of a model that scales its embedding does not run on a GPU yet; use "
                "--device cpu");
  core::require(!network.embeddings.project_in, core::ErrorKind::kUsage,
                "calibration of a model whose embedding is narrower than its residual stream does "
                "not run on a GPU yet; use --device cpu");
  return cuda::make_cuda_block_runner(backend.gpu(), network, windows_of(inputs), ops,
                                      keeps_original);
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

CpuBlockRunner::CpuBlockRunner(const models::Network& network, CalibrationInputs inputs,
                               CpuOps& ops, bool keeps_original,
                               const std::optional<std::filesystem::path>& spill)
    : network_(network), inputs_(std::move(inputs)), ops_(ops), spill_(spill), stream_(embed()) {
  if (keeps_original) {
    original_.emplace(embed());
  }
}

CpuBlockRunner::Stream CpuBlockRunner::embed() const {
  Stream stream{WindowStore(spill_), std::nullopt};
  for (const CalibrationPack& pack : packs()) {
    const PackBatch batch(pack);
    stream.hidden.add(in_encoder() ? models::embed_for_encoder(ops_, network_, batch.batch())
                                   : models::embed(ops_, network_, batch.batch()));
  }
  return stream;
}

void CpuBlockRunner::enter_decoder() {
  behind_encoder_ = true;
  const auto enter = [&](Stream& stream) {
    WindowStore states(spill_);
    for (std::size_t pack = 0; pack < packs().size(); ++pack) {
      states.add(models::encoder_states(ops_, network_, stream.hidden.read(pack, ops_)));
    }
    stream = embed();
    stream.states.emplace(std::move(states));
  };
  enter(stream_);
  if (original_) {
    enter(*original_);
  }
}

void CpuBlockRunner::run(const models::Block& block, std::size_t pack, const Stream& stream,
                         Matrix& x) {
  Matrix states;
  PackSource<CpuOps> source;
  if (stream.states) {
    states = stream.states->read(pack, ops_);
    source = {&inputs_.encoder[pack], &states};
  }
  run_pack(ops_, network_.config, stack().norms, block, packs()[pack], source, x);
}

void CpuBlockRunner::move(const models::Block& block, std::size_t pack, Stream& stream) {
  Matrix x = stream.hidden.read(pack, ops_);
  run(block, pack, stream, x);
  stream.hidden.write(pack, std::move(x));
}

std::map<int, Matrix> CpuBlockRunner::original_inputs(std::size_t pack,
                                                      const Observation& observation) {
  std::map<int, Matrix> inputs;
  ops_.set_observer([&](const ops::LinearSet& set, const Matrix& input) {
    if (!observation.set || set.id == *observation.set) {
      inputs.insert_or_assign(set.id, ops_.copy(input));
    }
  });
  Matrix x = original_->hidden.read(pack, ops_);
  run(*observation.original, pack, *original_, x);
  ops_.set_observer(nullptr);
  return inputs;
}

std::map<int, InputStatistics> CpuBlockRunner::observe(std::int64_t, const models::Block& block,
                                                       const Observation& observation) {
  std::map<int, InputStatistics> statistics;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    if (!observation.set || set->id == *observation.set) {
      statistics.emplace(set->id, made_for(observation, set->k()));
    }
  }
  std::optional<PreparedBlock> prepared;
  TokenWeights token_weights(observation);
  for (std::size_t pack = 0; pack < packs().size(); ++pack) {
    on_window_(pack);
    std::map<int, Matrix> originals;
    if (observation.kind >= StatisticsKind::kCross) {
      prepared.reset();  // else the original's layers, which have the same ids, ran as the block's
      originals = original_inputs(pack, observation);
    }
    if (!prepared) {
      prepared.emplace(ops_, block);
    }
    ops_.set_observer([&](const ops::LinearSet& set, const Matrix& input) {
      const auto found = statistics.find(set.id);
      if (found == statistics.end()) {
        return;
      }
      const std::span<const float> weights = token_weights.take(set.id, input.rows());
      found->second.add(input, ops_.pool(), weights);
      if (observation.kind >= StatisticsKind::kCross) {
        found->second.add_cross(originals.at(set.id), input, ops_.pool(), weights);
      }
    });
    Matrix x = stream_.hidden.read(pack, ops_);
    run(block, pack, stream_, x);
    ops_.set_observer(nullptr);
  }
  return statistics;
}

Matrix CpuBlockRunner::last_states(const Stream& stream, std::size_t pack) {
  Matrix x = stream.hidden.read(pack, ops_);
  return in_encoder() ? models::encoder_states(ops_, network_, std::move(x))
                      : models::final_states(ops_, network_, std::move(x));
}

InputStatistics CpuBlockRunner::observe_output(const Observation& observation) {
  InputStatistics statistics = made_for(observation, network_.output.k());
  TokenWeights token_weights(observation);
  for (std::size_t pack = 0; pack < packs().size(); ++pack) {
    on_window_(pack);
    const Matrix x = last_states(stream_, pack);
    const std::span<const float> weights = token_weights.take(network_.output.id, x.rows());
    statistics.add(x, ops_.pool(), weights);
    if (observation.kind >= StatisticsKind::kCross) {
      statistics.add_cross(last_states(*original_, pack), x, ops_.pool(), weights);
    }
  }
  return statistics;
}

std::vector<float> CpuBlockRunner::mean_input(const ops::Norm* norm) {
  std::vector<float> rows;
  for (std::size_t pack = 0; pack < packs().size(); ++pack) {
    const auto tokens =
        std::ssize(rows) / network_.config.hidden + static_cast<std::int64_t>(tokens_of(pack));
    if (pack > 0 && tokens > kMeanTokens) {
      break;
    }
    Matrix x = stream_.hidden.read(pack, ops_);
    if (norm != nullptr) {
      x = ops_.norm_matrix(x, *norm);
    }
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      rows.insert(rows.end(), x.row(row), x.row(row) + x.columns());
    }
  }
  return mean_row(rows, std::ssize(rows) / network_.config.hidden, network_.config.hidden);
}

std::optional<StateDamage> CpuBlockRunner::damage() {
  if (!original_) {
    return std::nullopt;
  }
  double cosines = 0;
  double signal = 0;
  double noise = 0;
  std::int64_t tokens = 0;
  for (std::size_t pack = 0; pack < packs().size(); ++pack) {
    const Matrix before = last_states(*original_, pack);
    const Matrix after = last_states(stream_, pack);
    for (std::int64_t row = 0; row < before.rows(); ++row) {
      const RowProducts products = row_products(before, after, row);
      cosines += products.cosine();
      signal += products.first;
      for (std::int64_t i = 0; i < before.columns(); ++i) {
        const double error = static_cast<double>(before.row(row)[i]) - after.row(row)[i];
        noise += error * error;
      }
    }
    tokens += before.rows();
  }
  return StateDamage{cosines / static_cast<double>(tokens), 10 * std::log10(signal / noise)};
}

void CpuBlockRunner::advance(std::int64_t layer, const models::Block& block,
                             const models::Block& original) {
  for (std::size_t pack = 0; original_ && pack < packs().size(); ++pack) {
    move(original, pack, *original_);
  }
  const PreparedBlock prepared(ops_, block);  // only now: the original's layers have the same ids
  for (std::size_t pack = 0; pack < packs().size(); ++pack) {
    on_window_(pack);
    move(block, pack, stream_);
  }
  if (in_encoder() && network_.has_decoder() && layer + 1 == std::ssize(network_.encoder.blocks)) {
    enter_decoder();
  }
}

}  // namespace nibble::compress
