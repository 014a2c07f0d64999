#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/ordered_json.h"
#include "serve/json_text.h"

namespace nibble::serve {

/// What a server says of its model in /props and on its page.
struct ModelFacts {
  std::string recipe;  // empty: not compressed
  double bits_per_weight = 0;
  std::int64_t weight_bytes = 0;
  std::string kv_type;                        // as --kv-type
  std::string device;                         // as --device
  OrderedJson damage = OrderedJson::array();  // rows of parse_damage()
};

/// The rows of what `nibble compare --json` writes: recipe, perplexity, increase, bits_per_weight,
/// weight_bytes, decode_tokens_per_s. `what` names the text in messages. Throws kInvalidModel.
OrderedJson parse_damage(std::string_view text, std::string_view what);

OrderedJson to_json(const ModelFacts& facts, std::int64_t context);

}  // namespace nibble::serve
