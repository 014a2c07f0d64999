#include "jinja/spell.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "characters/properties.h"
#include "characters/utf8.h"
#include "core/json.h"
#include "jinja/callable.h"

namespace nibble::jinja {
namespace {

// Shortest digits that read back as the same double: 1.0, 0.1, 1e+16.
std::string spell_float(double value, bool json) {
  if (!std::isfinite(value)) {
    const bool negative = std::signbit(value);
    return std::isnan(value) ? (json ? "NaN" : "nan")
           : json            ? (negative ? "-Infinity" : "Infinity")
                             : (negative ? "-inf" : "inf");
  }
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// A letter that stands behind a backslash in both forms, or 0.
char short_escape(char32_t c) {
  return c == U'\\' ? '\\' : c == U'\n' ? 'n' : c == U'\r' ? 'r' : c == U'\t' ? 't' : '\0';
}

std::string escape_for_python(char32_t c) {
  const auto code = static_cast<std::uint32_t>(c);
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

std::string escape_for_json(char32_t c) {
  const auto code = static_cast<std::uint32_t>(c);
  if (c == U'\f' || c == U'\b') {
    return c == U'\f' ? "\\f" : "\\b";
  }
  if (code < 0x10000) {
    return fmt::format("\\u{:04x}", code);
  }
  const std::uint32_t rest = code - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

class Speller {
 public:
  Speller(Runtime& runtime, const Spelling& spelling)
      : runtime_(runtime), spelling_(spelling), out_(runtime) {}

  Value run(const Value& value) {
    add(value, 0);
    return out_.value();
  }

 private:
  void add(const Value& value, int level) {
    runtime_.step();
    switch (value.kind()) {
      case Kind::kNone:
        out_.add(spelling_.json ? "null" : "None");
        return;
      case Kind::kBool:
        out_.add(value.truth() ? (spelling_.json ? "true" : "True")
                               : (spelling_.json ? "false" : "False"));
        return;
      case Kind::kInt:
        out_.add(fmt::format("{}", value.integral()));
        return;
      case Kind::kFloat:
        out_.add(spell_float(value.number(), spelling_.json));
        return;
      case Kind::kString:
        return add_text(value.bytes());
      case Kind::kSequence:
        return add_sequence(value, level);
      case Kind::kDict:
        return add_dict(value.dict(), level);
      default:
        runtime_.require(value.is_undefined() && !spelling_.json, "{}a {} has no such form",
                         spelling_.json ? "tojson: " : "", value.type_name());
        out_.add("Undefined");
    }
  }

  void add_text(std::string_view text) {
    const bool doubled = spelling_.json || (text.find('\'') != std::string_view::npos &&
                                            text.find('"') == std::string_view::npos);
    const std::string_view quote = doubled ? "\"" : "'";
    out_.add(quote);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t start = at;
      const char32_t c = characters::next_code_point(text, at);
      const bool shown = spelling_.json ? c >= 0x20 && !(spelling_.ensure_ascii && c > 0x7e)
                                        : characters::is_printable(c);
      if (const char letter = short_escape(c); letter != '\0') {
        out_.add("\\").add({&letter, 1});
      } else if (shown) {
        out_.add(text[start] == quote[0] ? "\\" : "").add(text.substr(start, at - start));
      } else {
        out_.add(spelling_.json ? escape_for_json(c) : escape_for_python(c));
      }
    }
    out_.add(quote);
  }

  // What stands before an item, or before the end of all items.
  void start_item(bool first, bool end, int level) {
    out_.add(first || end ? "" : spelling_.item_separator);
    if (spelling_.indent >= 0 && !(first && end)) {
      out_.add("\n").repeat(" ", spelling_.indent * level);
    }
  }

  void add_sequence(const Value& value, int level) {
    const bool tuple = value.is(Sequence::Form::kTuple);
    runtime_.require(tuple || value.is(Sequence::Form::kList),
                     "a {} cannot be printed; add |list before it", value.type_name());
    const bool round = tuple && !spelling_.json;
    out_.add(round ? "(" : "[");
    bool first = true;
    for (const Value& item : value.items()) {
      start_item(first, false, level + 1);
      add(item, level + 1);
      first = false;
    }
    start_item(first, true, level);
    out_.add(!round ? "]" : value.items().size() == 1 ? ",)" : ")");
  }

  void add_dict(const Dict& dict, int level) {
    out_.add("{");
    bool first = true;
    for (const Dict::Entry* entry : ordered(dict)) {
      start_item(first, false, level + 1);
      add_text(entry->key.bytes());
      out_.add(spelling_.key_separator);
      add(entry->value, level + 1);
      first = false;
    }
    start_item(first, true, level);
    out_.add("}");
  }

  std::vector<const Dict::Entry*> ordered(const Dict& dict) const {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) {
      entries.push_back(&entry);
    }
    if (spelling_.sort_keys) {
      std::sort(entries.begin(), entries.end(),
                [](const auto* a, const auto* b) { return a->key.bytes() < b->key.bytes(); });
    }
    return entries;
  }

  Runtime& runtime_;
  const Spelling& spelling_;
  TextBuilder out_;
};

}  // namespace

Value spell(Runtime& runtime, const Value& value, const Spelling& spelling) {
  return Speller(runtime, spelling).run(value);
}

Value to_text(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) {
    return Value::text("");
  }
  return value.is_string() ? value : spell(runtime, value, {});
}

void print_value(Runtime& runtime, TextBuilder& out, const Value& value) {
  const Value text = to_text(runtime, value);
  out.add(text.bytes());
}

}  // namespace nibble::jinja
