#include "jinja/iterate.h"

#include "characters/utf8.h"
#include "jinja/loop.h"
#include "jinja/make.h"
#include "jinja/texts.h"

namespace nibble::jinja {
namespace {

Items keys_of(const Dict& dict) {
  Items keys;
  for (const auto& entry : dict.entries()) {
    keys.push_back(entry.key);
  }
  return keys;
}

Items characters_of(Runtime& runtime, std::string_view text) {
  Items items;
  for (const std::string_view character : split_code_points(text)) {
    items.push_back(make_text(runtime, character));
  }
  return items;
}

Items rest_of_generator(Runtime& runtime, const Sequence& generator) {
  const std::size_t next = std::exchange(generator.next, generator.items.size());
  runtime.step(static_cast<std::int64_t>(generator.items.size() - next));
  return {generator.items.begin() + static_cast<std::ptrdiff_t>(next), generator.items.end()};
}

}  // namespace

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is(Kind::kSequence) ||
         value.is(Kind::kDict);
}

Items items_of(Runtime& runtime, const Value& value) {
  runtime.require(is_iterable(value), "a {} cannot be iterated over", value.type_name());
  // The copy lives no longer than a loop, so it costs steps but no bytes; single characters do.
  runtime.step(length_of(runtime, value).value_or(0));
  switch (value.kind()) {
    case Kind::kString:
      return characters_of(runtime, value.bytes());
    case Kind::kSequence:
      return value.is(Sequence::Form::kGenerator) ? rest_of_generator(runtime, value.sequence())
                                                  : value.items();
    case Kind::kDict:
      return keys_of(value.dict());
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
    case Kind::kSequence:
      if (value.is(Sequence::Form::kGenerator)) {
        return std::nullopt;
      }
      return static_cast<std::int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<std::int64_t>(value.dict().entries().size());
    case Kind::kLoop:
      return value.loop().length();
    default:
      return std::nullopt;
  }
}

}  // namespace nibble::jinja
