#include "engine/stepped_encoder.h"

#include "core/error.h"
#include "io/file_descriptor.h"

namespace nibble::engine {

bool is_of_tokens(const models::Network& network, EncoderOutput output) {
  switch (output) {
    case EncoderOutput::kStates:
    case EncoderOutput::kMaskedLm:
      return true;
    case EncoderOutput::kLabels:
      return network.classifier->problem == models::Problem::kTokenLabels;
    case EncoderOutput::kEmbeddings:
      return false;
  }
  return false;
}

EncoderRows SteppedEncoder::hidden_states(std::span<const EncoderText> texts) {
  return run(texts, EncoderOutput::kStates);
}

EncoderRows SteppedEncoder::classify(std::span<const EncoderText> texts) {
  require_part(network().classifier.has_value(), "labels no texts");
  return run(texts, EncoderOutput::kLabels);
}

EncoderRows SteppedEncoder::masked_lm(std::span<const EncoderText> texts) {
  require_part(network().masked_lm.has_value(), "is no masked language model");
  return run(texts, EncoderOutput::kMaskedLm);
}

EncoderRows SteppedEncoder::embed(std::span<const EncoderText> texts) {
  require_part(network().pooling.has_value(),
               "does not say how it makes embeddings (modules.json of sentence-transformers)");
  return run(texts, EncoderOutput::kEmbeddings);
}

void SteppedEncoder::require_part(bool there, std::string_view what) const {
  core::require(there, core::ErrorKind::kUsage, "{} {}", io::shown(model().path), what);
}

EncoderRows SteppedEncoder::run(std::span<const EncoderText> texts, EncoderOutput output) {
  const std::int64_t most = step_rows(output);
  EncoderRows rows;
  for (std::size_t next = 0; next < texts.size();) {
    batch_.clear();
    do {
      batch_.append(texts[next++]);
    } while (next < texts.size() && batch_.rows() + std::ssize(texts[next].tokens) <= most);
    compute(batch_, output, rows);
  }
  return rows;
}

}  // namespace nibble::engine
