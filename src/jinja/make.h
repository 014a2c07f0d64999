#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "jinja/runtime.h"
#include "jinja/value.h"

// Every value that a template makes is made here, and paid for.
namespace nibble::jinja {

Value make_text(Runtime& runtime, std::string_view bytes, bool markup = false);
Value make_list(Runtime& runtime, Items items);
Value make_tuple(Runtime& runtime, Items items);
Value make_dict(Runtime& runtime, Dict dict);
Value make_generator(Runtime& runtime, Items items);

/// Text that grows piece by piece; each piece is paid for before it is copied.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}

  TextBuilder& add(std::string_view piece);
  TextBuilder& repeat(std::string_view piece, Int count);

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }
  Value value(bool markup = false);

 private:
  Runtime& runtime_;
  std::string bytes_;
};

}  // namespace nibble::jinja
