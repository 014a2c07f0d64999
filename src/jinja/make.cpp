#include "jinja/make.h"

#include <algorithm>

#include "jinja/limits.h"

namespace nibble::jinja {
namespace {

void pay_for_items(Runtime& runtime, std::size_t count) {
  runtime.grow(count * sizeof(Value) + sizeof(Sequence));
}

void check_depth(const Runtime& runtime, int depth) {
  runtime.require(depth <= kMaxValueDepth, "lists or dictionaries nest deeper than {} levels",
                  kMaxValueDepth);
}

int depth_of(const Items& items) {
  int depth = 1;
  for (const Value& item : items) {
    depth = std::max(depth, 1 + item.depth());
  }
  return depth;
}

std::shared_ptr<const Sequence> make_sequence(Runtime& runtime, Items items) {
  pay_for_items(runtime, items.size());
  const int depth = depth_of(items);
  check_depth(runtime, depth);
  return std::make_shared<const Sequence>(Sequence{std::move(items), depth});
}

}  // namespace

Value make_text(Runtime& runtime, std::string_view bytes, bool markup) {
  runtime.grow(sizeof(Text) + bytes.size());
  return Value::text(std::string(bytes), markup);
}

Value make_list(Runtime& runtime, Items items) {
  return Value(Value::Storage(List{make_sequence(runtime, std::move(items))}));
}

Value make_tuple(Runtime& runtime, Items items) {
  return Value(Value::Storage(Tuple{make_sequence(runtime, std::move(items))}));
}

Value make_dict(Runtime& runtime, Dict dict) {
  pay_for_items(runtime, 4 * dict.entries().size());
  check_depth(runtime, dict.depth());
  return Value(Value::Storage(std::make_shared<const Dict>(std::move(dict))));
}

Value make_generator(Runtime& runtime, Items items) {
  pay_for_items(runtime, items.size());
  const int depth = depth_of(items);
  check_depth(runtime, depth);
  return Value(Value::Storage(std::make_shared<Generator>(Generator{std::move(items), 0, depth})));
}

Value TextBuilder::value(bool markup) {
  runtime_.grow(sizeof(Text));
  return Value::text(std::move(bytes_), markup);
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
