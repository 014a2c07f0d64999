#include "jinja/loop.h"

#include <algorithm>

namespace nibble::jinja {

Loop::Loop(Items items, Test test) : items_(std::move(items)), test_(std::move(test)) {
  for (const Value& item : items_) {
    depth_ = std::max(depth_, 1 + item.depth());
  }
  if (!test_) {
    length_ = static_cast<std::int64_t>(items_.size());
  }
}

const Value* Loop::peek() {
  while (!after_.has_value() && cursor_ < items_.size()) {
    Value candidate = items_[cursor_++];  // a copy: the test runs code of the template
    if (!test_ || test_(candidate)) {
      after_ = std::move(candidate);
    }
  }
  return after_.has_value() ? &*after_ : nullptr;
}

bool Loop::advance() {
  if (peek() == nullptr) {
    return false;
  }
  before_ = std::move(current_);
  current_ = *std::exchange(after_, std::nullopt);
  ++index0_;
  return true;
}

std::int64_t Loop::length() {
  if (!length_.has_value()) {
    Items rest;
    while (peek() != nullptr) {
      rest.push_back(*std::exchange(after_, std::nullopt));
    }
    length_ = index0_ + 1 + static_cast<std::int64_t>(rest.size());
    items_ = std::move(rest);
    cursor_ = 0;
    test_ = nullptr;
  }
  return *length_;
}

void Loop::close() {
  cursor_ = items_.size();
  test_ = nullptr;
}

}  // namespace nibble::jinja
