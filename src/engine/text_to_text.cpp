#include "engine/text_to_text.h"

#include "core/error.h"
#include "engine/cpu_text_to_text.h"
#include "engine/cuda_text_to_text.h"
#include "io/file_descriptor.h"

namespace nibble::engine {

using core::ErrorKind;

void TextToText::read(std::span<const std::int32_t> tokens) {
  begun_ = false;
  read({&tokens, 1}, {});
}

std::span<const float> TextToText::next(std::int32_t token) {
  const DecoderRow row{0, begun_ ? 0 : -1, token};
  const LogitsView logits = step({&row, 1});
  begun_ = true;
  return logits.row(0);
}

std::vector<Branches::Copy> TextToText::advance(Branches& branches,
                                                std::span<const DecoderRow> rows,
                                                std::int64_t texts) const {
  core::require(texts > 0, ErrorKind::kFailed, "no text was read");
  std::vector<std::int64_t> parents;
  for (const DecoderRow& row : rows) {
    core::require(row.text >= 0 && row.text < texts, ErrorKind::kFailed,
                  "text {} is none of the {} that were read", row.text, texts);
    parents.push_back(row.parent);
  }
  std::vector<Branches::Copy> copies = branches.advance(parents);
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    StepTokens::require_room(branches.position(i), 1, network().config.max_positions);
  }
  return copies;
}

StepTokens TextToText::tokens_before(std::span<const std::int32_t> target) const {
  const models::NetworkConfig& config = network().config;
  const std::int64_t count = std::ssize(target);
  core::require(count > 0, ErrorKind::kUsage, "a target without tokens has no scores");
  core::require(count <= config.max_positions, ErrorKind::kUsage,
                "a target of {} tokens is longer than the {} that the model has positions for",
                count, config.max_positions);
  StepTokens(config.vocabulary).append(target, 1);  // all of them must be there
  StepTokens step(config.vocabulary);
  step.append({&config.decoder_start.value(), 1}, 0);
  step.append(target.first(target.size() - 1), 1);
  return step;
}

std::unique_ptr<TextToText> make_text_to_text(std::shared_ptr<const models::Model> model,
                                              const RunnerOptions& options) {
  core::require(model->network.has_encoder() && model->network.has_decoder(), ErrorKind::kUsage,
                "{} (family '{}') is no encoder-decoder", io::shown(model->path),
                model->network.config.family);
  return options.place.on_gpu() ? make_cuda_text_to_text(std::move(model), options)
                                : make_cpu_text_to_text(std::move(model), options);
}

}  // namespace nibble::engine
