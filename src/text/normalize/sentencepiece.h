#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/normalize/normalizer.h"

namespace nibble::text {

/// How a SentencePiece model prepares text (sentencepiece_model.proto, NormalizerSpec).
struct SentencePieceRules {
  std::string charsmap;                     // replacement table; empty for none
  bool add_dummy_prefix = true;             // a space before the text
  bool remove_extra_whitespaces = true;     // none at the ends, one elsewhere
  bool escape_whitespaces = true;           // ' ' becomes U+2581
  bool treat_whitespace_as_suffix = false;  // the added space comes behind the text
  bool prefix_at_origin_only = false;       // no added space behind a special token
  std::vector<std::string> verbatim;        // user-defined symbols: never rewritten
};

/// Throws kInvalidModel for a malformed charsmap.
NormalizerPtr make_sentencepiece_normalizer(const SentencePieceRules& rules, std::string_view what);

}  // namespace nibble::text
