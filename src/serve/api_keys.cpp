#include "serve/api_keys.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::serve {

bool same_secret(std::string_view given, std::string_view key) {
  std::size_t difference = given.size() ^ key.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i] ^ key[i % key.size()]);
  }
  return difference == 0;
}

std::optional<std::size_t> ApiKeys::find(const HttpRequest& request) const {
  if (keys_.empty()) {
    return 0;
  }
  constexpr std::string_view kScheme = "bearer ";
  const std::string* header = request.find("authorization");
  if (header == nullptr || request.count("authorization") != 1 ||
      !same_name(std::string_view(*header).substr(0, kScheme.size()), kScheme)) {
    return std::nullopt;
  }
  const std::string_view given = std::string_view(*header).substr(kScheme.size());
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < keys_.size(); ++i) {  // all of them, whichever it is
    if (same_secret(given, keys_[i])) {
      found = i + 1;
    }
  }
  return found;
}

std::vector<std::string> parse_keys(std::string_view text, const std::string& file) {
  std::vector<std::string> keys;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) {
      line.remove_suffix(1);
    }
    if (!line.empty() && line.front() != '#') {
      keys.emplace_back(line);
    }
  }
  core::require(!keys.empty(), core::ErrorKind::kUsage, "{} holds no key", core::printable(file));
  return keys;
}

}  // namespace nibble::serve
