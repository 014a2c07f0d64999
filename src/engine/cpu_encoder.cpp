#include "engine/cpu_encoder.h"

#include "engine/cpu_layers.h"
#include "engine/cpu_limits.h"
#include "engine/pooling.h"
#include "engine/stepped_encoder.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::engine {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;

constexpr std::int64_t kStepRows = 2048;  // tokens that are computed at a time, of whole texts

EncoderRows slice_of(const Matrix& states, std::int64_t first, std::int64_t rows) {
  const float* const begin = states.row(first);
  return {{begin, begin + rows * states.columns()}, rows, states.columns()};
}

class CpuEncoder final : public SteppedEncoder {
 public:
  CpuEncoder(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : SteppedEncoder(std::move(model)),
        ops_(options.cpu),
        layers_(this->model(), options, ops_) {}

  core::ThreadPool& pool() override { return ops_.pool(); }
  DeviceLimits measure_limits() override { return measure_cpu_limits(ops_.pool()); }

 private:
  std::int64_t step_rows(EncoderOutput /*output*/) const override { return kStepRows; }

  void compute(EncoderBatch& step, EncoderOutput output, EncoderRows& rows) override {
    slices_.clear();
    const auto firsts = step.firsts();
    for (std::int64_t text = 0; text < std::ssize(firsts); ++text) {
      const std::int64_t tokens = step.rows_of(text);
      slices_.push_back(
          {.row = firsts[static_cast<std::size_t>(text)], .rows = tokens, .prompt_rows = tokens});
    }
    const models::Batch<CpuOps> batch{step.tokens(), step.positions(), slices_, step.types()};
    const Matrix made =
        compute_output(ops_, network(), output, batch, firsts,
                       [&](const Matrix& states) { return embeddings_of(step, states); });
    rows.values.insert(rows.values.end(), made.values().begin(), made.values().end());
    rows.rows += made.rows();
    rows.columns = made.columns();
    layers_.check_intact();
  }

  Matrix embeddings_of(const EncoderBatch& step, const Matrix& states) {
    const auto firsts = step.firsts();
    Matrix embeddings = ops_.matrix(std::ssize(firsts), states.columns());
    ops_.pool().parallel_for(embeddings.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t text = begin; text < end; ++text) {
        const std::int64_t first = firsts[static_cast<std::size_t>(text)];
        const std::vector<float> embedding =
            pooled(*network().pooling, slice_of(states, first, step.rows_of(text)));
        std::copy(embedding.begin(), embedding.end(), embeddings.row(text));
      }
    });
    return embeddings;
  }

  CpuOps ops_;
  CpuLayers layers_;
  std::vector<ops::SequenceSlice<KvCache>> slices_;  // of the step
};

}  // namespace

std::unique_ptr<Encoder> make_cpu_encoder(std::shared_ptr<const models::Model> model,
                                          const RunnerOptions& options) {
  return std::make_unique<CpuEncoder>(std::move(model), options);
}

}  // namespace nibble::engine
