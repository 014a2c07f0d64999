#pragma once

#include <string>
#include <string_view>

namespace nibble::hub {

/// A model of the hub at one of its revisions.
struct Repository {
  std::string name;               // "HuggingFaceTB/SmolLM2-135M", or "gpt2"
  std::string revision = "main";  // a branch, a tag, or a commit of 40 digits

  /// "models--HuggingFaceTB--SmolLM2-135M": its folder in the cache.
  std::string folder() const;
};

/// Whether a word may be the name of a model: one or two parts of letters, digits, '-', '_' and '.'
/// with a '/' between them, as the hub allows.
bool is_repository_name(std::string_view word);

/// "ORG/NAME" or "ORG/NAME@REVISION". Throws kUsage.
Repository parse_repository(std::string_view text);

/// Whether a name is a commit: 40 hexadecimal digits.
bool is_commit(std::string_view revision);

/// Throws kUsage for names of revisions that would lead out of the cache.
void check_revision(std::string_view revision);

}  // namespace nibble::hub
