#pragma once

#include <optional>
#include <string>

#include "io/atomic_file.h"

namespace nibble::cli {

/// The file of --html. It is opened before the work that fills it, so that a place that cannot be
/// written to is told at once.
class PageFile {
 public:
  /// Without a name there is no file. Throws kUsage for a file that is there and is no page (a
  /// model's config.json, say), and as io::AtomicFile.
  explicit PageFile(const std::string& path);

  explicit operator bool() const { return file_.has_value(); }

  /// Once.
  void write(std::string_view html);

 private:
  std::optional<io::AtomicFile> file_;
};

}  // namespace nibble::cli
