#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace nibble::hub {

/// What a server said of a request.
struct Response {
  long status = 0;    // 0: there was no answer
  std::string error;  // why the transfer ended early; empty: it did not
  std::map<std::string, std::string, std::less<>>
      headers;  // of the last answer; names in lower case

  std::string_view header(std::string_view name) const;  // empty where it is missing
};

/// Bytes of a file and where they belong in it.
using Receiver = std::function<void(std::int64_t position, std::string_view bytes)>;

/// HTTP(S) over libcurl, one request at a time. The token goes to the host that is asked, never to
/// one that it redirects to. From https nothing leads back to http. Proxies are those of the
/// environment, as curl reads it.
class HttpClient {
 public:
  explicit HttpClient(const std::string& token);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// The headers of a file. Redirects are followed on the same server only: what the hub says of a
  /// file stands in its own answer, not in that of the store behind it.
  Response head(const std::string& url);

  /// A text of at most `max_bytes`. Throws kFailed for more.
  Response get(const std::string& url, std::size_t max_bytes, std::string& body);

  /// The bytes of a file from `from` on, or from its beginning where the server knows no ranges.
  /// What `receive` throws ends the transfer and is thrown here. Bytes of answers that are none
  /// (404) are not received.
  Response download(const std::string& url, std::int64_t from, const Receiver& receive);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The text of an address with all but letters, digits and "-_.~" as %XX, and '/' too unless it is
/// kept.
std::string url_escaped(std::string_view text, bool keep_slashes);

}  // namespace nibble::hub
