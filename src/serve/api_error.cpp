#include "serve/api_error.h"

#include "core/ordered_json.h"
#include "serve/json_text.h"

namespace nibble::serve {
namespace {

OrderedJson text_or_null(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string ApiError::body() const {
  OrderedJson error;
  error["message"] = what();
  error["type"] = type;
  error["param"] = text_or_null(param);
  error["code"] = text_or_null(code);
  return to_text({{"error", error}});
}

HttpResponse ApiError::response() const {
  HttpResponse response = json_response(status, body());
  if (retry_after > 0) {
    response.headers.push_back({"Retry-After", std::to_string(retry_after)});
  }
  return response;
}

ApiError plain_error(int status, const std::string& message) {
  return ApiError(status, type_of(status), message);
}

}  // namespace nibble::serve
