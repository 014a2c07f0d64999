// The one source that sees Boost.Beast.
#include "serve/http_parser.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace nibble::serve {

namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace

struct HttpParser::Beast {
  http::request_parser<http::string_body> parser;
};

HttpParser::HttpParser(const HttpLimits& limits, const std::vector<std::string>& hosts)
    : limits_(&limits), hosts_(&hosts), scanner_(limits), beast_(std::make_unique<Beast>()) {}

HttpParser::~HttpParser() = default;

void HttpParser::refuse(int status, std::string message) {
  refusal_ = HttpRefusal{status, std::move(message)};
}

bool HttpParser::done() const {
  return head_done_ && !refusal_ && beast_->parser.is_done();
}

bool HttpParser::keep_alive() const {
  return beast_->parser.keep_alive();
}

std::size_t HttpParser::read_head(std::string_view bytes) {
  if (head_done_ || refusal_) {
    return 0;
  }
  if (bytes.substr(0, 2) == "\r\n") {  // empty lines before a request mean nothing
    wire_bytes_ += 2;
    if (wire_bytes_ > limits_->head_bytes) {
      refuse(400, "there is no request");
    }
    scanner_ = HeadScanner(*limits_);
    return 2;
  }
  if (bytes == "\r") {
    return 0;
  }
  const auto size = scanner_.scan(bytes);
  if (scanner_.refusal()) {
    refusal_ = scanner_.refusal();
    return 0;
  }
  if (!size) {
    return 0;
  }
  wire_bytes_ += *size;
  parse_head(bytes.substr(0, *size));
  return *size;
}

void HttpParser::parse_head(std::string_view head) {
  auto& parser = beast_->parser;
  parser.header_limit(static_cast<std::uint32_t>(head.size() + 1));
  parser.body_limit(limits_->body_bytes);
  error_code error;
  parser.put(boost::asio::const_buffer(head.data(), head.size()), error);
  const bool too_large = error == http::error::body_limit;
  take_head();
  if (too_large) {
    refuse(413, "the body is too large");
    return;
  }
  if (error || !parser.is_header_done()) {
    refuse(400, "the request is malformed");
    return;
  }
  refusal_ = check_head(request_, *hosts_);
  head_done_ = !refusal_;
  parser.eager(true);
}

void HttpParser::take_head() {
  const auto& message = beast_->parser.get();
  request_.method = std::string(message.method_string());
  request_.target = std::string(message.target());
  request_.version = message.version() == 11 ? "1.1" : "1.0";
  for (const auto& field : message) {
    request_.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
}

std::size_t HttpParser::read_body(std::string_view bytes) {
  auto& parser = beast_->parser;
  std::size_t taken = 0;
  if (body_taken_) {
    return 0;
  }
  while (head_done_ && !refusal_ && !parser.is_done() && taken < bytes.size()) {
    error_code error;
    const std::string_view rest = bytes.substr(taken);
    if (parser.chunked() && rest.size() < kLastChunk.size()) {
      break;  // Beast 1.74 asserts that so many are there; a message never ends with fewer
    }
    const std::size_t used = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    taken += used;
    wire_bytes_ += used;
    if (wire_bytes_ > limits_->wire_bytes) {
      refuse(413, "the message is too large");
    } else if (error == http::error::body_limit) {
      refuse(413, "the body is too large");
    } else if (error == http::error::need_more) {
      if (rest.size() - used > limits_->chunk_head_bytes) {
        refuse(400, "the head of a chunk is too long");
      }
      break;
    } else if (error) {
      refuse(400, "the body is malformed");
    }
  }
  if (done()) {
    body_taken_ = true;
    request_.body = std::move(parser.get().body());
  }
  return taken;
}

}  // namespace nibble::serve
