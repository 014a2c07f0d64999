#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::hub {

/// Whether a file's name from the hub stays within its folder: parts without "..", control
/// characters and backslashes.
bool is_safe_name(std::string_view name);

/// Of the files of a repository those that Nibble reads: safetensors (one file, or the shards of
/// one index, or an adapter's), configuration, tokenizer, templates, licence, and the parts of
/// sentence-transformers. Throws kInvalidModel where there are no safetensors, and says what is
/// there instead. `repository` is for messages.
std::vector<std::string> needed_files(const std::vector<std::string>& all,
                                      std::string_view repository);

}  // namespace nibble::hub
