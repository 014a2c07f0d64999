#include "serve/model_list.h"

#include <algorithm>

#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/api_error.h"
#include "serve/json_text.h"

namespace nibble::serve {
namespace {

// "%2F" -> "/"; malformed escapes stay.
std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    decoded += escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    i += escape ? 2 : 0;
  }
  return decoded;
}

OrderedJson describe(const ServedModel& model, const std::string& name) {
  OrderedJson json;
  json["id"] = name;
  json["object"] = "model";
  json["created"] = model.created;
  json["owned_by"] = "nibble";
  json["max_model_len"] = model.context;
  return json;
}

}  // namespace

std::string name_of_model(const std::filesystem::path& model) {
  return std::filesystem::absolute(model / ".")
      .lexically_normal()
      .parent_path()
      .filename()
      .string();
}

void check_model_name(const ServedModel& model, const std::string& name) {
  if (!name.empty() &&
      std::find(model.names.begin(), model.names.end(), name) == model.names.end()) {
    throw ApiError(404, "invalid_request_error",
                   fmt::format("the model '{}' does not exist; this server has '{}'",
                               core::printable(name), model.names.front()),
                   "model", "model_not_found");
  }
}

HttpResponse models_answer(const ServedModel& model, const std::string& path) {
  constexpr std::string_view kPrefix = "/v1/models/";
  if (path.size() > kPrefix.size()) {
    const std::string name = percent_decoded(std::string_view(path).substr(kPrefix.size()));
    check_model_name(model, name);
    return json_response(200, to_text(describe(model, name)));
  }
  OrderedJson list = OrderedJson::array();
  for (const std::string& name : model.names) {
    list.push_back(describe(model, name));
  }
  OrderedJson json;
  json["object"] = "list";
  json["data"] = std::move(list);
  return json_response(200, to_text(json));
}

}  // namespace nibble::serve
