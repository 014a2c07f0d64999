#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::engine {

/// Passes text on as soon as it can no longer become part of a stop string.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stop);

  /// Takes the next piece; returns what is certain to be output. After a stop string was met,
  /// found() is true and nothing more comes out.
  std::string push(std::string_view piece);

  /// What was held back, when the text ends without a stop string.
  std::string flush();

  bool found() const { return found_; }

 private:
  std::vector<std::string> stop_;  // none empty
  std::string held_;
  bool found_ = false;
};

}  // namespace nibble::engine
