#include <array>

#include "characters/case_mapping.h"
#include "characters/utf8.h"
#include "jinja/character_classes.h"
#include "jinja/filters.h"
#include "jinja/format.h"
#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/subscript.h"
#include "jinja/texts.h"
#include "jinja/white_space.h"

namespace nibble::jinja {
namespace {

// Jinja's soft_str: str() of anything but a text, whose mark it keeps.
Value soft_text(const Call& call, const Value& value) {
  return value.is_string() ? value : to_text(call.runtime(), value);
}

Value marked_as(const Call& call, std::string_view text, const Value& model) {
  return make_text(call.runtime(), text, model.is_markup());
}

Value upper(Call& call) {
  const Value text = soft_text(call, call.self());
  return marked_as(call, characters::to_upper(text.bytes()), text);
}

Value lower(Call& call) {
  const Value text = soft_text(call, call.self());
  return marked_as(call, characters::to_lower(text.bytes()), text);
}

Value capitalize(Call& call) {
  const Value text = soft_text(call, call.self());
  return marked_as(call, characters::to_capitalized(text.bytes()), text);
}

bool starts_words(char32_t c) {
  return is_space(c) || c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<';
}

// Unlike str.title(): a word starts after white space or an opening bracket, not after any
// character that is no letter.
Value title(Call& call) {
  const Value text = to_text(call.runtime(), call.self());
  const std::string_view bytes = text.bytes();
  TextBuilder out(call.runtime());
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t start = at;
    std::size_t first_end = at;
    const bool separators = starts_words(characters::next_code_point(bytes, first_end));
    while (at < bytes.size()) {
      std::size_t next = at;
      if (starts_words(characters::next_code_point(bytes, next)) != separators) {
        break;
      }
      at = next;
    }
    out.add(characters::to_upper(bytes.substr(start, first_end - start)));
    out.add(characters::to_lower(bytes.substr(first_end, at - first_end)));
  }
  return out.value();
}

Value trim(Call& call) {
  const Value text = soft_text(call, call.self());
  return marked_as(call, strip_text(call.runtime(), text.bytes(), call.find(0), true, true), text);
}

Value replace(Call& call) {
  Runtime& runtime = call.runtime();
  const std::int64_t limit =
      call.find(2) == nullptr || call.at(2).is_none() ? -1 : call.integer(2, -1);
  const Value text = to_text(runtime, call.self());
  const Value from = to_text(runtime, call.at(0));
  const Value to = to_text(runtime, call.at(1));
  return replace_text(runtime, text.bytes(), from.bytes(), to.bytes(), limit, false);
}

Value join(Call& call) {
  Runtime& runtime = call.runtime();
  const Value separator = call.find(0) != nullptr ? to_text(runtime, call.at(0)) : Value::text("");
  const Value path = call.find(1) != nullptr ? call.at(1) : Value();
  TextBuilder out(runtime);
  bool first = true;
  for (const Value& item : items_of(runtime, call.self())) {
    out.add(first ? std::string_view() : separator.bytes());
    print_value(runtime, out, follow_path(runtime, item, path));
    first = false;
  }
  return out.value();
}

std::string indentation(const Call& call) {
  if (call.find(0) != nullptr && call.at(0).is_string()) {
    return call.at(0).bytes();
  }
  TextBuilder spaces(call.runtime());
  spaces.repeat(" ", call.integer(0, 4));
  return spaces.take();
}

Value indent(Call& call) {
  if (!call.self().is_string()) {
    require_defined(call.runtime(), call.self());
    call.fail("needs a string, got a {}", call.self().type_name());
  }
  const std::string margin = indentation(call);
  const bool blank_lines_too = call.flag(2, false);
  const std::string text = call.self().bytes() + "\n";
  call.runtime().grow(text.size());
  TextBuilder out(call.runtime());
  out.add(call.flag(1, false) ? margin : "");
  bool first = true;
  for (const std::string_view line : split_lines(call.runtime(), text, false)) {
    if (!first) {
      out.add("\n").add(blank_lines_too || !line.empty() ? margin : "");
    }
    out.add(line);
    first = false;
  }
  return out.value(call.self().is_markup());
}

Value safe(Call& call) {
  return make_text(call.runtime(), to_text(call.runtime(), call.self()).bytes(), true);
}

Value escape(Call& call) {
  return escape_markup(call.runtime(), call.self());
}

Value format(Call& call) {
  Runtime& runtime = call.runtime();
  const Arguments& arguments = call.arguments();
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    call.fail("takes values by position or by name, not both");
  }
  const Value text = soft_text(call, call.self());
  if (arguments.named.empty()) {
    return format_percent(runtime, text, make_tuple(runtime, arguments.positional));
  }
  Dict dict;
  for (const auto& [name, value] : arguments.named) {
    dict.set(make_text(runtime, name), value);
  }
  return format_percent(runtime, text, make_dict(runtime, std::move(dict)));
}

Value center(Call& call) {
  const Value text = soft_text(call, call.self());
  const Arguments arguments{{Value::integer(call.integer(0, 80))}, {}};
  return invoke(call.runtime(), *find_method(text, "center"), text, arguments);
}

Value truncate(Call& call) {
  const std::int64_t length = call.integer(0, 255);
  const bool cut_words = call.flag(1, false);
  const std::string end = call.find(2) != nullptr ? call.text(2) : "...";
  const std::int64_t leeway = call.integer(3, 5);
  const std::int64_t kept = length - characters::count_code_points(end);
  if (!call.self().is_string() || kept < 0 || leeway < 0) {
    call.fail("needs a string, a length of at least that of the end mark, and a leeway from 0");
  }
  const std::string_view text = call.self().bytes();
  if (characters::count_code_points(text) - leeway <= length) {
    return call.self();
  }
  const std::string_view start = text.substr(0, characters::byte_of_code_point(text, kept));
  const std::size_t last_space = cut_words ? std::string_view::npos : start.rfind(' ');
  TextBuilder out(call.runtime());
  return out.add(start.substr(0, last_space)).add(end).value();
}

Value wordcount(Call& call) {
  const Value text = soft_text(call, call.self());
  Int words = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.bytes().size();) {
    const char32_t c = characters::next_code_point(text.bytes(), at);
    const bool part = c == U'_' || is_alphabetic(c) || is_numeric(c);
    words += part && !in_word ? 1 : 0;
    in_word = part;
  }
  return Value::integer(words);
}

constexpr std::array<Builtin, 16> kTextFilters = {{
    {"capitalize", capitalize, 0, {}},
    {"center", center, 0, {"width"}},
    {"e", escape, 0, {}},
    {"escape", escape, 0, {}},
    {"format", format, kVariadic, {}},
    {"indent", indent, 0, {"width", "first", "blank"}},
    {"join", join, 0, {"d", "attribute"}},
    {"lower", lower, 0, {}},
    {"replace", replace, 2, {"old", "new", "count"}},
    {"safe", safe, 0, {}},
    {"title", title, 0, {}},
    {"trim", trim, 0, {"chars"}},
    {"truncate", truncate, 0, {"length", "killwords", "end", "leeway"}},
    {"upper", upper, 0, {}},
    {"wordcount", wordcount, 0, {}},
    {"forceescape", escape, 0, {}},
}};

}  // namespace

std::span<const Builtin> text_filters() {
  return kTextFilters;
}

}  // namespace nibble::jinja
