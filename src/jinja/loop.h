#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "jinja/value.h"

namespace nibble::jinja {

/// The rounds of one for statement and what its `loop` variable tells. Items are tested against
/// the statement's `if` one by one as they are needed, because the body may change what it asks.
class Loop {
 public:
  using Test = std::function<bool(const Value&)>;

  Loop(Items items, Test test);

  /// Moves to the next round; false when there is none.
  bool advance();

  const Value& current() const { return current_; }

  std::int64_t index0() const { return index0_; }
  std::int64_t length();
  bool is_last() { return peek() == nullptr; }
  const Value* previous() const { return index0_ > 0 ? &before_ : nullptr; }
  const Value* next() { return peek(); }

  int depth() const { return depth_; }

  /// After the for statement: no more items, so that the test is never called again.
  void close();

 private:
  const Value* peek();

  Items items_;
  std::size_t cursor_ = 0;
  Test test_;  // empty: every item counts
  std::optional<std::int64_t> length_;
  std::optional<Value> after_;
  Value current_;
  Value before_;
  std::int64_t index0_ = -1;
  int depth_ = 1;
};

}  // namespace nibble::jinja
