#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "serve/http_message.h"

namespace nibble::serve {

/// What a server says of its model to whoever lists models.
struct ServedModel {
  std::vector<std::string> names;  // the first is said, all are understood
  std::int64_t created = 0;        // Unix seconds
  std::int64_t context = 0;        // tokens
};

/// What a model is called where nobody says: the name of its folder or file.
std::string name_of_model(const std::filesystem::path& model);

/// Throws ApiError (404) for a name that is none of the model's; an empty one is any.
void check_model_name(const ServedModel& model, const std::string& name);

/// Of /v1/models, and of /v1/models/NAME. Throws as check_model_name().
HttpResponse models_answer(const ServedModel& model, const std::string& path);

}  // namespace nibble::serve
