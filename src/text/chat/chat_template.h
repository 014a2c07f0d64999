#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace nibble::text {

/// JSON whose objects keep the order of their keys: templates print and walk over them.
using OrderedJson = nlohmann::ordered_json;

/// A model's chat template: turns a conversation into the text that the model was trained on.
///
/// Templates come with models and are not trusted. They are interpreted here in a subset of Jinja2
/// that covers published chat templates, with the settings and functions that Hugging Face
/// transformers gives them (trim_blocks, lstrip_blocks, loop controls, tojson, raise_exception,
/// strftime_now). They see nothing but the values below, cannot change those, and run within
/// budgets of steps, text and depth. Immutable: one object may render in many threads.
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

  /// Parses the template. Throws kInvalidModel, naming line and column, for what is no template or
  /// uses tags outside of the subset.
  explicit ChatTemplate(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// The prompt for `messages`, an array of objects with "role", "content" and whatever else the
  /// template reads. Throws kUsage when the messages are malformed or the template refuses them
  /// (raise_exception), kInvalidModel when the template fails or exceeds its budget.
  std::string render(const OrderedJson& messages, const Options& options) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace nibble::text
