#include <array>

#include "characters/case_mapping.h"
#include "characters/utf8.h"
#include "jinja/callable.h"
#include "jinja/iterate.h"
#include "jinja/spell.h"
#include "jinja/subscript.h"
#include "jinja/texts.h"

// The methods of str, and the filters on text, most of which are the same.
namespace nibble::jinja {
namespace {

// What the call works on: filters turn every value into text.
Value subject(const Call& call) {
  return to_text(call.runtime(), call.self());
}

template <std::string (*kMap)(std::string_view)>
Value mapped(Call& call) {
  return make_text(call.runtime(), kMap(subject(call).bytes()));
}

bool starts_words(char32_t c) {
  return is_space(c) || c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<';
}

// The filter, unlike str.title(): a word starts after white space or an opening bracket, not after
// any character that is no letter.
Value title_words(Call& call) {
  const Value text = subject(call);
  const std::string_view bytes = text.bytes();
  TextBuilder out(call.runtime());
  bool inside = false;
  std::size_t rest = 0;  // of the word, which is in lower case
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t start = at;
    const bool separates = starts_words(characters::next_code_point(bytes, at));
    if (!inside || separates) {
      const std::string_view letter = bytes.substr(start, at - start);
      out.add(rest < start ? characters::to_lower(bytes.substr(rest, start - rest)) : "");
      out.add(separates ? std::string(letter) : characters::to_upper(letter));
      rest = at;
    }
    inside = !separates;
  }
  return out.add(characters::to_lower(bytes.substr(rest))).value();
}

template <bool kLeft, bool kRight>
Value strip(Call& call) {
  const Value text = subject(call);
  return make_text(call.runtime(),
                   strip_text(call.runtime(), text.bytes(), call.find(0), kLeft, kRight));
}

Value replace(Call& call) {
  const Value text = subject(call);
  return replace_text(call.runtime(), text.bytes(), call.text(0), call.text(1),
                      call.integer(2, -1));
}

Value list_of_texts(const Call& call, const std::vector<std::string_view>& parts) {
  Items items;
  for (const std::string_view part : parts) {
    items.push_back(make_text(call.runtime(), part));
  }
  return make_sequence(call.runtime(), std::move(items));
}

Value split(Call& call) {
  const std::string_view text = call.self().bytes();
  const std::int64_t limit = call.integer(1, -1);
  if (call.find(0) == nullptr || call.at(0).is_none()) {
    return list_of_texts(call, split_words(call.runtime(), text, limit));
  }
  if (call.text(0).empty()) {
    call.fail("the separator is empty");
  }
  return list_of_texts(call, split_text(call.runtime(), text, call.text(0), limit));
}

Value splitlines(Call& call) {
  return list_of_texts(call, split_lines(call.runtime(), call.self().bytes()));
}

Value join_by_filter(Call& call) {
  Runtime& runtime = call.runtime();
  const Value separator = call.find(0) != nullptr ? to_text(runtime, call.at(0)) : Value::text("");
  TextBuilder out(runtime);
  bool first = true;
  for (const Value& item : items_of(runtime, call.self())) {
    out.add(std::exchange(first, false) ? std::string_view() : separator.bytes());
    print_value(runtime, out,
                call.find(1) != nullptr ? follow_path(runtime, item, call.text(1)) : item);
  }
  return out.value();
}

Value join_by_method(Call& call) {
  TextBuilder out(call.runtime());
  bool first = true;
  for (const Value& item : items_of(call.runtime(), call.at(0))) {
    if (!item.is_string()) {
      call.fail("needs strings to join, got a {}", item.type_name());
    }
    out.add(std::exchange(first, false) ? std::string_view() : call.self().bytes());
    out.add(item.bytes());
  }
  return out.value();
}

// startswith and endswith take one text or a tuple of them.
template <bool kAtEnd>
Value touches(Call& call) {
  const std::string_view text = call.self().bytes();
  const Items one = {call.at(0)};
  for (const Value& part : call.at(0).is(Sequence::Form::kTuple) ? call.at(0).items() : one) {
    if (!part.is_string()) {
      call.fail("needs a string, got a {}", part.type_name());
    }
    call.runtime().scan(part.bytes().size());
    if (kAtEnd ? text.ends_with(part.bytes()) : text.starts_with(part.bytes())) {
      return Value::boolean(true);
    }
  }
  return Value::boolean(false);
}

template <bool kAtEnd>
Value remove(Call& call) {
  std::string_view text = call.self().bytes();
  const std::string_view part = call.text(0);
  if (kAtEnd ? text.ends_with(part) : text.starts_with(part)) {
    text = text.substr(kAtEnd ? 0 : part.size(), text.size() - part.size());
  }
  return make_text(call.runtime(), text);
}

Value find(Call& call) {
  const std::string_view text = call.self().bytes();
  const std::size_t at = find_bytes(text, call.text(0));
  return Value::integer(
      at == std::string_view::npos ? -1 : characters::count_code_points(text.substr(0, at)));
}

Value count(Call& call) {
  if (call.text(0).empty()) {
    call.fail("the text to count is empty");
  }
  const auto parts = split_text(call.runtime(), call.self().bytes(), call.text(0), -1);
  return Value::integer(static_cast<Int>(parts.size()) - 1);
}

Value indent(Call& call) {
  if (!call.self().is_string()) {
    require_defined(call.runtime(), call.self());
    call.fail("needs a string, got a {}", call.self().type_name());
  }
  const std::int64_t width = call.integer(0, 4);
  const bool first_too = call.flag(1, false);
  const bool blank_lines_too = call.flag(2, false);
  const std::string text = call.self().bytes() + "\n";
  call.runtime().grow(text.size());
  TextBuilder out(call.runtime());
  bool first = true;
  for (const std::string_view line : split_lines(call.runtime(), text)) {
    const bool indented = first ? first_too : blank_lines_too || !line.empty();
    out.add(std::exchange(first, false) ? "" : "\n").repeat(" ", indented ? width : 0).add(line);
  }
  return out.value();
}

constexpr std::array<Builtin, 8> kTextFilters = {{
    {"capitalize", mapped<characters::to_capitalized>, 0, {}},
    {"indent", indent, 0, {"width", "first", "blank"}},
    {"join", join_by_filter, 0, {"d", "attribute"}},
    {"lower", mapped<characters::to_lower>, 0, {}},
    {"replace", replace, 2, {"old", "new", "count"}},
    {"title", title_words, 0, {}},
    {"trim", strip<true, true>, 0, {"chars"}},
    {"upper", mapped<characters::to_upper>, 0, {}},
}};

constexpr std::array<Builtin, 17> kTextMethods = {{
    {"capitalize", mapped<characters::to_capitalized>, 0, {}},
    {"count", count, 1, {"_text"}},
    {"endswith", touches<true>, 1, {"_suffix"}},
    {"find", find, 1, {"_text"}},
    {"join", join_by_method, 1, {"_texts"}},
    {"lower", mapped<characters::to_lower>, 0, {}},
    {"lstrip", strip<true, false>, 0, {"_characters"}},
    {"removeprefix", remove<false>, 1, {"_prefix"}},
    {"removesuffix", remove<true>, 1, {"_suffix"}},
    {"replace", replace, 2, {"_from", "_to", "_count"}},
    {"rstrip", strip<false, true>, 0, {"_characters"}},
    {"split", split, 0, {"sep", "maxsplit"}},
    {"splitlines", splitlines, 0, {}},
    {"startswith", touches<false>, 1, {"_prefix"}},
    {"strip", strip<true, true>, 0, {"_characters"}},
    {"title", mapped<characters::to_title>, 0, {}},
    {"upper", mapped<characters::to_upper>, 0, {}},
}};

}  // namespace

std::span<const Builtin> text_filters() {
  return kTextFilters;
}

std::span<const Builtin> text_methods() {
  return kTextMethods;
}

}  // namespace nibble::jinja
