#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nibble::eval {

/// A text and what may be written for it.
struct TextPair {
  std::string where;  // "'test.tsv', line 12", for messages
  std::string source;
  std::vector<std::string> targets;  // at least one; each is right
};

/// The first `limit` pairs of a file (0: all), which its name says the form of:
/// * .tsv, .txt: lines of a source and its targets with tabs between them; no header.
/// * .jsonl: objects with `source` and `target`, each a text or a list: of sentences, which become
///   one text, and of targets (SciTLDR, arXiv 2004.15011).
/// * .json: an object of sources with their targets, a text or an object whose `DEFAULT` counts, as
///   dictionaries of pronunciations have it (misaki). Entries without a text are left out.
/// Throws kUsage for other names, kIo when the file cannot be read, kInvalidModel, with the line
/// and what is wrong, when it is malformed or holds no pair.
std::vector<TextPair> read_text_pairs(const std::filesystem::path& file, std::int64_t limit);

}  // namespace nibble::eval
