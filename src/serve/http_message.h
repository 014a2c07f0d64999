#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::serve {

class BodySource;
class ByteShare;

struct HttpHeader {
  std::string name;
  std::string value;
};
using HttpHeaders = std::vector<HttpHeader>;

struct HttpRequest {
  std::string method;   // "GET"
  std::string target;   // as it was sent
  std::string path;     // without host and query; still percent-encoded
  std::string version;  // "1.0" or "1.1"
  HttpHeaders headers;
  std::string body;
  std::string id;      // made by the server; answers carry it as x-request-id
  std::string remote;  // address of the client
  std::string client;  // who that is to the server: an address, or a network of IPv6
  std::shared_ptr<ByteShare> body_share;  // what the body takes of the bytes that may wait

  /// The first header of a name (any case), or null.
  const std::string* find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers;  // those of the framing, Date, Connection and x-request-id are added
  std::string body;
  std::shared_ptr<BodySource> source = nullptr;  // of what follows `body`
};

/// "Not Found" for 404.
std::string_view reason_phrase(int status);

/// Status line and headers, without the empty line behind them. Control characters in headers
/// become spaces.
std::string response_head(int status, const HttpHeaders& headers);

/// Whether two names are the same but for the case of ASCII letters.
bool same_name(std::string_view a, std::string_view b);

}  // namespace nibble::serve
