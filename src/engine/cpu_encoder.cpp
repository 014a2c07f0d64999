#include "engine/cpu_encoder.h"

#include <functional>

#include "core/error.h"
#include "engine/cpu_layers.h"
#include "engine/encoder_batch.h"
#include "engine/pooling.h"
#include "io/file_descriptor.h"
#include "models/encoder_forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;

constexpr std::int64_t kStepRows = 2048;  // tokens that are computed at a time, of whole texts

void append(EncoderRows& rows, const Matrix& part) {
  rows.values.insert(rows.values.end(), part.values().begin(), part.values().end());
  rows.rows += part.rows();
  rows.columns = part.columns();
}

EncoderRows slice_of(const Matrix& states, std::int64_t first, std::int64_t rows) {
  const float* const begin = states.row(first);
  return {{begin, begin + rows * states.columns()}, rows, states.columns()};
}

class CpuEncoder final : public Encoder {
 public:
  CpuEncoder(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : model_(std::move(model)),
        ops_(options.cpu),
        layers_(*model_, options, ops_),
        batch_(network()) {}

  EncoderRows hidden_states(std::span<const EncoderText> texts) override {
    return run(texts, [](Matrix states) { return states; });
  }

  EncoderRows classify(std::span<const EncoderText> texts) override {
    require_part(network().classifier.has_value(), "labels no texts");
    const models::Classifier& classifier = *network().classifier;
    return run(texts, [&](Matrix states) {
      const bool tokens = classifier.problem == models::Problem::kTokenLabels;
      return models::run_head(ops_, classifier.head,
                              tokens ? std::move(states) : ops_.gather(states, batch_.firsts()));
    });
  }

  EncoderRows masked_lm(std::span<const EncoderText> texts) override {
    require_part(network().masked_lm.has_value(), "is no masked language model");
    return run(texts, [&](const Matrix& states) {
      return models::run_head(ops_, *network().masked_lm, states);
    });
  }

  EncoderRows embed(std::span<const EncoderText> texts) override {
    require_part(network().pooling.has_value(),
                 "does not say how it makes embeddings (modules.json of sentence-transformers)");
    return run(texts, [&](const Matrix& states) { return pool(states); });
  }

  std::int64_t max_tokens() const override { return network().config.max_positions; }

 private:
  const models::Network& network() const { return model_->network; }

  void require_part(bool there, std::string_view what) const {
    core::require(there, ErrorKind::kUsage, "{} {}", io::shown(model_->path), what);
  }

  // What `take` makes of the states of all texts, a step of whole texts at a time.
  EncoderRows run(std::span<const EncoderText> texts,
                  const std::function<Matrix(Matrix states)>& take) {
    EncoderRows rows;
    for (std::size_t next = 0; next < texts.size();) {
      batch_.clear();
      do {
        batch_.append(texts[next++]);
      } while (next < texts.size() && batch_.rows() + std::ssize(texts[next].tokens) <= kStepRows);
      append(rows, take(states_of_batch()));
      layers_.check_intact();
    }
    return rows;
  }

  Matrix states_of_batch() {
    slices_.clear();
    const auto firsts = batch_.firsts();
    for (std::int64_t text = 0; text < std::ssize(firsts); ++text) {
      slices_.push_back({nullptr, 0, firsts[static_cast<std::size_t>(text)], batch_.rows_of(text)});
    }
    const models::Batch<CpuOps> batch{batch_.tokens(), batch_.positions(), slices_, batch_.types()};
    return models::encode(ops_, network(), batch);
  }

  Matrix pool(const Matrix& states) {
    const auto firsts = batch_.firsts();
    Matrix embeddings = ops_.matrix(std::ssize(firsts), states.columns());
    ops_.pool().parallel_for(embeddings.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t text = begin; text < end; ++text) {
        const std::int64_t first = firsts[static_cast<std::size_t>(text)];
        const std::vector<float> embedding =
            pooled(*network().pooling, slice_of(states, first, batch_.rows_of(text)));
        std::copy(embedding.begin(), embedding.end(), embeddings.row(text));
      }
    });
    return embeddings;
  }

  std::shared_ptr<const models::Model> model_;
  CpuOps ops_;
  CpuLayers layers_;
  EncoderBatch batch_;  // of the step
  std::vector<ops::SequenceSlice<KvCache>> slices_;
};

}  // namespace

std::unique_ptr<Encoder> make_cpu_encoder(std::shared_ptr<const models::Model> model,
                                          const RunnerOptions& options) {
  return std::make_unique<CpuEncoder>(std::move(model), options);
}

}  // namespace nibble::engine
