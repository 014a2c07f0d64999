#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_head.h"
#include "serve/http_limits.h"
#include "serve/http_message.h"

namespace nibble::serve {

/// Reads one request from bytes that arrive in parts, within limits. Knows no sockets.
class HttpParser {
 public:
  /// `limits` and `hosts` (check_head) must outlive it.
  HttpParser(const HttpLimits& limits, const std::vector<std::string>& hosts);
  ~HttpParser();

  /// Takes bytes from the front; returns how many. Bytes that were not taken come again, before
  /// new ones. Takes nothing any more after a refusal, or when the stage is done.
  std::size_t read_head(std::string_view bytes);
  std::size_t read_body(std::string_view bytes);

  bool head_done() const { return head_done_; }
  bool done() const;  // with its body
  const std::optional<HttpRefusal>& refusal() const { return refusal_; }

  /// Whole when done(); without the body when head_done().
  HttpRequest& request() { return request_; }
  /// Whether the client wants to keep the connection; when head_done().
  bool keep_alive() const;

 private:
  struct Beast;

  void refuse(int status, std::string message);
  void parse_head(std::string_view head);
  void take_head();

  const HttpLimits* limits_;
  const std::vector<std::string>* hosts_;
  HeadScanner scanner_;
  std::unique_ptr<Beast> beast_;
  HttpRequest request_;
  bool head_done_ = false;
  bool body_taken_ = false;
  std::size_t wire_bytes_ = 0;  // that were taken
  std::optional<HttpRefusal> refusal_;
};

}  // namespace nibble::serve
