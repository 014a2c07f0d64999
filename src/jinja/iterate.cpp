#include "jinja/iterate.h"

#include "characters/utf8.h"
#include "jinja/loop.h"
#include "jinja/make.h"
#include "jinja/white_space.h"

namespace nibble::jinja {
namespace {

Items characters(Runtime& runtime, const Value& text) {
  Items items;
  for (const std::string_view character : split_code_points(text.bytes())) {
    items.push_back(make_text(runtime, character, text.is_markup()));
  }
  return items;
}

Items entries(Runtime& runtime, const Dict& dict, DictView::Part part) {
  using Part = DictView::Part;
  Items items;
  items.reserve(dict.entries().size());
  for (const auto& [key, value] : dict.entries()) {
    items.push_back(part == Part::kKeys     ? key
                    : part == Part::kValues ? value
                                            : make_tuple(runtime, {key, value}));
  }
  return items;
}

Items numbers(const Range& range) {
  Items items;
  items.reserve(static_cast<std::size_t>(range.size));
  for (std::int64_t i = 0; i < range.size; ++i) {
    items.push_back(Value::integer(range.at(i)));
  }
  return items;
}

Items take_rest(Generator& generator) {
  Items rest(generator.items.begin() + static_cast<std::ptrdiff_t>(generator.next),
             generator.items.end());
  generator.next = generator.items.size();
  return rest;
}

std::int64_t size_of(const Items& items) {
  return static_cast<std::int64_t>(items.size());
}

}  // namespace

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kGenerator:
      return true;
    default:
      return false;
  }
}

Items items_of(Runtime& runtime, const Value& value) {
  runtime.require(is_iterable(value), "a {} cannot be iterated over", value.type_name());
  // The copy lives no longer than a loop, so it costs steps but no bytes; single characters do.
  if (const auto length = length_of(runtime, value)) {
    runtime.step(*length);
  }
  switch (value.kind()) {
    case Kind::kString:
      return characters(runtime, value);
    case Kind::kList:
    case Kind::kTuple:
      return value.items();
    case Kind::kDict:
      return entries(runtime, *value.dict(), DictView::Part::kKeys);
    case Kind::kDictView:
      return entries(runtime, *value.view().dict, value.view().part);
    case Kind::kRange:
      return numbers(value.range());
    case Kind::kGenerator:
      runtime.step(size_of(value.generator().items));
      return take_rest(value.generator());
    default:
      return {};
  }
}

std::optional<std::int64_t> length_of(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      runtime.scan(value.bytes().size());
      return characters::count_code_points(value.bytes());
    case Kind::kList:
    case Kind::kTuple:
      return size_of(value.items());
    case Kind::kDict:
      return static_cast<std::int64_t>(value.dict()->entries().size());
    case Kind::kDictView:
      return static_cast<std::int64_t>(value.view().dict->entries().size());
    case Kind::kRange:
      return value.range().size;
    case Kind::kLoop:
      return value.loop().length();
    default:
      return std::nullopt;
  }
}

std::optional<Value> item_at(Runtime& runtime, const Value& sequence, Int index) {
  const auto length = length_of(runtime, sequence);
  if (!length.has_value()) {
    return std::nullopt;
  }
  const Int position = index < 0 ? index + *length : index;
  if (position < 0 || position >= *length) {
    return std::nullopt;
  }
  const auto at = static_cast<std::int64_t>(position);
  switch (sequence.kind()) {
    case Kind::kString: {
      const std::string_view bytes = sequence.bytes();
      const std::size_t start = characters::byte_of_code_point(bytes, at);
      return make_text(runtime, bytes.substr(start, characters::utf8_bytes(bytes[start])),
                       sequence.is_markup());
    }
    case Kind::kList:
    case Kind::kTuple:
      return sequence.items()[static_cast<std::size_t>(at)];
    case Kind::kRange:
      return Value::integer(sequence.range().at(at));
    default:
      return std::nullopt;
  }
}

}  // namespace nibble::jinja
