#pragma once

#include <memory>
#include <string>

#include "cli/option.h"
#include "text/grammar/grammar.h"

namespace nibble::cli {

/// What the text that a model writes must be.
class GrammarOptions {
 public:
  void add(CLI::App& app);

  /// The grammar that was asked for, or null. Throws kUsage for a malformed one, kIo for a file
  /// that cannot be read.
  std::shared_ptr<const text::Grammar> open() const;

 private:
  std::string grammar_;
  std::string grammar_file_;
  std::string schema_;
  std::string schema_file_;
  std::string regex_;
};

}  // namespace nibble::cli
