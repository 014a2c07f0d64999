#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "serve/http_message.h"

namespace nibble::serve {

/// A request that cannot be served, as OpenAI's clients expect to be told:
/// {"error":{"message","type","param","code"}}. What the client did wrong is a 4xx: clients repeat
/// a request after a 5xx.
class ApiError : public std::runtime_error {
 public:
  /// A long message is cut.
  ApiError(int http_status, std::string kind, std::string_view message, std::string about = "",
           std::string error_code = "")
      : std::runtime_error(core::printable(message, kMaxMessageBytes)),
        status(http_status),
        type(std::move(kind)),
        param(std::move(about)),
        code(std::move(error_code)) {}

  static constexpr std::size_t kMaxMessageBytes = 400;

  int status;
  std::string type;     // "invalid_request_error"
  std::string param;    // the field that is wrong; empty: null
  std::string code;     // "context_length_exceeded"; empty: null
  int retry_after = 0;  // seconds; 0: not said

  /// The object around it, in one line.
  std::string body() const;
  HttpResponse response() const;
};

/// Throws status 400 about the field `param`.
template <typename... Args>
[[noreturn]] void refuse(const std::string& param, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw ApiError(400, "invalid_request_error", fmt::format(format, std::forward<Args>(args)...),
                 param);
}

/// The error of a status, for what concerns no field.
ApiError plain_error(int status, const std::string& message);

}  // namespace nibble::serve
