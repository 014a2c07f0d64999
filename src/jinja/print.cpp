#include "jinja/print.h"

#include <cmath>

#include <fmt/format.h>

#include "characters/properties.h"
#include "characters/utf8.h"
#include "jinja/callable.h"
#include "jinja/loop.h"

namespace nibble::jinja {
namespace {

std::string escape_code_point(char32_t c) {
  const auto code = static_cast<std::uint32_t>(c);
  if (code < 0x100) {
    return fmt::format("\\x{:02x}", code);
  }
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

void print_quoted(TextBuilder& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.add({&quote, 1});
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = characters::next_code_point(text, at);
    if (c == static_cast<char32_t>(quote) || c == U'\\') {
      out.add("\\").add(text.substr(start, 1));
    } else if (c == U'\n') {
      out.add("\\n");
    } else if (c == U'\r') {
      out.add("\\r");
    } else if (c == U'\t') {
      out.add("\\t");
    } else if (characters::is_printable(c)) {
      out.add(text.substr(start, at - start));
    } else {
      out.add(escape_code_point(c));
    }
  }
  out.add({&quote, 1});
}

void print_repr(Runtime& runtime, TextBuilder& out, const Value& value);

void print_dict(Runtime& runtime, TextBuilder& out, const Dict& dict) {
  out.add("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    out.add(first ? "" : ", ");
    first = false;
    print_repr(runtime, out, key);
    out.add(": ");
    print_repr(runtime, out, value);
  }
  out.add("}");
}

void print_sequence(Runtime& runtime, TextBuilder& out, const Value& value) {
  const bool tuple = value.is(Sequence::Form::kTuple);
  runtime.require(tuple || value.is(Sequence::Form::kList),
                  "a {} cannot be printed; add |list before it", value.type_name());
  out.add(tuple ? "(" : "[");
  bool first = true;
  for (const Value& item : value.items()) {
    out.add(first ? "" : ", ");
    first = false;
    print_repr(runtime, out, item);
  }
  out.add(!tuple ? "]" : value.items().size() == 1 ? ",)" : ")");
}

// repr(value): how a value looks inside a list.
void print_repr(Runtime& runtime, TextBuilder& out, const Value& value) {
  runtime.step();
  switch (value.kind()) {
    case Kind::kUndefined:
      out.add("Undefined");
      return;
    case Kind::kString:
      return print_quoted(out, value.bytes());
    case Kind::kSequence:
      return print_sequence(runtime, out, value);
    case Kind::kDict:
      return print_dict(runtime, out, value.dict());
    default:
      print_value(runtime, out, value);
  }
}

}  // namespace

std::string spell_float(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) {
    text += ".0";
  }
  return text;
}

void print_value(Runtime& runtime, TextBuilder& out, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return;
    case Kind::kNone:
      out.add("None");
      return;
    case Kind::kBool:
      out.add(value.truth() ? "True" : "False");
      return;
    case Kind::kInt:
      out.add(fmt::format("{}", value.integral()));
      return;
    case Kind::kFloat:
      out.add(spell_float(value.number()));
      return;
    case Kind::kString:
      out.add(value.bytes());
      return;
    case Kind::kSequence:
    case Kind::kDict:
      return print_repr(runtime, out, value);
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kLoop:
      runtime.fail("a {} cannot be printed", value.type_name());
  }
}

Value to_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) {
    return value;
  }
  TextBuilder out(runtime);
  print_value(runtime, out, value);
  return out.value();
}

}  // namespace nibble::jinja
