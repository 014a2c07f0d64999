#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::report {

/// What is wrong with a run of XML elements, or "" when every tag is closed in order, every
/// attribute is quoted, and every < and & outside tags begins a tag or a character reference. Knows
/// HTML's void elements and its doctype.
class TagChecker {
 public:
  static std::string fault_of(std::string_view text) { return TagChecker(text).check(); }

 private:
  explicit TagChecker(std::string_view text) : text_(text) {}

  std::string check() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '&' && !reference()) {
        return "a bare & in " + std::string(text_.substr(at_, 20));
      }
      if (c == '>') {
        return "a bare > in " + std::string(text_.substr(at_, 20));
      }
      if (c != '<') {
        ++at_;
        continue;
      }
      const std::string fault = tag();
      if (!fault.empty()) {
        return fault;
      }
    }
    return open_.empty() ? "" : "never closed: " + open_.back();
  }

  bool reference() const {
    const std::size_t end = text_.find(';', at_);
    return end != std::string_view::npos && end - at_ > 1 && end - at_ <= 6;
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0)) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  // `at_` stands on '<'.
  std::string tag() {
    if (text_.substr(at_, 9) == "<!doctype") {
      at_ = text_.find('>', at_) + 1;
      return "";
    }
    ++at_;
    const bool closes = at_ < text_.size() && text_[at_] == '/';
    at_ += closes ? 1 : 0;
    const std::string element = name();
    if (element.empty()) {
      return "a bare < in " + std::string(text_.substr(at_, 20));
    }
    bool quoted = false;
    std::size_t quotes = 0;
    for (; at_ < text_.size() && (quoted || text_[at_] != '>'); ++at_) {
      if (text_[at_] == '"') {
        quoted = !quoted;
        ++quotes;
      }
      if (text_[at_] == '<' || (quoted && text_[at_] == '&' && !reference())) {
        return "an unescaped character in the attributes of " + element;
      }
    }
    if (at_ == text_.size() || quotes % 2 != 0) {
      return "a tag without an end: " + element;
    }
    const bool empty = text_[at_ - 1] == '/';
    ++at_;
    if (closes) {
      if (open_.empty() || open_.back() != element) {
        return "</" + element + "> closes " + (open_.empty() ? "nothing" : open_.back());
      }
      open_.pop_back();
    } else if (!empty && element != "meta") {
      open_.push_back(element);
    }
    return "";
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
};

}  // namespace nibble::report
