#include "engine/text_to_text.h"

#include <algorithm>

#include "core/error.h"
#include "engine/cpu_layers.h"
#include "engine/encoder_batch.h"
#include "engine/step_tokens.h"
#include "io/file_descriptor.h"
#include "models/encoder_forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;

class CpuTextToText final : public TextToText {
 public:
  CpuTextToText(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : TextToText(std::move(model)),
        ops_(options.cpu),
        layers_(this->model(), options, ops_),
        batch_(network()) {}

  EncoderRows read(std::span<const std::int32_t> tokens) override {
    batch_.clear();
    batch_.append({tokens, {}});
    memory_ = make_cache(batch_.rows());
    written_ = make_cache(network().config.max_positions);
    length_ = 0;
    const ops::SequenceSlice<KvCache> slice{nullptr,      0, 0, batch_.rows(), memory_.get(),
                                            batch_.rows()};
    const models::Batch<CpuOps> batch{
        batch_.tokens(), batch_.positions(), {&slice, 1}, batch_.types()};
    const Matrix states = models::encode(ops_, network(), batch);
    models::remember(ops_, network(), batch, states);
    layers_.check_intact();
    return {{states.values().begin(), states.values().end()}, states.rows(), states.columns()};
  }

  std::span<const float> next(std::int32_t token) override {
    const models::NetworkConfig& config = network().config;
    core::require(memory_ != nullptr, ErrorKind::kFailed, "no text was read");
    core::require(length_ < config.max_positions, ErrorKind::kFailed,
                  "the context of {} tokens is full", config.max_positions);
    core::require(token >= 0 && token < config.vocabulary, ErrorKind::kFailed,
                  "token id {} lies outside the vocabulary of {}", token, config.vocabulary);
    const auto position = static_cast<std::int32_t>(length_);
    const ops::SequenceSlice<KvCache> slice{written_.get(), length_,      0, 1,
                                            memory_.get(),  batch_.rows()};
    const models::Batch<CpuOps> batch{{&token, 1}, {&position, 1}, {&slice, 1}};
    logits_ = models::logits(ops_, network(), models::hidden_states(ops_, network(), batch));
    layers_.check_intact();
    ++length_;
    return logits_.values();
  }

  EncoderRows score(std::span<const std::int32_t> source,
                    std::span<const std::int32_t> target) override {
    const models::NetworkConfig& config = network().config;
    const std::int64_t count = std::ssize(target);
    core::require(count > 0, ErrorKind::kUsage, "a target without tokens has no scores");
    core::require(count <= config.max_positions, ErrorKind::kUsage,
                  "a target of {} tokens is longer than the {} that the model has positions for",
                  count, config.max_positions);
    read(source);
    StepTokens step(config.vocabulary);
    step.append({&config.decoder_start.value(), 1}, 0);
    step.append(target, 1);
    const auto rows = static_cast<std::size_t>(count);
    const ops::SequenceSlice<KvCache> slice{nullptr, 0, 0, count, memory_.get(), batch_.rows()};
    const models::Batch<CpuOps> batch{
        step.tokens().first(rows), step.positions().first(rows), {&slice, 1}};
    const Matrix logits =
        models::logits(ops_, network(), models::hidden_states(ops_, network(), batch));
    layers_.check_intact();
    return {{logits.values().begin(), logits.values().end()}, logits.rows(), logits.columns()};
  }

 private:
  const models::Network& network() const { return model().network; }

  std::unique_ptr<KvCache> make_cache(std::int64_t capacity) const {
    const models::NetworkConfig& config = network().config;
    return std::make_unique<KvCache>(ops::KvType::kF32, config.layers, config.kv_heads,
                                     config.head_dim, capacity);
  }

  CpuOps ops_;
  CpuLayers layers_;
  EncoderBatch batch_;                // the text that was read
  std::unique_ptr<KvCache> memory_;   // its keys and values
  std::unique_ptr<KvCache> written_;  // those of what was written
  std::int64_t length_ = 0;           // of what was written
  Matrix logits_;
};

}  // namespace

std::vector<std::int32_t> TextToText::write_greedily(std::span<const std::int32_t> tokens,
                                                     std::int64_t most) {
  read(tokens);
  std::vector<std::int32_t> written = {model_->network.config.decoder_start.value()};
  const std::vector<std::int32_t>& ends = model_->end_tokens;
  while (std::ssize(written) <= most) {
    const std::span<const float> logits = next(written.back());
    const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    written.push_back(static_cast<std::int32_t>(likeliest));
    if (std::find(ends.begin(), ends.end(), written.back()) != ends.end()) {
      break;
    }
  }
  return written;
}

std::unique_ptr<TextToText> make_text_to_text(std::shared_ptr<const models::Model> model,
                                              const RunnerOptions& options) {
  core::require(model->network.has_encoder() && model->network.has_decoder(), ErrorKind::kUsage,
                "{} (family '{}') is no encoder-decoder", io::shown(model->path),
                model->network.config.family);
  core::require(!options.place.on_gpu(), ErrorKind::kUsage,
                "encoder-decoders run on a CPU only as yet; use --device cpu");
  return std::make_unique<CpuTextToText>(std::move(model), options);
}

}  // namespace nibble::engine
