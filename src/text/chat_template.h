#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/ordered_json.h"
#include "jinja/template.h"

namespace nibble::text {

using jinja::OrderedJson;

/// A model's chat template: turns a conversation into the text that the model was trained on.
class ChatTemplate {
 public:
  struct Options {
    bool add_generation_prompt = true;  // end with the start of the assistant's answer
    std::string bos_token;              // empty: not defined for the template
    std::string eos_token;
    OrderedJson tools;      // descriptions of functions, or null
    OrderedJson documents;  // for retrieval, or null
    OrderedJson extra;  // an object whose entries become variables (enable_thinking, ...), or null
    std::int64_t now_unix_seconds = 0;  // what strftime_now shows; UTC, so add the local offset
  };

  /// Parses the template; throws as jinja::Template does.
  explicit ChatTemplate(std::string_view source) : template_(source) {}

  /// The prompt for `messages`, an array of objects with "role", "content" and whatever else the
  /// template reads. Throws kUsage when the messages are malformed or the template refuses them
  /// (raise_exception), kInvalidModel when the template fails or exceeds its budget.
  std::string render(const OrderedJson& messages, const Options& options) const;

 private:
  jinja::Template template_;
};

}  // namespace nibble::text
