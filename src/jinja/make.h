#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "jinja/runtime.h"
#include "jinja/value.h"

// Every value that a template makes is made here, and paid for.
namespace nibble::jinja {

Value make_text(Runtime& runtime, std::string_view bytes);
Value make_sequence(Runtime& runtime, Items items, Sequence::Form form = Sequence::Form::kList);
Value make_dict(Runtime& runtime, Dict dict);

/// Text that grows piece by piece; each piece is paid for before it is copied.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}

  TextBuilder& add(std::string_view piece);
  TextBuilder& repeat(std::string_view piece, Int count);

  std::string take() { return std::move(bytes_); }
  Value value();

 private:
  Runtime& runtime_;
  std::string bytes_;
};

}  // namespace nibble::jinja
