#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/encoder.h"
#include "models/model.h"
#include "text/model_input.h"

namespace nibble::results {

/// Throws kFailed for NaN and infinity, which a damaged model computes.
void require_finite(std::span<const float> values);

/// "[1,0.5,-2e-05]": the shortest digits that give back the same floats.
std::string json_numbers(std::span<const float> values);

/// Throws kFailed as require_finite(), kInvalidModel where there are not as many outputs as labels.
void check_outputs(const models::Classifier& head, std::span<const float> logits);

/// What a classifier says of texts, as JSON: `nibble classify`.
class LabelsJson {
 public:
  /// Throws kUsage for a model without a classifier. The model must outlive it.
  explicit LabelsJson(const models::Model& model);

  bool of_tokens() const;
  /// The texts of a batch, in their order. Throws as check_outputs().
  void add(std::span<const text::ModelInput> inputs, const engine::EncoderRows& rows);
  /// {"results":[...],"truncated":N}
  std::string text(std::int64_t truncated) const;

 private:
  void add_tokens(const text::ModelInput& input, const engine::EncoderRows& rows,
                  std::int64_t first_row);
  void append(const std::string& result);
  std::string fields_of(std::span<const float> logits) const;

  const models::Classifier& head_;
  const text::Tokenizer& tokenizer_;
  std::string json_;
};

}  // namespace nibble::results
