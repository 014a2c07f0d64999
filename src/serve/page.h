#pragma once

#include <optional>
#include <string_view>

#include "serve/http_message.h"

namespace nibble::serve {

/// The chat page of the server ("/") and its parts (src/serve/page); nullopt for other paths. They
/// hold nothing of the model, and ask the API for the rest as any client does.
std::optional<HttpResponse> page_of(std::string_view path);

}  // namespace nibble::serve
