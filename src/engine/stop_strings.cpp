#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace nibble::engine {

StopStrings::StopStrings(std::vector<std::string> stop) : stop_(std::move(stop)) {
  std::erase_if(stop_, [](const std::string& text) { return text.empty(); });
}

std::string StopStrings::push(std::string_view piece) {
  if (found_) {
    return {};
  }
  held_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stop_) {
    first = std::min(first, held_.find(stop));
  }
  if (first != std::string::npos) {
    found_ = true;
    std::string out = held_.substr(0, first);
    held_.clear();
    return out;
  }
  std::size_t keep = 0;  // the longest end of the text that begins a stop string
  for (const std::string& stop : stop_) {
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) {
        keep = length;
      }
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::flush() {
  return std::exchange(held_, {});
}

}  // namespace nibble::engine
