#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/atomic_file.h"
#include "report/html.h"
#include "report/svg.h"

namespace nibble::cli {

/// What a page or a drawing begins with, and the option that names the file.
struct PageKind {
  const char* what;
  std::string_view begin;
  const char* option;
};
inline constexpr PageKind kPage = {"page", report::kPageBegin, "--html"};
inline constexpr PageKind kDrawing = {"drawing", report::kSvgBegin, "--plot"};

/// The file of --html or --plot. It is opened before the work that fills it, so that a place that
/// cannot be written to is told at once.
class PageFile {
 public:
  /// Without a name there is no file. Throws kUsage for a file that is there and is of another kind
  /// (a model's config.json, say), and as io::AtomicFile.
  explicit PageFile(const std::string& path, const PageKind& kind = kPage);

  explicit operator bool() const { return file_.has_value(); }

  /// Once.
  void write(std::string_view html);

 private:
  std::optional<io::AtomicFile> file_;
};

}  // namespace nibble::cli
