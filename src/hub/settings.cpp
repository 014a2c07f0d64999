#include "hub/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "core/error.h"
#include "io/text_file.h"

namespace nibble::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxTokenBytes = 4096;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "~/x" as Python's expanduser has it.
fs::path expanded(const std::string& path) {
  if (path.starts_with("~/")) {
    return fs::path(variable("HOME")) / path.substr(2);
  }
  return path;
}

fs::path home_of_hub() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) {
    return expanded(home);
  }
  const std::string cache = variable("XDG_CACHE_HOME");
  const std::string home = variable("HOME");
  core::require(!cache.empty() || !home.empty(), core::ErrorKind::kIo,
                "there is no place for the hub's cache: set HF_HOME to a folder");
  return (cache.empty() ? fs::path(home) / ".cache" : expanded(cache)) / "huggingface";
}

fs::path cache_of_hub() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string cache = variable(name); !cache.empty()) {
      return expanded(cache);
    }
  }
  return home_of_hub() / "hub";
}

std::string trimmed(std::string text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
  text.resize(text.find_last_not_of(kSpace) + 1);
  return text;
}

std::string token_of_user() {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const std::string token = trimmed(variable(name)); !token.empty()) {
      return token;
    }
  }
  const std::string said = variable("HF_TOKEN_PATH");
  const fs::path file = said.empty() ? home_of_hub() / "token" : expanded(said);
  std::error_code error;
  return fs::exists(file, error) ? trimmed(io::read_text_file(file, kMaxTokenBytes)) : "";
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string endpoint_of_hub() {
  std::string endpoint = variable("HF_ENDPOINT");
  if (endpoint.empty()) {
    return "https://huggingface.co";
  }
  core::require(endpoint.starts_with("https://") || endpoint.starts_with("http://"),
                core::ErrorKind::kUsage, "HF_ENDPOINT is '{}', which is no http(s) address",
                core::printable(endpoint));
  while (endpoint.ends_with('/')) {
    endpoint.pop_back();
  }
  return endpoint;
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  settings.endpoint = endpoint_of_hub();
  settings.cache = cache_of_hub();
  settings.token = token_of_user();
  settings.offline = is_true(variable("HF_HUB_OFFLINE"));
  const bool one_line = std::all_of(settings.token.begin(), settings.token.end(),
                                    [](unsigned char c) { return c > ' ' && c < 0x7f; });
  core::require(one_line, core::ErrorKind::kUsage,
                "the hub's token holds spaces or other characters that no token has");
  return settings;
}

}  // namespace nibble::hub
