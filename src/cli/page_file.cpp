#include "cli/page_file.h"

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "io/file_descriptor.h"
#include "report/html.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

// Whether nothing is lost when a page takes this place.
bool may_become_page(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) {
    return true;
  }
  std::string begin(report::kPageBegin.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), std::ssize(begin));
  return begin == report::kPageBegin;
}

}  // namespace

PageFile::PageFile(const std::string& path) {
  if (path.empty()) {
    return;
  }
  core::require(may_become_page(path), core::ErrorKind::kUsage,
                "{} is there and is no page; choose another name with --html", io::shown(path));
  file_.emplace(path);
}

void PageFile::write(std::string_view html) {
  file_.value().write(html);
  file_->commit();
}

}  // namespace nibble::cli
