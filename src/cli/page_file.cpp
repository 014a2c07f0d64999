#include "cli/page_file.h"

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "io/file_descriptor.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

// Whether nothing is lost when a file that begins so takes this place.
bool may_replace(const fs::path& path, std::string_view expected) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) {
    return true;
  }
  std::string begin(expected.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), std::ssize(begin));
  return begin == expected;
}

}  // namespace

PageFile::PageFile(const std::string& path, const PageKind& kind) {
  if (path.empty()) {
    return;
  }
  core::require(may_replace(path, kind.begin), core::ErrorKind::kUsage,
                "{} is there and is no {}; choose another name with {}", io::shown(path), kind.what,
                kind.option);
  file_.emplace(path);
}

void PageFile::write(std::string_view html) {
  file_.value().write(html);
  file_->commit();
}

}  // namespace nibble::cli
