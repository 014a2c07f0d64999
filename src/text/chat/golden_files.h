#pragma once

#include <fstream>
#include <string>

#include "text/chat/chat_template.h"

// What the tests of chat templates share: the golden files, which goldens/make_goldens.py writes
// with Jinja2 itself.
namespace nibble::text {

inline OrderedJson read_goldens(const std::string& name) {
  std::ifstream file(NIBBLE_SOURCE_DIR "/src/text/chat/goldens/" + name);
  return OrderedJson::parse(file);
}

/// Renders with every field of `variables` as a variable of the template.
inline std::string render_with(const ChatTemplate& chat_template, const OrderedJson& variables,
                               std::int64_t now_unix_seconds) {
  ChatTemplate::Options options;
  options.extra = variables;
  options.now_unix_seconds = now_unix_seconds;
  return chat_template.render(OrderedJson::array(), options);
}

}  // namespace nibble::text
