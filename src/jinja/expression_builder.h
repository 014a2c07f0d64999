#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "jinja/ast.h"
#include "jinja/limits.h"

namespace nibble::jinja {

/// Builds nodes and keeps count of the tree's depth, which its evaluation recurses into.
class Builder {
 public:
  explicit Builder(Position at) : at_(at) {}

  Builder& over(const ExprPtr& child) {
    depth_ = std::max(depth_, child == nullptr ? 1 : child->depth + 1);
    return *this;
  }

  Builder& over(const CallArguments& arguments) {
    for (const auto& argument : arguments.positional) {
      over(argument);
    }
    for (const auto& [name, argument] : arguments.named) {
      over(argument);
    }
    return *this;
  }

  template <typename Node>
  ExprPtr make(Node node) {
    if (depth_ > kMaxExpressionDepth) {
      fail_at(at_, "an expression is deeper than {} levels", kMaxExpressionDepth);
    }
    return std::make_unique<const Expr>(Expr{at_, depth_, std::move(node)});
  }

 private:
  Position at_;
  int depth_ = 1;
};

/// The value of a name that stands for one (true, False, none, ...).
std::optional<Value> constant_of(std::string_view name);

}  // namespace nibble::jinja
