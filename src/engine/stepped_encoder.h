#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "engine/encoder.h"
#include "engine/encoder_batch.h"
#include "models/encoder_forward.h"

namespace nibble::engine {

/// What is wanted of an encoder: each is a call of Encoder.
enum class EncoderOutput { kStates, kLabels, kMaskedLm, kEmbeddings };

/// What the encoders of all devices share: they compute a call in steps of whole texts, and refuse
/// what the model has no part for. A device says how large a step is, and computes it.
class SteppedEncoder : public Encoder {
 public:
  EncoderRows hidden_states(std::span<const EncoderText> texts) override;
  EncoderRows classify(std::span<const EncoderText> texts) override;
  EncoderRows masked_lm(std::span<const EncoderText> texts) override;
  EncoderRows embed(std::span<const EncoderText> texts) override;
  std::int64_t max_tokens() const override { return network().config.max_positions; }

 protected:
  explicit SteppedEncoder(std::shared_ptr<const models::Model> model)
      : model_(std::move(model)), batch_(network()) {}

  const models::Model& model() const { return *model_; }
  const models::Network& network() const { return model_->network; }

 private:
  /// Tokens of a step, of whole texts; one text may have more.
  virtual std::int64_t step_rows(EncoderOutput output) const = 0;
  /// Appends to `rows` what is wanted of the texts of a step, which it may fill up.
  virtual void compute(EncoderBatch& step, EncoderOutput output, EncoderRows& rows) = 0;

  void require_part(bool there, std::string_view what) const;
  EncoderRows run(std::span<const EncoderText> texts, EncoderOutput output);

  std::shared_ptr<const models::Model> model_;
  EncoderBatch batch_;  // of the step
};

/// Whether an output has a row for each token; else it has one for each text.
bool is_of_tokens(const models::Network& network, EncoderOutput output);

/// An output of a step, on its device. `firsts` are the rows of the texts' first tokens; `pool`
/// makes embeddings of the states of all tokens.
template <ops::EncoderOps O, typename Pool>
typename O::Matrix compute_output(O& ops, const models::Network& network, EncoderOutput output,
                                  const models::Batch<O>& batch,
                                  std::span<const std::int32_t> firsts, const Pool& pool) {
  auto states = models::encode(ops, network, batch);
  if (output == EncoderOutput::kLabels) {
    return models::run_head(ops, network.classifier->head,
                            is_of_tokens(network, output) ? ops.widened(std::move(states))
                                                          : ops.gather(states, firsts));
  }
  if (output == EncoderOutput::kMaskedLm) {
    return models::run_head(ops, *network.masked_lm, ops.widened(std::move(states)));
  }
  return output == EncoderOutput::kEmbeddings ? pool(states) : ops.widened(std::move(states));
}

}  // namespace nibble::engine
