#include "jinja/print.h"

#include <cmath>

#include <fmt/format.h>

#include "characters/utf8.h"
#include "jinja/callable.h"
#include "jinja/character_classes.h"
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
    } else if (is_printable(c)) {
      out.add(text.substr(start, at - start));
    } else {
      out.add(escape_code_point(c));
    }
  }
  out.add({&quote, 1});
}

void print_items(Runtime& runtime, TextBuilder& out, const Items& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    out.add(i == 0 ? "" : ", ");
    print_repr(runtime, out, items[i]);
  }
}

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

void print_view(Runtime& runtime, TextBuilder& out, const DictView& view) {
  using Part = DictView::Part;
  out.add(view.part == Part::kKeys     ? "dict_keys(["
          : view.part == Part::kValues ? "dict_values(["
                                       : "dict_items([");
  bool first = true;
  for (const auto& [key, value] : view.dict->entries()) {
    out.add(first ? "" : ", ");
    first = false;
    out.add(view.part == Part::kItems ? "(" : "");
    if (view.part != Part::kValues) {
      print_repr(runtime, out, key);
    }
    out.add(view.part == Part::kItems ? ", " : "");
    if (view.part != Part::kKeys) {
      print_repr(runtime, out, value);
    }
    out.add(view.part == Part::kItems ? ")" : "");
  }
  out.add("])");
}

void print_range(TextBuilder& out, const Range& range) {
  out.add(fmt::format("range({}, {}", range.start, range.stop));
  out.add(range.step == 1 ? ")" : fmt::format(", {})", range.step));
}

void print_string(TextBuilder& out, const Value& value) {
  out.add(value.is_markup() ? "Markup(" : "");
  print_quoted(out, value.bytes());
  out.add(value.is_markup() ? ")" : "");
}

void print_sequence(Runtime& runtime, TextBuilder& out, const Value& value) {
  const bool tuple = value.is(Kind::kTuple);
  out.add(tuple ? "(" : "[");
  print_items(runtime, out, value.items());
  out.add(!tuple ? "]" : value.items().size() == 1 ? ",)" : ")");
}

void print_loop(TextBuilder& out, Loop& loop) {
  out.add(fmt::format("<LoopContext {}/{}>", loop.index0() + 1, loop.length()));
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

void print_repr(Runtime& runtime, TextBuilder& out, const Value& value) {
  runtime.step();
  switch (value.kind()) {
    case Kind::kUndefined:
      out.add("Undefined");
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
      return print_string(out, value);
    case Kind::kList:
    case Kind::kTuple:
      return print_sequence(runtime, out, value);
    case Kind::kDict:
      return print_dict(runtime, out, *value.dict());
    case Kind::kDictView:
      return print_view(runtime, out, value.view());
    case Kind::kRange:
      return print_range(out, value.range());
    case Kind::kLoop:
      return print_loop(out, value.loop());
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kFunction:
      runtime.fail("a {} has no text of its own{}", value.type_name(),
                   value.is(Kind::kGenerator) ? "; add |list to print its items" : "");
  }
}

void print_value(Runtime& runtime, TextBuilder& out, const Value& value) {
  if (value.is_string()) {
    out.add(value.bytes());
  } else if (!value.is_undefined()) {
    print_repr(runtime, out, value);
  }
}

Value to_text(Runtime& runtime, const Value& value) {
  if (value.is_string() && !value.is_markup()) {
    return value;
  }
  TextBuilder out(runtime);
  print_value(runtime, out, value);
  return out.value();
}

Value escape_markup(Runtime& runtime, const Value& value) {
  if (value.is_markup()) {
    return value;
  }
  const Value text = to_text(runtime, value);
  TextBuilder out(runtime);
  for (const char& byte : text.bytes()) {
    switch (byte) {
      case '&':
        out.add("&amp;");
        break;
      case '<':
        out.add("&lt;");
        break;
      case '>':
        out.add("&gt;");
        break;
      case '\'':
        out.add("&#39;");
        break;
      case '"':
        out.add("&#34;");
        break;
      default:
        out.add({&byte, 1});
    }
  }
  return out.value(true);
}

}  // namespace nibble::jinja
