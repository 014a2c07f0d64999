#include "serve/json_text.h"

#include "core/ordered_json.h"

namespace nibble::serve {

std::string to_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

void append_escaped(std::string& out, const std::string& text) {
  const std::string quoted = to_text(text);
  out.append(quoted, 1, quoted.size() - 2);
}

}  // namespace nibble::serve
