#include "serve/request_gate.h"

#include "core/error.h"

namespace nibble::serve {
namespace {

// Pages of other sites can make a browser send some types of bodies unasked, but not JSON.
std::optional<HttpResponse> refuse_body(const HttpRequest& head) {
  const std::string* type = head.find("content-type");
  const std::string given = type == nullptr ? "" : type->substr(0, type->find(';'));
  const std::string trimmed = given.substr(0, given.find_last_not_of(" \t") + 1);
  if (!same_name(trimmed, "application/json")) {
    return plain_error(415, "the Content-Type must be application/json").response();
  }
  const std::string* encoding = head.find("content-encoding");
  if (encoding != nullptr && !same_name(*encoding, "identity")) {
    return plain_error(415, "compressed bodies are not supported").response();
  }
  return std::nullopt;
}

HttpResponse refuse_key() {
  HttpResponse response =
      ApiError(401, "authentication_error",
               "the API key is missing or wrong; send it as 'Authorization: Bearer KEY'", "",
               "invalid_api_key")
          .response();
  response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace

bool is_path_of(const RouteHead& route, const std::string& path) {
  constexpr std::string_view kModels = "/v1/models/";
  return path == route.path ||
         (route.path == kModels && path.size() > kModels.size() && path.rfind(kModels, 0) == 0);
}

std::optional<HttpResponse> refuse_head(const HttpRequest& head, const RouteHead* route,
                                        const ApiKeys& keys, bool closing) {
  if (head.method == "OPTIONS" && (head.path == "*" || route != nullptr)) {
    const std::string methods = route == nullptr                      ? "GET, HEAD, POST, OPTIONS"
                                : std::string(route->method) == "GET" ? "GET, HEAD, OPTIONS"
                                                                      : "POST, OPTIONS";
    return HttpResponse{204, {{"Allow", methods}}, ""};
  }
  if ((route == nullptr || !route->open) && !keys.allow(head)) {
    return refuse_key();
  }
  if (route == nullptr) {
    return plain_error(404, fmt::format("there is nothing at {}", core::printable(head.path)))
        .response();
  }
  const bool gets = std::string_view(route->method) == "GET";
  if (head.method != route->method && !(gets && head.method == "HEAD")) {
    HttpResponse response =
        plain_error(405, fmt::format("{} takes {}", route->path, route->method)).response();
    response.headers.push_back({"Allow", gets ? "GET, HEAD, OPTIONS" : "POST, OPTIONS"});
    return response;
  }
  if (gets) {
    return std::nullopt;
  }
  return closing ? draining_error().response() : refuse_body(head);
}

std::string known_method(const HttpRecord& record) {
  const bool known = record.method == "GET" || record.method == "HEAD" || record.method == "POST" ||
                     record.method == "OPTIONS";
  return known ? record.method : "other";
}

LogRecord log_record(const HttpRecord& record) {
  return {record.status >= 500 ? LogLevel::kWarning : LogLevel::kInfo,
          "request",
          {{"request", record.id},
           {"remote", record.remote},
           {"method", record.method},
           {"path", record.path},
           {"status", std::to_string(record.status)},
           {"seconds", fmt::format("{:.3f}", record.time.count())},
           {"disconnected", record.disconnected ? "true" : "false"}}};
}

ApiError draining_error() {
  ApiError error = plain_error(503, "the server is shutting down");
  error.retry_after = 5;
  return error;
}

}  // namespace nibble::serve
