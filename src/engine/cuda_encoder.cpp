#include "engine/cuda_encoder.h"

#include <algorithm>

#include "core/cpu_topology.h"
#include "engine/cuda_layers.h"
#include "engine/cuda_limits.h"
#include "engine/cuda_steps.h"
#include "engine/pooling.h"
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
constexpr std::size_t kMostRecorded = 64;

/// What makes steps alike: what is wanted of them, their sizes, and their kernels.
struct StepKind {
  EncoderOutput output = EncoderOutput::kStates;
  std::int64_t tokens = 0;
  std::int64_t texts = 0;
  int kernels = 0;
  bool operator==(const StepKind&) const = default;
};

ops::cuda::Precision precision_of(const models::Network& network,
                                  ops::ActivationPrecision activations) {
  return {.exact = activations == ops::ActivationPrecision::kFloat,
          .matrices = matrices_between(network.encoder, activations)};
}

/// Steps are filled up to few sizes with texts of their own, whose results nobody reads, and
/// recorded when they come for the second time.
class CudaEncoder final : public SteppedEncoder {
 public:
  CudaEncoder(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : SteppedEncoder(std::move(model)),
        host_pool_(options.cpu.threads > 0 ? options.cpu.threads : core::available_cores()),
        ops_({.rows = std::max(kStepTokens, padded_tokens(max_tokens()))}, options.schedules,
             options.place.index, precision_of(network(), options.cpu.activations)) {
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
    const std::span<const float> values = steps_.download(made, count);
    ops_.check_range();
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
    const std::int64_t results = put_bounds(step);
    fill_up(step);
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
    return steps_.run({output, step.rows(), results, ops_.kernels()}, work);
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

  core::ThreadPool host_pool_;
  CudaOps ops_;
  std::vector<std::int32_t> bounds_;  // of the step's texts
  std::vector<ops::SequenceSlice<KvSequence>> slices_;
  CudaSteps<StepKind> steps_{ops_, kMostRecorded};
};

}  // namespace

std::unique_ptr<Encoder> make_cuda_encoder(std::shared_ptr<const models::Model> model,
                                           const RunnerOptions& options) {
  return std::make_unique<CudaEncoder>(std::move(model), options);
}

}  // namespace nibble::engine
