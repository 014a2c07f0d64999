#include "text/grammar/schema_place.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "core/ordered_json.h"

namespace nibble::text {
namespace {

using Json = nlohmann::ordered_json;

// "~1" stands for '/', "~0" for '~'.
std::optional<std::string> unescaped(std::string_view name) {
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '~') {
      plain.push_back(name[i]);
      continue;
    }
    ++i;
    if (i == name.size() || (name[i] != '0' && name[i] != '1')) {
      return std::nullopt;
    }
    plain.push_back(name[i] == '0' ? '~' : '/');
  }
  return plain;
}

const Json* element(const Json& array, const std::string& digits) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  const bool plain = error == std::errc() && end == digits.data() + digits.size() &&
                     (digits.size() == 1 || digits.front() != '0');
  return plain && index < array.size() ? &array[index] : nullptr;
}

}  // namespace

std::string SchemaPlace::to_string() const {
  std::vector<const SchemaPlace*> steps;
  for (const SchemaPlace* step = this; step != nullptr; step = step->above) {
    steps.push_back(step);
  }
  std::string text(steps.back()->name);
  std::for_each(steps.rbegin() + 1, steps.rend(), [&](const SchemaPlace* step) {
    text.push_back('/');
    text.append(step->index ? std::to_string(*step->index) : std::string(step->name));
  });
  return text;
}

const Json* SchemaPointers::find(std::string_view pointer) {
  const Json* at = &document_;
  while (!pointer.empty() && at != nullptr) {
    if (pointer.front() != '/') {
      return nullptr;
    }
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    const auto name = unescaped(pointer.substr(1, end - 1));
    at = name ? step(*at, *name) : nullptr;
    pointer.remove_prefix(end);
  }
  return at;
}

const Json* SchemaPointers::step(const Json& from, const std::string& name) {
  if (from.is_array()) {
    return element(from, name);
  }
  if (!from.is_object()) {
    return nullptr;
  }
  const auto [members, is_new] = members_.try_emplace(&from);
  if (is_new) {
    for (const auto& [key, value] : from.get_ref<const Json::object_t&>()) {
      members->second.emplace(key, &value);
    }
  }
  const auto found = members->second.find(name);
  return found == members->second.end() ? nullptr : found->second;
}

}  // namespace nibble::text
