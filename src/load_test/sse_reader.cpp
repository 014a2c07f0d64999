#include "load_test/sse_reader.h"

#include <utility>

namespace nibble::load_test {

void SseReader::push(std::string_view bytes) {
  for (const char c : bytes) {
    const bool second_half = c == '\n' && std::exchange(after_cr_, c == '\r');
    if (second_half) {
      continue;
    }
    after_cr_ = c == '\r';
    if (c == '\n' || c == '\r') {
      end_line();
    } else {
      line_ += c;
    }
  }
}

void SseReader::end_line() {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    if (std::exchange(has_data_, false)) {
      on_data_(std::exchange(data_, {}));
    }
    return;
  }
  const std::size_t colon = line.find(':');
  if (line.substr(0, colon) != "data") {
    return;
  }
  std::string_view value =
      colon == std::string::npos ? "" : std::string_view(line).substr(colon + 1);
  if (value.starts_with(' ')) {
    value.remove_prefix(1);
  }
  if (has_data_) {
    data_ += '\n';
  }
  data_ += value;
  has_data_ = true;
}

}  // namespace nibble::load_test
