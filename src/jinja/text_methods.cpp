#include <algorithm>
#include <array>

#include "characters/case_mapping.h"
#include "characters/utf8.h"
#include "jinja/arithmetic.h"
#include "jinja/compare.h"
#include "jinja/format.h"
#include "jinja/iterate.h"
#include "jinja/methods.h"
#include "jinja/print.h"
#include "jinja/texts.h"
#include "jinja/white_space.h"

namespace nibble::jinja {
namespace {

std::string_view self_text(const Call& call) {
  return call.self().bytes();
}

/// A result of a method on `self`: markup stays markup.
Value same_mark(const Call& call, std::string_view text) {
  return make_text(call.runtime(), text, call.self().is_markup());
}

// Texts that come to a markup's method are escaped on their way in.
Value incoming(const Call& call, const Value& value) {
  return call.self().is_markup() ? escape_markup(call.runtime(), value) : value;
}

Value upper(Call& call) {
  return same_mark(call, characters::to_upper(self_text(call)));
}
Value lower(Call& call) {
  return same_mark(call, characters::to_lower(self_text(call)));
}
Value title(Call& call) {
  return same_mark(call, characters::to_title(self_text(call)));
}
Value capitalize(Call& call) {
  return same_mark(call, characters::to_capitalized(self_text(call)));
}

Value strip_ends(Call& call, bool left, bool right) {
  return same_mark(call, strip_text(call.runtime(), self_text(call), call.find(0), left, right));
}

Value strip(Call& call) {
  return strip_ends(call, true, true);
}
Value lstrip(Call& call) {
  return strip_ends(call, true, false);
}
Value rstrip(Call& call) {
  return strip_ends(call, false, true);
}

Value split_by(Call& call, bool from_right) {
  const std::int64_t limit = call.integer(1, -1);
  std::vector<std::string_view> parts;
  if (call.find(0) == nullptr || call.at(0).is_none()) {
    parts = from_right ? split_words_from_right(call.runtime(), self_text(call), limit)
                       : split_words(call.runtime(), self_text(call), limit);
  } else if (call.text(0).empty()) {
    call.fail("the separator is empty");
  } else {
    parts = from_right ? split_text_from_right(call.runtime(), self_text(call), call.text(0), limit)
                       : split_text(call.runtime(), self_text(call), call.text(0), limit);
  }
  return make_texts(call.runtime(), parts, call.self().is_markup());
}

Value split(Call& call) {
  return split_by(call, false);
}
Value rsplit(Call& call) {
  return split_by(call, true);
}

Value splitlines(Call& call) {
  return make_texts(call.runtime(),
                    split_lines(call.runtime(), self_text(call), call.flag(0, false)),
                    call.self().is_markup());
}

Value partition_at(Call& call, std::size_t at, bool rest_first) {
  const std::string_view text = self_text(call);
  const std::size_t length = call.text(0).size();
  const bool found = at != std::string_view::npos;
  const std::string_view before = found ? text.substr(0, at) : rest_first ? "" : text;
  const std::string_view after = found ? text.substr(at + length) : rest_first ? text : "";
  return make_tuple(call.runtime(),
                    {same_mark(call, before), same_mark(call, found ? call.text(0) : ""),
                     same_mark(call, after)});
}

Value partition(Call& call) {
  return partition_at(call, find_bytes(self_text(call), call.text(0)), false);
}

Value rpartition(Call& call) {
  return partition_at(call, find_last_bytes(self_text(call), call.text(0)), true);
}

Value replace(Call& call) {
  const Value to = incoming(call, call.at(1));
  if (!to.is_string()) {
    call.fail("needs a string to put in, got a {}", to.type_name());
  }
  return replace_text(call.runtime(), self_text(call), call.text(0), to.bytes(),
                      call.integer(2, -1), call.self().is_markup());
}

Value join(Call& call) {
  TextBuilder out(call.runtime());
  bool first = true;
  for (const Value& item : items_of(call.runtime(), call.at(0))) {
    const Value text = incoming(call, item);
    if (!text.is_string()) {
      call.fail("needs strings to join, got a {}", text.type_name());
    }
    out.add(first ? std::string_view() : self_text(call)).add(text.bytes());
    first = false;
  }
  return out.value(call.self().is_markup());
}

// startswith and endswith take one text or a tuple of them.
Value matches_any(Call& call, bool (*matches)(std::string_view, std::string_view)) {
  const Items one = {call.at(0)};
  const Items& candidates = call.at(0).is(Kind::kTuple) ? call.at(0).items() : one;
  for (const Value& candidate : candidates) {
    if (!candidate.is_string()) {
      call.fail("needs a string, got a {}", candidate.type_name());
    }
    call.runtime().scan(candidate.bytes().size());
    if (matches(self_text(call), candidate.bytes())) {
      return Value::boolean(true);
    }
  }
  return Value::boolean(false);
}

Value startswith(Call& call) {
  return matches_any(call, [](std::string_view text, std::string_view prefix) {
    return text.starts_with(prefix);
  });
}

Value endswith(Call& call) {
  return matches_any(
      call, [](std::string_view text, std::string_view suffix) { return text.ends_with(suffix); });
}

Value removeprefix(Call& call) {
  const bool has = self_text(call).starts_with(call.text(0));
  return same_mark(call, self_text(call).substr(has ? call.text(0).size() : 0));
}

Value removesuffix(Call& call) {
  const std::string_view text = self_text(call);
  const bool has = text.ends_with(call.text(0));
  return same_mark(call, text.substr(0, text.size() - (has ? call.text(0).size() : 0)));
}

Int place_of(std::string_view text, std::size_t at) {
  return at == std::string_view::npos ? -1 : Int{characters::count_code_points(text.substr(0, at))};
}

Value require_found(const Call& call, Int place) {
  if (place < 0) {
    call.fail("the text was not found");
  }
  return Value::integer(place);
}

Int find_first(const Call& call) {
  return place_of(self_text(call), find_bytes(self_text(call), call.text(0)));
}

Int find_last(const Call& call) {
  return place_of(self_text(call), find_last_bytes(self_text(call), call.text(0)));
}

Value find(Call& call) {
  return Value::integer(find_first(call));
}
Value rfind(Call& call) {
  return Value::integer(find_last(call));
}
Value index(Call& call) {
  return require_found(call, find_first(call));
}
Value rindex(Call& call) {
  return require_found(call, find_last(call));
}

Value count(Call& call) {
  if (call.text(0).empty()) {
    return Value::integer(characters::count_code_points(self_text(call)) + 1);
  }
  const auto parts = split_text(call.runtime(), self_text(call), call.text(0), -1);
  return Value::integer(static_cast<Int>(parts.size()) - 1);
}

Value pad(Call& call, bool left, bool right) {
  const std::string_view fill = call.find(1) != nullptr ? std::string_view(call.text(1)) : " ";
  if (characters::count_code_points(fill) != 1) {
    call.fail("needs one character to fill with");
  }
  const Int width = call.integer(0, 0);
  const Int length = characters::count_code_points(self_text(call));
  const Int missing = std::max<Int>(width - length, 0);
  // Where both sides are padded, an odd blank goes left exactly when the width is odd too.
  const Int before = !left ? 0 : !right ? missing : missing / 2 + (missing & width & 1);
  TextBuilder out(call.runtime());
  out.repeat(fill, before).add(self_text(call)).repeat(fill, right ? missing - before : 0);
  return out.value(call.self().is_markup());
}

Value ljust(Call& call) {
  return pad(call, false, true);
}
Value rjust(Call& call) {
  return pad(call, true, false);
}
Value center(Call& call) {
  return pad(call, true, true);
}

Value zfill(Call& call) {
  const std::string_view text = self_text(call);
  const bool sign = text.starts_with('-') || text.starts_with('+');
  TextBuilder out(call.runtime());
  out.add(text.substr(0, sign ? 1 : 0));
  out.repeat("0", Int{call.integer(0, 0)} - characters::count_code_points(text));
  out.add(text.substr(sign ? 1 : 0));
  return out.value(call.self().is_markup());
}

Value format(Call& call) {
  return format_braces(call.runtime(), call.self(), call.arguments());
}

constexpr std::array<Builtin, 28> kTextMethods = {{
    {"capitalize", capitalize, 0, {}},
    {"center", center, 1, {"_width", "_fill"}},
    {"count", count, 1, {"_text"}},
    {"endswith", endswith, 1, {"_suffix"}},
    {"find", find, 1, {"_text"}},
    {"format", format, kVariadic, {}},
    {"index", index, 1, {"_text"}},
    {"join", join, 1, {"_texts"}},
    {"ljust", ljust, 1, {"_width", "_fill"}},
    {"lower", lower, 0, {}},
    {"lstrip", lstrip, 0, {"_characters"}},
    {"partition", partition, 1, {"_separator"}},
    {"removeprefix", removeprefix, 1, {"_prefix"}},
    {"removesuffix", removesuffix, 1, {"_suffix"}},
    {"replace", replace, 2, {"_from", "_to", "_count"}},
    {"rfind", rfind, 1, {"_text"}},
    {"rindex", rindex, 1, {"_text"}},
    {"rjust", rjust, 1, {"_width", "_fill"}},
    {"rpartition", rpartition, 1, {"_separator"}},
    {"rsplit", rsplit, 0, {"sep", "maxsplit"}},
    {"rstrip", rstrip, 0, {"_characters"}},
    {"split", split, 0, {"sep", "maxsplit"}},
    {"splitlines", splitlines, 0, {"keepends"}},
    {"startswith", startswith, 1, {"_prefix"}},
    {"strip", strip, 0, {"_characters"}},
    {"title", title, 0, {}},
    {"upper", upper, 0, {}},
    {"zfill", zfill, 1, {"_width"}},
}};

}  // namespace

std::span<const Builtin> text_methods() {
  return kTextMethods;
}

}  // namespace nibble::jinja
