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
      : runtime_(runtime), style_(style), out_(runtime) {
    if (style.indent != nullptr && !style.indent->is_none()) {
      multiline_ = true;
      indent_ = indent_unit(*style.indent);
    }
    item_separator_ = separator(style.item_separator, multiline_ ? "," : ", ");
    key_separator_ = separator(style.key_separator, ": ");
  }

  Value run(const Value& value) {
    dump(value, 0);
    return out_.value();
  }

 private:
  std::string indent_unit(const Value& indent) {
    if (indent.is_string()) {
      return indent.bytes();
    }
    runtime_.require(indent.is_integral(), "tojson: indent must be a number or a string");
    TextBuilder spaces(runtime_);
    spaces.repeat(" ", indent.integral());
    return spaces.take();
  }

  std::string separator(const Value* value, std::string_view fallback) {
    if (value == nullptr) {
      return std::string(fallback);
    }
    runtime_.require(value->is_string(), "tojson: separators must be two strings");
    return value->bytes();
  }

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
      case Kind::kList:
      case Kind::kTuple:
        return dump_items(value.items(), level);
      case Kind::kDict:
        return dump_dict(*value.dict(), level);
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
    if (multiline_) {
      out_.add("\n").repeat(indent_, level);
    }
  }

  void dump_items(const Items& items, int level) {
    out_.add("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      out_.add(i == 0 ? "" : item_separator_);
      start_line(level + 1);
      dump(items[i], level + 1);
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
      out_.add(first ? "" : item_separator_);
      first = false;
      start_line(level + 1);
      dump_key(entry->key);
      out_.add(key_separator_);
      dump(entry->value, level + 1);
    }
    if (!first) {
      start_line(level);
    }
    out_.add("}");
  }

  void dump_key(const Value& key) {
    if (key.is_string()) {
      dump_text(key.bytes());
      return;
    }
    out_.add("\"");
    dump(key, 0);
    out_.add("\"");
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
  bool multiline_ = false;
  std::string indent_;
  std::string item_separator_;
  std::string key_separator_;
};

}  // namespace

Value dump_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  return Dumper(runtime, style).run(value);
}

}  // namespace nibble::jinja
