#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "jinja/template.h"

// What the tests of templates share: the golden files, which goldens/make_goldens.py writes with
// Jinja2 itself.
namespace nibble::jinja {

inline OrderedJson read_goldens(const std::string& name) {
  std::ifstream file(NIBBLE_SOURCE_DIR "/src/jinja/goldens/" + name);
  return OrderedJson::parse(file);
}

/// Renders with every field of `variables` as a variable of the template.
inline std::string render_with(const Template& source, const OrderedJson& variables,
                               std::int64_t now_unix_seconds = 0) {
  std::vector<Variable> list;
  for (auto entry = variables.begin(); entry != variables.end(); ++entry) {
    list.push_back({entry.key(), &entry.value()});
  }
  return source.render(list, now_unix_seconds);
}

inline std::string render(const std::string& source) {
  return render_with(Template(source), OrderedJson::object());
}

}  // namespace nibble::jinja
