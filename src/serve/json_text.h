#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "serve/http_message.h"

namespace nibble::serve {

/// Objects keep the order of their keys.
using OrderedJson = nlohmann::ordered_json;

/// In one line; bytes that are not UTF-8 become U+FFFD. For what this server built: the depth of
/// what a client sent is bounded where it is read.
inline std::string to_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// A text as it stands between the quotes of a JSON string.
inline void append_escaped(std::string& out, const std::string& text) {
  const std::string quoted = to_text(text);
  out.append(quoted, 1, quoted.size() - 2);
}

inline HttpResponse json_response(int status, std::string body) {
  return {status, {{"Content-Type", "application/json"}}, std::move(body), nullptr};
}

inline HttpResponse json_response(std::shared_ptr<BodySource> body) {
  return {200, {{"Content-Type", "application/json"}}, "", std::move(body)};
}

}  // namespace nibble::serve
