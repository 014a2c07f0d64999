#include "serve/http_head.h"

#include <gtest/gtest.h>

#include "serve/http_parser.h"

// The reading of requests without sockets: whole, and byte by byte, with the same result.
namespace nibble::serve {
namespace {

struct Read {
  int refused = 0;  // its status
  bool done = false;
  std::string method;
  std::string path;
  std::string body;
  std::size_t taken = 0;
  bool operator==(const Read&) const = default;
};

Read read(std::string_view bytes, std::size_t step, const HttpLimits& limits = {},
          const std::vector<std::string>& hosts = {}) {
  HttpParser parser(limits, hosts);
  Read read;
  std::size_t there = 0;
  while (there < bytes.size() && !parser.refusal() && !parser.done()) {
    there = std::min(bytes.size(), there + step);
    std::size_t taken = 0;
    do {
      const std::string_view unread = bytes.substr(read.taken, there - read.taken);
      taken = parser.head_done() ? parser.read_body(unread) : parser.read_head(unread);
      read.taken += taken;
    } while (taken > 0);
  }
  read.refused = parser.refusal() ? parser.refusal()->status : 0;
  read.done = parser.done();
  read.method = parser.request().method;
  read.path = parser.request().path;
  read.body = parser.request().body;
  return read;
}

// The status of a refusal, 0 for a request that was read, -1 for one that is not complete; the same
// however the bytes arrive.
int status_of(std::string_view bytes, const HttpLimits& limits = {},
              const std::vector<std::string>& hosts = {}) {
  const Read whole = read(bytes, bytes.size(), limits, hosts);
  const Read by_bytes = read(bytes, 1, limits, hosts);
  EXPECT_EQ(whole.refused, by_bytes.refused) << bytes.substr(0, 200);
  EXPECT_EQ(whole.done, by_bytes.done) << bytes.substr(0, 200);
  EXPECT_EQ(whole.body, by_bytes.body);
  return whole.refused != 0 ? whole.refused : whole.done ? 0 : -1;
}

std::string post(std::string_view framing, std::string_view body) {
  return std::string("POST /x HTTP/1.1\r\nHost: a\r\n") + std::string(framing) + "\r\n\r\n" +
         std::string(body);
}

TEST(HttpParser, ReadsABodyByLengthAndInChunks) {
  EXPECT_EQ(read(post("Content-Length: 5", "helloGET"), 1000).body, "hello");
  EXPECT_EQ(read(post("Content-Length: 5", "hello"), 1).body, "hello");
  const std::string chunked =
      post("Transfer-Encoding: Chunked", "3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nHost: b\r\n\r\n");
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    const Read got = read(chunked, step);
    EXPECT_TRUE(got.done);
    EXPECT_EQ(got.body, "hello");
    EXPECT_EQ(got.taken, chunked.size());
  }
}

TEST(HttpParser, LeavesTheNextRequest) {
  const std::string first = "\r\n\r\nGET /a?q=1 HTTP/1.1\r\nHost: a\r\n\r\n";
  const Read got = read(first + "GET /b HTTP/1.1\r\n", 1000);
  EXPECT_TRUE(got.done);
  EXPECT_EQ(got.path, "/a");
  EXPECT_EQ(got.taken, first.size());
}

// Row 17: what two programs could read differently.
TEST(HttpParser, RefusesAmbiguousFraming) {
  for (const char* framing :
       {"Content-Length: -1", "Content-Length: +5", "Content-Length: 18446744073709551621",
        "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5", "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5", "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Transfer-Encoding: \x0b"
        "chunked"}) {
    EXPECT_EQ(status_of(post(framing, "hello")), 400) << framing;
  }
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

// Row 18.
TEST(HttpParser, RefusesMalformedHeads) {
  using namespace std::string_literals;
  for (const std::string& head :
       {"GET / HTTP/1.1\nHost: a\n\n"s, "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n"s, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"s,
        "GET / HTTP/1.1\r\n\r\n"s, "GET /\r\n\r\n"s, "GET / HTTP/9.9\r\nHost: a\r\n\r\n"s,
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"s, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: a\r\rX: 1\r\n\r\n"s, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"s,
        "G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n"s, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"s,
        "GET x HTTP/1.1\r\nHost: a\r\n\r\n"s, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"s,
        "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"s}) {
    EXPECT_EQ(status_of(head), 400) << head;
  }
  EXPECT_EQ(status_of("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 0);
  EXPECT_EQ(read("GET http://a:80/b?c HTTP/1.1\r\nHost: a\r\n\r\n", 1000).path, "/b");
  EXPECT_EQ(read("GET http://a?c HTTP/1.1\r\nHost: a\r\n\r\n", 1000).path, "/");
}

// Row 15, and 16 for what frames a body.
TEST(HttpParser, KeepsToItsLimits) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  limits.wire_bytes = 4000;
  const auto head = [](const std::string& more) {
    return "GET / HTTP/1.1\r\nHost: a\r\n" + more + "\r\n";
  };
  std::string headers;
  for (int i = 0; i < 99; ++i) {
    headers += "a: b\r\n";
  }
  EXPECT_EQ(status_of(head(headers), limits), 0);
  EXPECT_EQ(status_of(head(headers + "a: b\r\n"), limits), 431);
  EXPECT_EQ(status_of("GET /" + std::string(20000, 'a'), limits), 414);
  EXPECT_EQ(status_of(std::string(20000, 'a'), limits), 414);
  EXPECT_EQ(status_of(head("X: " + std::string(20000, 'a')), limits), 431);
  EXPECT_EQ(status_of(head("X: " + std::string(16000, 'a') + "\r\n"), limits), 0);
  EXPECT_EQ(status_of(post("Content-Length: 1001", ""), limits), 413);
  EXPECT_EQ(status_of(post("Content-Length: 1000", std::string(1000, 'a')), limits), 0);
  const char* const chunked = "Transfer-Encoding: chunked";
  std::string chunks;
  for (int i = 0; i < 900; ++i) {
    chunks += "1\r\na\r\n";
  }
  EXPECT_EQ(status_of(post(chunked, chunks), limits), 413) << "bytes on the wire";
  EXPECT_EQ(status_of(post(chunked, "3e9\r\n" + std::string(1001, 'a') + "\r\n0\r\n\r\n"), limits),
            413);
  EXPECT_EQ(status_of(post(chunked, "1;" + std::string(8000, 'x')), {}), 400);
  EXPECT_EQ(status_of(post(chunked, "0\r\n" + std::string(8000, 'x')), {}), 400) << "trailers";
  EXPECT_EQ(status_of(post(chunked, "ffffffffffffffff\r\nhello")), 413);
  for (const char* size : {"fffffffffffffffff\r\n", "-1\r\n", "0x5\r\n", "5 \nhello\r\n",
                           "5\r\nhelloX\r\n", "\r\n", " 5\r\nhello\r\n"}) {
    EXPECT_EQ(status_of(post(chunked, size + std::string("hello\r\n0\r\n\r\n"))), 400) << size;
  }
}

// Row 24: names of other machines that lead here.
TEST(HttpParser, AnswersOnlyToItsHosts) {
  const std::vector<std::string> hosts = {"localhost", "127.0.0.1", "[::1]"};
  const auto with = [&](const std::string& host) {
    return status_of("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", {}, hosts);
  };
  EXPECT_EQ(with("localhost"), 0);
  EXPECT_EQ(with("LOCALHOST:8080"), 0);
  EXPECT_EQ(with("127.0.0.1:80"), 0);
  EXPECT_EQ(with("[::1]:80"), 0);
  EXPECT_EQ(with("evil.com"), 403);
  EXPECT_EQ(with("localhost.evil.com"), 403);
  EXPECT_EQ(with(""), 403);
  EXPECT_EQ(with("localhost:80:80"), 400);
  EXPECT_EQ(with("localhost:x"), 400);
  EXPECT_EQ(with("[::1"), 400);
  EXPECT_EQ(with("user@localhost"), 400);
  EXPECT_EQ(status_of("GET http://evil.com/ HTTP/1.1\r\nHost: localhost\r\n\r\n", {}, hosts), 403);
}

// Any single byte changed in a good request must be read or refused, never worse, and the same by
// bytes.
TEST(HttpParser, StandsAnyByte) {
  const std::string good = post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n");
  ASSERT_EQ(status_of(good), 0);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(byte);
      const int status = status_of(bytes);
      EXPECT_TRUE(status <= 0 || status == 400 || status == 413 || status == 431) << status;
    }
  }
}

}  // namespace
}  // namespace nibble::serve
