#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/text_batches.h"
#include "eval/analysis/analysis.h"

namespace nibble::eval {

/// Which texts are read.
struct AnalysisTextOptions {
  std::int64_t seq_len = 0;     // the most tokens of a text; 0: what the model was made for
  std::int64_t max_tokens = 0;  // of all texts together; 0: any number
};

/// Windows of a text, for decoders: full ones that do not overlap, as those of perplexity.h. Throws
/// kUsage for a seq_len that the model is not made for and for less text than one window.
std::vector<AnalysisText> windows_of(const models::Model& model,
                                     std::span<const std::int32_t> tokens,
                                     const AnalysisTextOptions& options);

/// A text a line, for encoders: each a text or a pair, as the model takes it. For encoder-decoders:
/// each a source and its target; the target begins with the decoder's start token, which is put
/// before what the tokenizer makes of it, if it isn't there. What is longer than seq_len is cut.
/// `where(i)` names line i in errors. Throws kUsage for a seq_len that the model is not made for,
/// kFailed for a line without tokens or, in front of a decoder, without a target; and as
/// text::encode_for_model.
std::vector<AnalysisText> lines_of(const models::Model& model,
                                   std::span<const engine::InputText> lines,
                                   const std::function<std::string(std::size_t)>& where,
                                   const AnalysisTextOptions& options);

}  // namespace nibble::eval
