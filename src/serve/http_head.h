#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_limits.h"
#include "serve/http_message.h"

/// The rules for the head of a request (RFC 9112) that decide whether two programs could read it
/// differently. They are checked before and after the parser.
namespace nibble::serve {

/// Why a request is refused.
struct HttpRefusal {
  int status = 400;
  std::string message;
};

/// Looks for the end of a head in bytes that arrive in parts, and refuses at the first byte that is
/// wrong: a line feed or carriage return on its own, other control characters, folded lines, more
/// than the limits allow.
class HeadScanner {
 public:
  explicit HeadScanner(const HttpLimits& limits) : limits_(&limits) {}

  /// `bytes` begin with those of the calls before. The size of the head with its empty line, once
  /// it is there.
  std::optional<std::size_t> scan(std::string_view bytes);
  const std::optional<HttpRefusal>& refusal() const { return refusal_; }

 private:
  void refuse(int status, const char* message) { refusal_ = HttpRefusal{status, message}; }
  bool check_byte(char byte, char before);
  bool check_limits();

  const HttpLimits* limits_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  std::size_t lines_ = 0;  // that ended
  std::optional<HttpRefusal> refusal_;
};

/// Checks what the parser does not, of a request without its body: Content-Length is one number and
/// stands once, Transfer-Encoding is exactly "chunked" and stands alone, Host is there once, the
/// target is a path, "*" of OPTIONS, or an http URL. Sets request.path. Where `hosts` is not empty,
/// the host must be one of them (403).
std::optional<HttpRefusal> check_head(HttpRequest& request, const std::vector<std::string>& hosts);

/// "[::1]:8080" -> "[::1]", "LocalHost" -> "localhost"; nothing for what is no host.
std::optional<std::string> host_name(std::string_view host);

}  // namespace nibble::serve
