#include "jinja/make.h"

#include <algorithm>

#include "jinja/limits.h"

namespace nibble::jinja {
namespace {

void check_depth(const Runtime& runtime, int depth) {
  runtime.require(depth <= kMaxValueDepth, "lists or dictionaries nest deeper than {} levels",
                  kMaxValueDepth);
}

}  // namespace

Value make_text(Runtime& runtime, std::string_view bytes) {
  runtime.grow(sizeof(std::string) + bytes.size());
  return Value::text(std::string(bytes));
}

Value make_sequence(Runtime& runtime, Items items, Sequence::Form form) {
  runtime.grow(items.size() * sizeof(Value) + sizeof(Sequence));
  int depth = 1;
  for (const Value& item : items) {
    depth = std::max(depth, 1 + item.depth());
  }
  check_depth(runtime, depth);
  return Value(
      Value::Storage(std::make_shared<const Sequence>(Sequence{std::move(items), form, depth})));
}

Value make_dict(Runtime& runtime, Dict dict) {
  runtime.grow(4 * dict.entries().size() * sizeof(Value) + sizeof(Dict));
  check_depth(runtime, dict.depth());
  return Value(Value::Storage(std::make_shared<const Dict>(std::move(dict))));
}

Value TextBuilder::value() {
  runtime_.grow(sizeof(std::string));
  return Value::text(std::move(bytes_));
}

TextBuilder& TextBuilder::add(std::string_view piece) {
  runtime_.grow(piece.size());
  bytes_ += piece;
  return *this;
}

TextBuilder& TextBuilder::repeat(std::string_view piece, Int count) {
  if (piece.empty() || count <= 0) {
    return *this;
  }
  const Int most = std::int64_t{1} << 60;  // far beyond any budget, and far from overflow
  runtime_.grow(
      static_cast<std::size_t>(std::min(most, std::min(most, count) * Int(piece.size()))));
  for (Int i = 0; i < count; ++i) {
    bytes_ += piece;
  }
  return *this;
}

}  // namespace nibble::jinja
