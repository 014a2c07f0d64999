#include "jinja/format.h"

#include <algorithm>
#include <cmath>

#include "jinja/format_spec.h"
#include "jinja/numbers.h"
#include "jinja/print.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
namespace {

constexpr double kIntLimit = 1e38;  // doubles below this convert to Int

Value quoted(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  print_repr(runtime, out, value);
  return out.value();
}

/// One pass over a printf-style format.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& text, const Value& values)
      : runtime_(runtime),
        format_(text.bytes()),
        markup_(text.is_markup()),
        values_(values),
        out_(runtime) {}

  Value run() {
    while (at_ < format_.size()) {
      const std::size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.add(format_.substr(at_, percent - at_));
      at_ = percent + 1;
      if (percent < format_.size()) {
        convert();
      }
    }
    const bool all_used = values_.is(Kind::kTuple) ? used_ == values_.items().size()
                                                   : used_ == 1 || values_.is(Kind::kDict);
    runtime_.require(all_used, "a '%' format has fewer places than values");
    return out_.value(markup_);
  }

 private:
  void convert() {
    const Value* named = take_name();
    FormatSpec spec;
    bool left = false;
    for (; sees("-+ #0"); ++at_) {
      left = left || format_[at_] == '-';
      spec.alternate = spec.alternate || format_[at_] == '#';
      spec.sign = format_[at_] == '+'                       ? '+'
                  : format_[at_] == ' ' && spec.sign == '-' ? ' '
                                                            : spec.sign;
      if (format_[at_] == '0') {
        spec.fill = "0";
        spec.align = '=';
      }
    }
    spec.width = parse_width(runtime_, format_, at_);
    if (sees(".")) {
      ++at_;
      spec.precision = parse_width(runtime_, format_, at_);
    }
    runtime_.require(at_ < format_.size(), "a '%' format is not complete");
    const char type = format_[at_++];
    if (type == '%') {
      out_.add("%");
      return;
    }
    const Value& value = named != nullptr ? *named : next_value();
    if (left) {
      spec.align = '<';
      spec.fill = " ";
    }
    put(value, type, spec);
  }

  bool sees(std::string_view characters) const {
    return at_ < format_.size() && characters.find(format_[at_]) != std::string_view::npos;
  }

  // The value of "(name)", null when the next value in turn is meant.
  const Value* take_name() {
    if (!sees("(")) {
      return nullptr;
    }
    const std::size_t close = format_.find(')', at_);
    runtime_.require(close != std::string_view::npos && values_.is(Kind::kDict),
                     "a '%(name)' format needs a closing bracket and a dict of values");
    const Value* value = values_.dict()->find(format_.substr(at_ + 1, close - at_ - 1));
    runtime_.require(value != nullptr, "a '%(name)' format names a value that is not given");
    at_ = close + 1;
    return value;
  }

  const Value& next_value() {
    const bool tuple = values_.is(Kind::kTuple);
    const std::size_t count = tuple ? values_.items().size() : 1;
    runtime_.require(used_ < count, "a '%' format has more places than values");
    return tuple ? values_.items()[used_++] : (++used_, values_);
  }

  void put(const Value& value, char type, FormatSpec spec) {
    if (type == 's' || type == 'r') {
      const Value shown = type == 'r' ? quoted(runtime_, value)
                          : markup_   ? escape_markup(runtime_, value)
                                      : to_text(runtime_, value);
      spec.align = spec.align == '<' ? '<' : '>';
      spec.fill = " ";
      spec.sign = '-';
      spec.alternate = false;
      out_.add(format_value(runtime_, shown, spec).bytes());
      return;
    }
    const bool whole = type == 'd' || type == 'i' || type == 'u';
    constexpr std::string_view kTypes = "diuxXoeEfFgG";
    runtime_.require(kTypes.find(type) != std::string_view::npos,
                     "the conversion '%{}' is not supported", core::printable({&type, 1}));
    require_defined(runtime_, value);
    runtime_.require(value.is_number(), "the conversion '%{}' needs a number, got a {}", type,
                     value.type_name());
    spec.type = whole ? 'd' : type;
    const bool truncate = whole && value.is(Kind::kFloat);
    runtime_.require(!truncate || std::fabs(value.number()) < kIntLimit,
                     "the conversion '%{}' needs a number that an integer can hold", type);
    const Value number = truncate ? Value::integer(static_cast<Int>(value.number())) : value;
    out_.add(format_value(runtime_, number, spec).bytes());
  }

  Runtime& runtime_;
  std::string_view format_;
  bool markup_;
  const Value& values_;
  TextBuilder out_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

/// One pass over a text with {} fields.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Value& text, const Arguments& arguments)
      : runtime_(runtime),
        format_(text.bytes()),
        markup_(text.is_markup()),
        arguments_(arguments),
        out_(runtime) {}

  Value run() {
    while (at_ < format_.size()) {
      const std::size_t brace = std::min(format_.find_first_of("{}", at_), format_.size());
      out_.add(format_.substr(at_, brace - at_));
      at_ = brace + 1;
      if (brace == format_.size()) {
        break;
      }
      if (at_ < format_.size() && format_[at_] == format_[brace]) {
        out_.add(format_.substr(at_++, 1));
        continue;
      }
      runtime_.require(format_[brace] == '{', "a format has a single '}}'");
      const std::size_t close = format_.find('}', at_);
      runtime_.require(close != std::string_view::npos, "a format has a '{{' without '}}'");
      put_field(format_.substr(at_, close - at_));
      at_ = close + 1;
    }
    return out_.value(markup_);
  }

 private:
  // name!conversion:specification
  void put_field(std::string_view field) {
    runtime_.require(field.find('{') == std::string_view::npos,
                     "fields inside of format fields are not supported");
    const std::size_t colon = std::min(field.find(':'), field.size());
    std::string_view path = field.substr(0, colon);
    const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : "";
    const std::size_t mark = path.find('!');
    const std::string_view conversion = mark == std::string_view::npos ? "" : path.substr(mark + 1);
    path = path.substr(0, mark);
    runtime_.require(conversion.empty() ? mark == std::string_view::npos
                                        : conversion == "r" || conversion == "s",
                     "a format field has an unknown conversion after '!'");
    const Value value = look_up(path);
    Value shown = conversion == "r" ? quoted(runtime_, value) : value;
    if (spec.empty() || conversion == "s") {
      shown = shown.is_string() ? shown : to_text(runtime_, shown);
    }
    if (!spec.empty()) {
      shown = format_value(runtime_, shown, parse_format_spec(runtime_, spec));
    }
    out_.add(markup_ && !value.is_markup() ? escape_markup(runtime_, shown).bytes()
                                           : shown.bytes());
  }

  Value look_up(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first_value(path.substr(0, end));
    path.remove_prefix(end);
    while (!path.empty()) {
      const bool attribute = path.front() == '.';
      runtime_.require(attribute || path.front() == '[', "a format field has a malformed name");
      path.remove_prefix(1);
      const std::size_t stop =
          std::min(attribute ? path.find_first_of(".[") : path.find(']'), path.size());
      runtime_.require(attribute || stop < path.size(), "a format field has a '[' without ']'");
      const std::string_view name = path.substr(0, stop);
      value =
          attribute ? attribute_of(runtime_, value, name) : item_of(runtime_, value, key_of(name));
      path.remove_prefix(attribute ? stop : stop + 1);
    }
    return value;
  }

  Value key_of(std::string_view name) {
    const bool digits =
        !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    const auto number = digits ? parse_integer(name, 10) : std::nullopt;
    return number.has_value() ? Value::integer(*number) : make_text(runtime_, name);
  }

  Value first_value(std::string_view name) {
    const Value key = name.empty() ? Value::integer(automatic_++) : key_of(name);
    if (key.is_integral()) {
      runtime_.require(key.integral() < static_cast<Int>(arguments_.positional.size()),
                       "a format has more places than values");
      return arguments_.positional[static_cast<std::size_t>(key.integral())];
    }
    const auto named = std::find_if(arguments_.named.begin(), arguments_.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    runtime_.require(named != arguments_.named.end(),
                     "a format names a value that is not given: '{}'", core::printable(name, 40));
    return named->second;
  }

  Runtime& runtime_;
  std::string_view format_;
  bool markup_;
  const Arguments& arguments_;
  TextBuilder out_;
  std::size_t at_ = 0;
  std::int64_t automatic_ = 0;
};

}  // namespace

Value format_percent(Runtime& runtime, const Value& text, const Value& values) {
  return PercentFormatter(runtime, text, values).run();
}

Value format_braces(Runtime& runtime, const Value& text, const Arguments& arguments) {
  return BraceFormatter(runtime, text, arguments).run();
}

}  // namespace nibble::jinja
