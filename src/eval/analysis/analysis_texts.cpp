#include "eval/analysis/analysis_texts.h"

#include <algorithm>

#include "core/error.h"
#include "text/model_input.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;

// The most tokens of a text.
std::int64_t most_tokens(const models::Model& model, std::int64_t seq_len) {
  const std::int64_t positions = model.network.config.max_positions;
  core::require(seq_len <= positions, ErrorKind::kUsage,
                "--seq-len {} is longer than the {} tokens that the model was made for", seq_len,
                positions);
  return seq_len > 0 ? seq_len : positions;
}

// What a decoder writes, and the token that it starts with.
std::vector<std::int32_t> target_of(const models::Model& model, std::string_view text,
                                    std::int64_t most) {
  std::vector<std::int32_t> target =
      text::encode_for_model(*model.tokenizer, text, std::nullopt, {.most_tokens = most - 1}).ids;
  const std::int32_t start = model.network.config.decoder_start.value();
  if (target.empty() || target.front() != start) {
    target.insert(target.begin(), start);
  }
  return target;
}

AnalysisText line_of(const models::Model& model, const engine::InputText& line,
                     const std::string& where, std::int64_t most) {
  const models::Network& network = model.network;
  const bool writes = network.has_decoder();
  core::require(!writes || line.second.has_value(), ErrorKind::kFailed,
                "{}: no target; a line holds a source, a tab, and its target", where);
  const std::optional<std::string_view> pair = writes ? std::nullopt : line.second;
  text::ModelInput source =
      text::encode_for_model(*model.tokenizer, line.first, pair, {.most_tokens = most});
  core::require(!source.ids.empty(), ErrorKind::kFailed, "{}: the text has no token", where);
  AnalysisText text{std::move(source.ids), {}, {}};
  const core::Tensor& types = network.embeddings.types;
  if (!types.empty() && types.dim(0) > 1) {
    text.source_types = std::move(source.types);
  }
  if (writes) {
    text.target = target_of(model, *line.second, most);
    core::require(text.target.size() >= 2, ErrorKind::kFailed, "{}: the target has no token",
                  where);
  }
  return text;
}

}  // namespace

std::vector<AnalysisText> windows_of(const models::Model& model,
                                     std::span<const std::int32_t> tokens,
                                     const AnalysisTextOptions& options) {
  const auto length = static_cast<std::size_t>(most_tokens(model, options.seq_len));
  core::require(length >= 2, ErrorKind::kUsage,
                "a window of {} tokens predicts nothing; use at least 2", length);
  const std::size_t used =
      options.max_tokens > 0 ? std::min(tokens.size(), static_cast<std::size_t>(options.max_tokens))
                             : tokens.size();
  core::require(
      used >= length, ErrorKind::kUsage,
      "the text has {} tokens, fewer than one window of {}; give more text or a smaller --seq-len",
      used, length);
  std::vector<AnalysisText> windows;
  for (std::size_t first = 0; first + length <= used; first += length) {
    const auto window = tokens.subspan(first, length);
    windows.push_back({{}, {}, {window.begin(), window.end()}});
  }
  return windows;
}

std::vector<AnalysisText> lines_of(const models::Model& model,
                                   std::span<const engine::InputText> lines,
                                   const std::function<std::string(std::size_t)>& where,
                                   const AnalysisTextOptions& options) {
  const std::int64_t most = most_tokens(model, options.seq_len);
  std::vector<AnalysisText> texts;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    AnalysisText text = line_of(model, lines[i], where(i), most);
    tokens += std::ssize(text.source) + std::ssize(text.target);
    if (options.max_tokens > 0 && tokens > options.max_tokens) {
      break;
    }
    texts.push_back(std::move(text));
  }
  core::require(!texts.empty(), ErrorKind::kUsage,
                "--max-tokens {} is less than the first text has; use more", options.max_tokens);
  return texts;
}

}  // namespace nibble::eval
