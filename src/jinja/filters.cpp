#include "jinja/filters.h"

#include <array>

namespace nibble::jinja {

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), sequence_filters(),
                           selection_filters(), value_filters()}) {
    if (const Builtin* filter = find_builtin(table, name)) {
      return filter;
    }
  }
  return nullptr;
}

}  // namespace nibble::jinja
