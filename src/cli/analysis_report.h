#pragma once

#include <cstddef>
#include <string>

#include "core/json_type.h"
#include "eval/analysis/analysis.h"
#include "report/text_table.h"

namespace nibble::cli {

/// What `nibble analyze` has found, and of what.
struct AnalysisView {
  std::string model;
  std::string quantized;  // empty: the model alone was read
  std::string recipe;     // of the quantized one; "none"
  std::string text;
  eval::Analysis analysis;

  bool compares() const { return !quantized.empty(); }
  bool tells_noise() const { return !analysis.stacks.front().blocks.front().noise.empty(); }
};

/// "513-1024", or "1": the positions of an octave, up to the last one that there is.
std::string octave_name(std::size_t octave, std::int64_t positions);

/// Perplexity by position; of a decoder.
report::Table loss_table(const AnalysisView& view);

/// The largest |x| of a token, by place and position: the model's, a slash, the quantized one's.
report::Table magnitude_table(const eval::StackAnalysis& stack);

/// Smallest and largest values of a token at the places of a block, by position.
report::Table range_table(const eval::BlockAnalysis& block);

/// Signal-to-noise of the residual stream behind each block; where `with_layers`, of each layer
/// too.
report::Table noise_table(const eval::StackAnalysis& stack, bool with_layers);

/// What is said below the table of perplexities: the whole, and how its increase grows.
std::string loss_summary(const AnalysisView& view);

/// "decoder: 6 blocks, pre-norm".
std::string stack_title(const eval::StackAnalysis& stack);

/// All of it as text of `width` columns at most, where that is more than 0.
std::string analysis_text(const AnalysisView& view, std::size_t width);
core::Json analysis_json(const AnalysisView& view);
std::string analysis_page(const AnalysisView& view);

}  // namespace nibble::cli
