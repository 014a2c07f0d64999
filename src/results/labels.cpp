#include "results/labels.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/json.h"
#include "engine/classification.h"

namespace nibble::results {
namespace {

std::string json_text(const std::string& text) {
  return core::Json(text).dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

}  // namespace

void require_finite(std::span<const float> values) {
  core::require(
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }),
      core::ErrorKind::kFailed, "the model computed NaN or infinity; its weights may be damaged");
}

std::string json_numbers(std::span<const float> values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

void check_outputs(const models::Classifier& head, std::span<const float> logits) {
  require_finite(logits);
  core::require(logits.size() == head.labels.size(), core::ErrorKind::kInvalidModel,
                "the model has {} outputs, but config.json names {} labels", logits.size(),
                head.labels.size());
}

LabelsJson::LabelsJson(const models::Model& model)
    : head_(engine::classifier_of(model)), tokenizer_(*model.tokenizer) {}

bool LabelsJson::of_tokens() const {
  return head_.problem == models::Problem::kTokenLabels;
}

void LabelsJson::add(std::span<const text::ModelInput> inputs, const engine::EncoderRows& rows) {
  std::int64_t row = 0;
  for (const text::ModelInput& input : inputs) {
    if (of_tokens()) {
      add_tokens(input, rows, row);
      row += static_cast<std::int64_t>(input.ids.size());
    } else {
      append(fmt::format("{{{}}}", fields_of(rows.row(row++))));
    }
  }
}

// What the tokenizer put around the text has no results.
void LabelsJson::add_tokens(const text::ModelInput& input, const engine::EncoderRows& rows,
                            std::int64_t first_row) {
  std::string tokens;
  for (std::size_t i = 0; i < input.ids.size(); ++i) {
    if (!input.framing[i]) {
      const auto logits = rows.row(first_row + static_cast<std::int64_t>(i));
      tokens += tokens.empty() ? "" : ",";
      tokens += fmt::format("{{\"token\":{},{}}}", json_text(tokenizer_.piece(input.ids[i])),
                            fields_of(logits));
    }
  }
  append(fmt::format("{{\"tokens\":[{}]}}", tokens));
}

void LabelsJson::append(const std::string& result) {
  json_ += json_.empty() ? "" : ",";
  json_ += result;
}

std::string LabelsJson::fields_of(std::span<const float> logits) const {
  check_outputs(head_, logits);
  return fmt::format("\"label\":{},\"logits\":{}",
                     json_text(head_.labels[engine::best_label(logits)]), json_numbers(logits));
}

std::string LabelsJson::text(std::int64_t truncated) const {
  return fmt::format("{{\"results\":[{}],\"truncated\":{}}}", json_, truncated);
}

}  // namespace nibble::results
