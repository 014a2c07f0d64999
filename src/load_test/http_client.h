#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::load_test {

/// What became of a transfer: an HTTP status, or a reason why there is none.
struct TransferResult {
  long status = 0;
  std::string error;  // empty unless the connection failed
};

struct Transfer {
  std::string url;
  std::string body;                                // JSON; empty: GET
  std::function<bool(std::string_view)> on_bytes;  // of the answer's body; false ends the transfer
  std::function<void(const TransferResult&)> on_end;
};

/// Many HTTP transfers at a time on the calling thread, over libcurl. http and https only.
class HttpClient {
 public:
  /// `api_key` goes into each request's Authorization header unless it is empty.
  explicit HttpClient(const std::string& api_key);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void start(Transfer transfer);
  std::size_t running() const;
  /// Moves all transfers on; waits for at most so long when nothing moves.
  void poll(double seconds);

  /// One transfer from beginning to end; throws kFailed when there is no answer, or one with
  /// another status than 200.
  std::string fetch(const std::string& url, const std::string& body = {});

 private:
  struct Running;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::load_test
