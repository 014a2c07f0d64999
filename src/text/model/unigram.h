#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/model/model.h"

namespace nibble::text {

/// "Unigram" of tokenizer.json: every token may be used, scores add up in double precision.
/// `unk_id` stands for runs of characters without a token.
WordModelPtr make_unigram(const std::vector<std::pair<std::string, double>>& vocabulary,
                          std::optional<std::int64_t> unk_id, bool byte_fallback,
                          std::string_view what);

}  // namespace nibble::text
