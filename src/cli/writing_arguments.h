#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/option.h"
#include "cli/sampling_options.h"
#include "engine/writing_options.h"

namespace nibble::cli {

/// How an encoder-decoder writes, where a call says something else than the model.
class WritingArguments {
 public:
  void add(CLI::App& app);

  /// Throws kUsage where the call has one of them, naming it: "--beams is `what`".
  void refuse(std::string_view what) const;

  /// What the model says with what the call says in its place; `max_tokens` may be written, or as
  /// many as the model says where it is 0. Draws that are said are for one beam; a temperature of 0
  /// and --beams end those of the model. Throws kUsage for a seed where nothing is drawn, and as
  /// engine::writing_options, engine::validate and engine::set_target_language.
  engine::WritingOptions applied_to(const models::Model& model, std::int64_t max_tokens,
                                    const SaidDraws& draws = {}) const;

  /// Empty: as the tokenizer frames texts.
  const std::string& source_language() const { return source_language_; }

 private:
  void apply(const SaidDraws& draws, engine::WritingOptions& options) const;

  engine::WritingOptions said_;
  std::int64_t min_tokens_ = 0;
  std::string early_stopping_;
  std::string source_language_;
  std::string target_language_;
  Option beams_;
  Option length_penalty_;
  Option early_;
  Option no_repeat_;
  Option least_;
  std::vector<Option> all_;
};

}  // namespace nibble::cli
