#include <cmath>

#include "characters/utf8.h"
#include "jinja/compare.h"
#include "jinja/json_value.h"
#include "jinja/print.h"
#include "jinja/sort.h"

namespace nibble::jinja {
namespace {

std::string escape_utf16(char32_t c) {
  const auto code = static_cast<std::uint32_t>(c);
  if (code < 0x10000) {
    return fmt::format("\\u{:04x}", code);
  }
  const std::uint32_t rest = code - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

std::string_view short_escape(char32_t c) {
  switch (c) {
    case U'"':
      return "\\\"";
    case U'\\':
      return "\\\\";
    case U'\n':
      return "\\n";
    case U'\r':
      return "\\r";
    case U'\t':
      return "\\t";
    case U'\f':
      return "\\f";
    case U'\b':
      return "\\b";
    default:
      return {};
  }
}

std::string json_number(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  return spell_float(value);
}

class Dumper {
 public:
  Dumper(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style), out_(runtime) {}

  Value run(const Value& value) {
    dump(value, 0);
    return out_.value();
  }

 private:
  void dump(const Value& value, int level) {
    runtime_.step();
    switch (value.kind()) {
      case Kind::kNone:
        out_.add("null");
        return;
      case Kind::kBool:
        out_.add(value.truth() ? "true" : "false");
        return;
      case Kind::kInt:
        out_.add(fmt::format("{}", value.integral()));
        return;
      case Kind::kFloat:
        out_.add(json_number(value.number()));
        return;
      case Kind::kString:
        return dump_text(value.bytes());
      case Kind::kSequence:
        runtime_.require(value.is(Sequence::Form::kList) || value.is(Sequence::Form::kTuple),
                         "tojson: a {} has no JSON form", value.type_name());
        return dump_items(value.items(), level);
      case Kind::kDict:
        return dump_dict(value.dict(), level);
      default:
        runtime_.fail("tojson: a {} has no JSON form", value.type_name());
    }
  }

  void dump_text(std::string_view text) {
    out_.add("\"");
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t start = at;
      const char32_t c = characters::next_code_point(text, at);
      const std::string_view escape = short_escape(c);
      if (!escape.empty()) {
        out_.add(escape);
      } else if (c < 0x20 || (style_.ensure_ascii && c > 0x7e)) {
        out_.add(escape_utf16(c));
      } else {
        out_.add(text.substr(start, at - start));
      }
    }
    out_.add("\"");
  }

  void start_line(int level) {
    if (style_.indent >= 0) {
      out_.add("\n").repeat(" ", style_.indent * level);
    }
  }

  void dump_items(const Items& items, int level) {
    out_.add("[");
    bool first = true;
    for (const Value& item : items) {
      out_.add(std::exchange(first, false) ? "" : style_.item_separator);
      start_line(level + 1);
      dump(item, level + 1);
    }
    if (!items.empty()) {
      start_line(level);
    }
    out_.add("]");
  }

  void dump_dict(const Dict& dict, int level) {
    out_.add("{");
    bool first = true;
    for (const Dict::Entry* entry : ordered(dict)) {
      out_.add(std::exchange(first, false) ? "" : style_.item_separator);
      start_line(level + 1);
      dump_text(entry->key.bytes());
      out_.add(style_.key_separator);
      dump(entry->value, level + 1);
    }
    if (!first) {
      start_line(level);
    }
    out_.add("}");
  }

  std::vector<const Dict::Entry*> ordered(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) {
      entries.push_back(&entry);
    }
    if (style_.sort_keys) {
      merge_sort(entries,
                 [&](const auto* a, const auto* b) { return is_less(runtime_, a->key, b->key); });
    }
    return entries;
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder out_;
};

}  // namespace

Value dump_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  return Dumper(runtime, style).run(value);
}

}  // namespace nibble::jinja
