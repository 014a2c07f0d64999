#include "engine/cuda_encoder.h"

#include <algorithm>

#include "core/cpu_topology.h"
#include "device/cuda/check.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "engine/cuda_layers.h"
#include "engine/cuda_limits.h"
#include "engine/pooling.h"
#include "engine/recent_steps.h"
#include "engine/step_size.h"
#include "engine/stepped_encoder.h"
#include "ops/cuda/cuda_ops.h"

namespace nibble::engine {
namespace {

using ops::cuda::CudaOps;
using ops::cuda::DeviceMatrix;
using ops::cuda::KvSequence;

constexpr std::int64_t kStepTokens = 16384;
constexpr std::int64_t kVocabularyTokens = 2048;  // of which all logits of a vocabulary exist
constexpr std::int64_t kPaddingTokens = 64;       // of one text that fills a step up
constexpr std::size_t kMostRecorded = 64;

/// What makes steps alike: what is wanted of them, their sizes, and their kernels.
struct StepKind {
  EncoderOutput output = EncoderOutput::kStates;
  std::int64_t tokens = 0;
  std::int64_t texts = 0;
  int kernels = 0;
  bool operator==(const StepKind&) const = default;
};

/// Rows that a step leaves on the device, until the next one.
struct DeviceRows {
  const float* values = nullptr;
  std::int64_t columns = 0;
};

/// A step that was computed once (no graph) or recorded.
struct RecordedStep {
  device::cuda::Graph graph;
  DeviceRows rows;
};

bool is_float32(const ops::Linear& part) {
  const formats::Scheme& scheme = part.weight.scheme;
  return formats::is_dense(scheme) && scheme.code.dense == core::DType::kF32;
}

bool all_float32(const models::Network& network) {
  const auto& blocks = network.encoder.blocks;
  return std::all_of(blocks.begin(), blocks.end(), [](const models::Block& block) {
    const auto sets = models::linear_sets(block);
    return std::all_of(sets.begin(), sets.end(), [](const ops::LinearSet* set) {
      return std::all_of(set->parts.begin(), set->parts.end(), is_float32);
    });
  });
}

/// Between layers of float32 nothing is rounded, and nowhere where that is asked for.
ops::cuda::Precision precision_of(const models::Network& network,
                                  ops::ActivationPrecision activations) {
  const bool exact = activations == ops::ActivationPrecision::kFloat;
  return {.exact = exact,
          .matrices = exact || all_float32(network) ? ops::cuda::MatrixType::kFloat32
                                                    : ops::cuda::MatrixType::kFloat16};
}

/// Steps are filled up to few sizes with texts of their own, whose results nobody reads, and
/// recorded when they come for the second time.
class CudaEncoder final : public SteppedEncoder {
 public:
  CudaEncoder(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : SteppedEncoder(std::move(model)),
        host_pool_(options.cpu.threads > 0 ? options.cpu.threads : core::available_cores()),
        ops_({.rows = std::max(kStepTokens, padded_tokens(max_tokens()))}, options.schedules,
             options.place.index, precision_of(network(), options.cpu.activations)),
        padding_(static_cast<std::size_t>(std::min(kPaddingTokens, max_tokens()))) {
    prepare_layers(this->model(), ops_, host_pool_);
  }

  ~CudaEncoder() override { ops_.make_current(); }
  CudaEncoder(const CudaEncoder&) = delete;
  CudaEncoder& operator=(const CudaEncoder&) = delete;

  core::ThreadPool& pool() override { return host_pool_; }

  DeviceLimits measure_limits() override {
    ops_.make_current();
    return measure_cuda_limits(ops_.device());
  }

 private:
  std::int64_t step_rows(EncoderOutput output) const override {
    return output == EncoderOutput::kMaskedLm ? kVocabularyTokens : kStepTokens;
  }

  void compute(EncoderBatch& step, EncoderOutput output, EncoderRows& rows) override {
    ops_.make_current();
    const std::int64_t tokens = step.rows();
    const std::int64_t texts = std::ssize(step.firsts());
    const DeviceRows made = run(step, output);
    const std::int64_t count = is_of_tokens(network(), output) ? tokens : texts;
    const std::span<const float> values = download(made, count);
    const auto before = static_cast<std::ptrdiff_t>(rows.values.size());
    rows.values.insert(rows.values.end(), values.begin(), values.end());
    rows.rows += count;
    rows.columns = made.columns;
    if (output == EncoderOutput::kEmbeddings && network().pooling->normalize) {
      for (auto row = rows.values.begin() + before; row != rows.values.end(); row += rows.columns) {
        normalize({row, row + rows.columns});
      }
    }
  }

  // Fills the step up. The rows of the device are there until the next step, in the order of its
  // stream.
  DeviceRows run(EncoderBatch& step, EncoderOutput output) {
    unrecorded_ = DeviceMatrix();  // a step that is recorded finds all its memory in the pool
    const std::int64_t results = put_bounds(step);
    pad(step);
    slices_.clear();
    for (std::int64_t text = 0; text < std::ssize(step.firsts()); ++text) {
      slices_.push_back(
          {nullptr, 0, step.firsts()[static_cast<std::size_t>(text)], step.rows_of(text)});
    }
    const models::NetworkConfig& config = network().config;
    const CudaOps::Step put =
        ops_.begin_step({step.tokens(), step.positions(), slices_, step.types()}, bounds_, {},
                        config.heads / config.kv_heads);
    const models::Batch<CudaOps> batch{put.tokens, put.positions, slices_, put.types};
    const auto firsts = put.rows.first(static_cast<std::size_t>(results));
    const auto ends = put.rows.last(static_cast<std::size_t>(results));
    const auto work = [&] {
      return compute_output(
          ops_, network(), output, batch, firsts,
          [&](const DeviceMatrix& states) { return pool_texts(states, firsts, ends); });
    };
    return run({output, step.rows(), results, ops_.kernels()}, work);
  }

  // Where the texts of a step begin, and then where they end, filled up with its first row. How
  // many there are of each.
  std::int64_t put_bounds(const EncoderBatch& step) {
    const auto firsts = step.firsts();
    const auto results = static_cast<std::size_t>(padded_texts(std::ssize(firsts)));
    bounds_.assign(firsts.begin(), firsts.end());
    bounds_.resize(results, 0);
    for (std::size_t text = 0; text < firsts.size(); ++text) {
      bounds_.push_back(firsts[text] +
                        static_cast<std::int32_t>(step.rows_of(static_cast<std::int64_t>(text))));
    }
    bounds_.resize(2 * results, 1);
    return static_cast<std::int64_t>(results);
  }

  DeviceMatrix pool_texts(const DeviceMatrix& states, std::span<const std::int32_t> firsts,
                          std::span<const std::int32_t> ends) {
    const models::PoolingMode mode = network().pooling->mode;
    if (mode == models::PoolingMode::kFirst) {
      return ops_.gather(states, firsts);
    }
    return ops_.pool(states,
                     mode == models::PoolingMode::kMean ? ops::cuda::TextPooling::kMean
                                                        : ops::cuda::TextPooling::kMax,
                     firsts, ends);
  }

  template <typename Work>
  DeviceRows run(const StepKind& kind, const Work& work) {
    RecordedStep* const known = recorded_.find(kind);
    if (known == nullptr) {
      unrecorded_ = work();
      if (!ops_.waited()) {
        recorded_.add(kind);
      }
      return {unrecorded_.data(), unrecorded_.columns()};
    }
    if (known->graph.empty()) {
      known->graph = device::cuda::Graph::record(ops_.stream(), [&] {
        const DeviceMatrix made = work();  // read before other steps can take its memory
        known->rows = {made.data(), made.columns()};
      });
    }
    known->graph.launch(ops_.stream());
    return known->rows;
  }

  void pad(EncoderBatch& step) const {
    for (std::int64_t missing = padded_tokens(step.rows()) - step.rows(); missing > 0;) {
      const auto text = std::span(padding_).first(
          static_cast<std::size_t>(std::min(missing, std::ssize(padding_))));
      step.append({text, {}});
      missing -= std::ssize(text);
    }
  }

  std::span<const float> download(const DeviceRows& rows, std::int64_t count) {
    const std::int64_t values = count * rows.columns;
    auto* const host = results_.room_for<float>(values);
    device::cuda::check(
        cudaMemcpyAsync(host, rows.values, static_cast<std::size_t>(values) * sizeof(float),
                        cudaMemcpyDeviceToHost, ops_.stream()),
        "cudaMemcpyAsync");
    ops_.synchronize();
    ops_.check_range();
    return {host, static_cast<std::size_t>(values)};
  }

  core::ThreadPool host_pool_;
  CudaOps ops_;
  std::vector<std::int32_t> padding_;  // token 0, again and again
  std::vector<std::int32_t> bounds_;   // of the step's texts
  std::vector<ops::SequenceSlice<KvSequence>> slices_;
  RecentSteps<StepKind, RecordedStep> recorded_{kMostRecorded};
  DeviceMatrix unrecorded_;  // of a step that is not recorded
  device::cuda::PinnedBuffer results_;
};

}  // namespace

std::unique_ptr<Encoder> make_cuda_encoder(std::shared_ptr<const models::Model> model,
                                           const RunnerOptions& options) {
  return std::make_unique<CudaEncoder>(std::move(model), options);
}

}  // namespace nibble::engine
