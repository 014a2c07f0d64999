#pragma once

#include <optional>
#include <string>

#include "serve/api_error.h"
#include "serve/api_keys.h"
#include "serve/http_server.h"
#include "serve/log.h"

namespace nibble::serve {

/// What may be asked at a path.
struct RouteHead {
  const char* path;    // "/v1/models/" also stands for what lies below it
  const char* method;  // of GET, HEAD comes with it
  bool open;           // to everybody
};

/// Whether a path is that of a route.
bool is_path_of(const RouteHead& route, const std::string& path);

/// The answer to a request that is refused before its body is read, and to OPTIONS; nothing where
/// it may come in. `route` is null where the path has none; with `closing` bodies are refused with
/// 503.
std::optional<HttpResponse> refuse_head(const HttpRequest& head, const RouteHead* route,
                                        const ApiKeys& keys, bool closing);

/// The method as metrics and logs count it: "other" for what is not known.
std::string known_method(const HttpRecord& record);

/// The line of the log about a request.
LogRecord log_record(const HttpRecord& record);

/// What requests get that wait while the server shuts down.
ApiError draining_error();

}  // namespace nibble::serve
