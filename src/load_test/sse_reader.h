#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace nibble::load_test {

/// Finds the events of a stream of server-sent events (WHATWG HTML, section 9.2), as its bytes
/// come: lines end with LF, CRLF or CR, comments are left out, `data` lines of one event are joined
/// by LF.
class SseReader {
 public:
  using OnData = std::function<void(std::string_view data)>;
  explicit SseReader(OnData on_data) : on_data_(std::move(on_data)) {}

  void push(std::string_view bytes);

 private:
  void end_line();

  OnData on_data_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace nibble::load_test
