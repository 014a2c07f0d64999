#pragma once

#include <string>

#include "core/json_type.h"
#include "serve/http_message.h"

namespace nibble::serve {

using core::OrderedJson;

/// In one line; bytes that are not UTF-8 become U+FFFD. For what this server built: the depth of
/// what a client sent is bounded where it is read.
std::string to_text(const OrderedJson& json);

/// A text as it stands between the quotes of a JSON string.
void append_escaped(std::string& out, const std::string& text);

inline HttpResponse json_response(int status, std::string body) {
  return {status, {{"Content-Type", "application/json"}}, std::move(body), nullptr};
}

inline HttpResponse json_response(std::shared_ptr<BodySource> body) {
  return {200, {{"Content-Type", "application/json"}}, "", std::move(body)};
}

}  // namespace nibble::serve
