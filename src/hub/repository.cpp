#include "hub/repository.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::hub {
namespace {

constexpr std::size_t kMaxNameBytes = 96;  // of ORG/NAME, as the hub has it
constexpr std::size_t kMaxRevisionBytes = 255;
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

bool is_part(std::string_view part) {
  return !part.empty() && part.find_first_not_of(kNameCharacters) == std::string_view::npos &&
         part.front() != '-' && part.front() != '.' && part.back() != '-' && part.back() != '.' &&
         part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos;
}

}  // namespace

std::string Repository::folder() const {
  std::string folder = "models--" + name;
  if (const std::size_t slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  return folder;
}

bool is_repository_name(std::string_view word) {
  const std::size_t slash = word.find('/');
  return word.size() <= kMaxNameBytes && is_part(word.substr(0, slash)) &&
         (slash == std::string_view::npos || is_part(word.substr(slash + 1)));
}

Repository parse_repository(std::string_view text) {
  const std::size_t at = text.find('@');
  Repository repository;
  repository.name = text.substr(0, at);
  if (at != std::string_view::npos) {
    repository.revision = text.substr(at + 1);
  }
  core::require(is_repository_name(repository.name), core::ErrorKind::kUsage,
                "'{}' is not the name of a model on the hub (ORG/NAME, or ORG/NAME@REVISION)",
                core::printable(text));
  check_revision(repository.revision);
  return repository;
}

bool is_commit(std::string_view revision) {
  return revision.size() == 40 &&
         revision.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void check_revision(std::string_view revision) {
  const bool plain =
      !revision.empty() && revision.size() <= kMaxRevisionBytes &&
      std::all_of(revision.begin(), revision.end(), [](char c) {
        return kNameCharacters.find(c) != std::string_view::npos || c == '/' || c == '+';
      });
  core::require(plain && revision.front() != '/' && revision.back() != '/' &&
                    revision.front() != '.' && revision.find("..") == std::string_view::npos &&
                    revision.find("//") == std::string_view::npos &&
                    revision.find("/.") == std::string_view::npos,
                core::ErrorKind::kUsage, "'{}' is not the name of a revision",
                core::printable(revision));
}

}  // namespace nibble::hub
