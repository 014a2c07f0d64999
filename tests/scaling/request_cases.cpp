#include <fmt/format.h>

#include "core/json.h"
#include "scaling/scaling_case.h"
#include "serve/api_error.h"
#include "serve/http_parser.h"
#include "serve/json_request.h"

namespace nibble::scaling {
namespace {

constexpr std::size_t kMost = std::size_t{1} << 21;
constexpr std::size_t kMostHttp = std::size_t{1} << 18;
constexpr std::size_t kMostHeader = std::size_t{1} << 15;  // Beast holds values below 64 KiB

using MakeText = std::string (*)(std::size_t bytes);

void add_json(Cases& cases, const char* name, MakeText make) {
  cases.push_back({fmt::format("JSON request: {}", name),
                   [make](std::size_t size) {
                     return [text = make(size)] {
                       try {
                         (void)serve::parse_request(text);
                       } catch (const serve::ApiError&) {
                       }
                     };
                   },
                   kMost});
}

// The parts arrive one after the other, as from a socket; what was not taken comes again.
void read(std::string_view bytes, std::size_t part, const serve::HttpLimits& limits) {
  const std::vector<std::string> hosts;
  serve::HttpParser parser(limits, hosts);
  std::size_t there = 0;
  std::size_t read = 0;
  while (there < bytes.size() && !parser.refusal() && !parser.done()) {
    there = std::min(bytes.size(), there + part);
    std::size_t taken = 0;
    do {
      const std::string_view unread = bytes.substr(read, there - read);
      taken = parser.head_done() ? parser.read_body(unread) : parser.read_head(unread);
      read += taken;
    } while (taken > 0);
  }
}

// With limits far above those of the server, so that there is something to measure.
serve::HttpLimits wide_limits() {
  serve::HttpLimits limits;
  limits.target_bytes = limits.head_bytes = limits.headers = kMost * 4;
  limits.body_bytes = limits.wire_bytes = limits.chunk_head_bytes = kMost * 8;
  return limits;
}

void add_http(Cases& cases, const std::string& name, MakeText make, std::size_t most = kMostHttp) {
  for (const std::size_t part : {1, 1 << 14}) {
    cases.push_back({fmt::format("HTTP {}, {} bytes at a time", name, part),
                     [make, part](std::size_t size) {
                       return [bytes = make(size), part] { read(bytes, part, wide_limits()); };
                     },
                     most});
  }
}

std::string head(std::string_view more) {
  return fmt::format("POST /x HTTP/1.1\r\nHost: a\r\n{}\r\n", more);
}

std::string with_length(std::string_view body) {
  return head(fmt::format("Content-Length: {}\r\n", body.size())) + std::string(body);
}

}  // namespace

void add_request_cases(Cases& cases) {
  add_json(cases, "keys", [](std::size_t n) {
    std::string text = "{\"k\":1";
    for (std::size_t i = 0; text.size() < n; ++i) {
      text += fmt::format(",\"k{}\":1", i);
    }
    return text + "}";
  });
  add_json(cases, "keys of one hash", [](std::size_t n) {
    std::string text = "{\"k\":1";
    for (const std::string& name : texts_of_one_hash(n / 80)) {
      text += fmt::format(",\"{}\":1", name);
    }
    return text + "}";
  });
  add_json(cases, "brackets", [](std::size_t n) { return "{\"a\":" + repeated("[", n); });
  add_json(cases, "lists",
           [](std::size_t n) { return "{\"a\":[" + repeated("[[[[]]]],", n) + "[]]}"; });
  add_json(cases, "escapes",
           [](std::size_t n) { return "{\"a\":\"" + repeated("\\ud83d\\ude00", n) + "\"}"; });
  add_json(cases, "halves of pairs",
           [](std::size_t n) { return "{\"a\":\"" + repeated("\\ud83d", n) + "\"}"; });
  add_json(cases, "numbers",
           [](std::size_t n) { return "{\"a\":[" + repeated("-1.5e-300,", n) + "1]}"; });
  add_json(cases, "a long number",
           [](std::size_t n) { return "{\"a\":1" + repeated("3", n) + "}"; });
  add_json(cases, "spaces", [](std::size_t n) { return "{" + repeated(" ", n) + "}"; });
  add_http(cases, "head: headers", [](std::size_t n) { return head(repeated("a: b\r\n", n)); });
  add_http(cases, "head: headers without end",
           [](std::size_t n) { return "GET / HTTP/1.1\r\n" + repeated("a: b\r\n", n); });
  add_http(
      cases, "head: a long header",
      [](std::size_t n) { return head("a: " + repeated("b", n) + "\r\n"); }, kMostHeader);
  add_http(
      cases, "head: a header of blanks",
      [](std::size_t n) { return head("a:" + repeated(" \t", n) + "\r\n"); }, kMostHeader);
  add_http(
      cases, "head: a long target",
      [](std::size_t n) { return "GET /" + repeated("%20", n) + " HTTP/1.1\r\nHost: a\r\n\r\n"; },
      kMostHeader);
  add_http(cases, "head: empty lines", [](std::size_t n) { return repeated("\r\n", n); });
  add_http(cases, "body: of a length", [](std::size_t n) { return with_length(repeated("b", n)); });
  add_http(cases, "body: small chunks", [](std::size_t n) {
    return head("Transfer-Encoding: chunked\r\n") + repeated("1\r\nb\r\n", n) + "0\r\n\r\n";
  });
  add_http(cases, "body: chunk extensions", [](std::size_t n) {
    return head("Transfer-Encoding: chunked\r\n") +
           repeated("1;" + repeated("a=b;", 200) + "c\r\nb\r\n", n) + "0\r\n\r\n";
  });
  add_http(cases, "body: trailers", [](std::size_t n) {
    return head("Transfer-Encoding: chunked\r\n") + "1\r\nb\r\n0\r\n" + repeated("a: b\r\n", n) +
           "\r\n";
  });
}

}  // namespace nibble::scaling
