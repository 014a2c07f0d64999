#include "serve/body_source.h"

#include <utility>

namespace nibble::serve {
namespace {

constexpr std::size_t kPartBytes = 64 << 10;
constexpr std::size_t kPartItems = 4096;  // some items write nothing

}  // namespace

BodySections& BodySections::text(std::string text) {
  sections_.push_back({std::move(text), 0, nullptr});
  return *this;
}

BodySections& BodySections::each(std::size_t count, AppendItem append) {
  sections_.push_back({"", count, std::move(append)});
  return *this;
}

BodySections& BodySections::keep(std::shared_ptr<const void> data, std::size_t bytes) {
  data_.push_back(std::move(data));
  held_ += bytes;
  return *this;
}

bool BodySections::append(std::string& part) {
  const std::size_t enough = part.size() + kPartBytes;
  std::size_t items = 0;
  for (; section_ < sections_.size(); ++section_, item_ = 0) {
    Section& section = sections_[section_];
    part += section.text;
    section.text = std::string();
    for (; item_ < section.count; ++item_, ++items) {
      if (part.size() >= enough || items == kPartItems) {
        return true;
      }
      section.append(item_, part);
    }
    section.append = nullptr;
  }
  return false;
}

}  // namespace nibble::serve
