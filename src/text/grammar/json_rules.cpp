#include "text/grammar/json_rules.h"

#include <algorithm>

#include "characters/utf8.h"
#include "core/ordered_json.h"
#include "text/grammar/integer_range.h"

namespace nibble::text {
namespace {

using Json = nlohmann::ordered_json;
using Ranges = std::vector<CodePointRange>;

constexpr int kMostBlanks = 20;
constexpr int kMostDigits = 15;

// What stands in a string as it is.
const Ranges& plain() {
  static const Ranges ranges = complement({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}, {0x7f, 0x7f}});
  return ranges;
}

Ranges intersection(const Ranges& a, const Ranges& b) {
  Ranges outside = complement(a);
  const Ranges more = complement(b);
  outside.insert(outside.end(), more.begin(), more.end());
  return complement(std::move(outside));
}

GrammarSequence text(std::string_view bytes) {
  GrammarSequence sequence;
  GrammarBuilder::append_text(sequence, bytes);
  return sequence;
}

GrammarElement digit() {
  return GrammarElement::bytes('0', '9');
}

}  // namespace

void append_json_class(GrammarBuilder& builder, GrammarSequence& sequence,
                       const std::vector<CodePointRange>& ranges) {
  std::vector<GrammarSequence> all;
  const Ranges as_they_are = intersection(ranges, plain());
  if (!as_they_are.empty()) {
    builder.append_class(all.emplace_back(), as_they_are);
  }
  for (const CodePointRange& range : intersection(ranges, complement(plain()))) {
    for (std::uint32_t point = range.low; point <= range.high; ++point) {
      const std::string quoted = Json(std::string(1, static_cast<char>(point))).dump();
      const std::string escaped = point == 0x7f ? "\\u007f" : quoted.substr(1, quoted.size() - 2);
      all.push_back(text(escaped));
    }
  }
  append(sequence, builder.any_of(all));
}

// The rule stands before it is made: it may be recursive.
GrammarSequence JsonRules::once(std::optional<std::int32_t>& rule,
                                GrammarSequence (JsonRules::*make)()) {
  if (!rule) {
    rule = builder_.add_rule();
    builder_.add_alternative(*rule, (this->*make)());
  }
  return {GrammarElement::of_rule(*rule)};
}

GrammarSequence JsonRules::value() {
  return once(value_, &JsonRules::make_value);
}
GrammarSequence JsonRules::any_object() {
  return once(any_object_, &JsonRules::make_any_object);
}
GrammarSequence JsonRules::number() {
  return once(number_, &JsonRules::make_number);
}
GrammarSequence JsonRules::character() {
  return once(character_, &JsonRules::make_character);
}
GrammarSequence JsonRules::space() {
  return once(space_, &JsonRules::make_space);
}

GrammarSequence JsonRules::make_value() {
  return builder_.any_of(
      {any_object(), list('[', ']', {}, value(), 0, -1), string(), number(), boolean(), null()});
}

GrammarSequence JsonRules::make_any_object() {
  GrammarSequence member = string();
  append(member, colon());
  append(member, value());
  return object({}, member);
}

GrammarSequence JsonRules::boolean() {
  return builder_.any_of({text("true"), text("false")});
}

GrammarSequence JsonRules::null() {
  return text("null");
}

GrammarSequence JsonRules::integer() {
  return integer_range(builder_, -kLargestInteger, kLargestInteger);
}

GrammarSequence JsonRules::make_number() {
  GrammarSequence result = builder_.repeated(text("-"), 0, 1);
  GrammarSequence whole = {GrammarElement::bytes('1', '9')};
  append(whole, builder_.repeated({digit()}, 0, kMostDigits));
  append(result, builder_.any_of({text("0"), whole}));
  GrammarSequence fraction = text(".");
  append(fraction, builder_.repeated({digit()}, 1, kMostDigits));
  append(result, builder_.repeated(fraction, 0, 1));
  GrammarSequence exponent = builder_.any_of({text("e"), text("E")});
  append(exponent, builder_.repeated(builder_.any_of({text("+"), text("-")}), 0, 1));
  append(exponent, builder_.repeated({digit()}, 1, 2));  // within the range of a double
  append(result, builder_.repeated(exponent, 0, 1));
  return result;
}

GrammarSequence JsonRules::make_character() {
  const auto one_of = [&](const Ranges& ranges) {
    GrammarSequence sequence;
    builder_.append_class(sequence, ranges);
    return sequence;
  };
  const GrammarSequence hex = one_of({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  // "\uHHHH", and two of them for what lies beyond: surrogates stand in pairs only.
  const auto unicode = [&](const Ranges& first, const Ranges& second) {
    GrammarSequence sequence = text("u");
    append(sequence, one_of(first));
    append(sequence, one_of(second));
    append(sequence, hex);
    append(sequence, hex);
    return sequence;
  };
  const Ranges d = {{'D', 'D'}, {'d', 'd'}};
  GrammarSequence pair = unicode(d, {{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  append(pair, text("\\"));
  append(pair, unicode(d, {{'C', 'F'}, {'c', 'f'}}));
  std::vector<GrammarSequence> kinds = {
      unicode({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}},
              {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}),
      unicode(d, {{'0', '7'}}), pair};
  for (const char c : std::string_view("\"\\/bfnrt")) {
    kinds.push_back(text(std::string(1, c)));
  }
  GrammarSequence escaped = text("\\");
  append(escaped, builder_.any_of(kinds));
  return builder_.any_of({one_of(plain()), escaped});
}

GrammarSequence JsonRules::make_space() {
  GrammarSequence line = text("\n");
  append(line, builder_.repeated(builder_.any_of({text(" "), text("\t")}), 0, kMostBlanks));
  return builder_.any_of({{}, text(" "), line});
}

GrammarSequence JsonRules::string() {
  GrammarSequence result = text("\"");
  append(result, builder_.repeated(character(), 0, -1));
  append(result, text("\""));
  return result;
}

// Names in order, of which those in [begin, end) agree in the characters before `at`.
struct JsonRules::NameBranch {
  const std::vector<std::u32string>& names;
  std::size_t begin;
  std::size_t end;
  std::size_t at;
};

// Along a tree of the names: where a text leaves it, anything may follow.
GrammarSequence JsonRules::behind(const NameBranch& branch, const GrammarSequence& rest) {
  const auto& [names, begin, end, at] = branch;
  std::size_t first = begin;
  while (first < end && names[first].size() == at) {
    ++first;
  }
  std::vector<GrammarSequence> all;
  Ranges taken;
  for (std::size_t last = first; first < end; first = last) {
    const char32_t character_of_name = names[first][at];
    while (last < end && names[last][at] == character_of_name) {
      ++last;
    }
    const CodePointRange one{character_of_name, character_of_name};
    taken.push_back(one);
    GrammarSequence along;
    append_json_class(builder_, along, {one});
    append(along, behind({names, first, last, at + 1}, rest));
    all.push_back(std::move(along));
  }
  GrammarSequence away;
  append_json_class(builder_, away, complement(taken));
  append(away, rest);
  all.push_back(std::move(away));
  const bool is_name = begin < end && names[begin].size() == at;
  if (!is_name) {
    all.push_back(text("\""));
  }
  return builder_.any_of(all);
}

GrammarSequence JsonRules::name_but(const std::vector<std::string>& names) {
  if (names.empty()) {
    return string();
  }
  GrammarSequence rest = builder_.repeated(character(), 0, -1);
  append(rest, text("\""));
  std::vector<std::u32string> points;
  for (const std::string& name : names) {
    std::u32string& to = points.emplace_back();
    for (std::size_t at = 0; at < name.size();) {
      const characters::CodePoint point = characters::decode_utf8(name, at);
      to += point.value;
      at += point.bytes;
    }
  }
  std::sort(points.begin(), points.end());
  GrammarSequence result = text("\"");
  append(result, behind({points, 0, points.size(), 0}, rest));
  return result;
}

GrammarSequence JsonRules::colon() {
  GrammarSequence result = space();
  append(result, text(":"));
  append(result, space());
  return result;
}

GrammarSequence JsonRules::comma() {
  GrammarSequence result = space();
  append(result, text(","));
  append(result, space());
  return result;
}

GrammarSequence JsonRules::literal(const Json& value) {
  return text(value.dump());
}

GrammarSequence JsonRules::list(char open, char close, const std::vector<GrammarSequence>& front,
                                const GrammarSequence& item, std::int64_t least,
                                std::int64_t most) {
  const auto fixed = static_cast<std::int64_t>(front.size());
  const auto with_comma = [&](const GrammarSequence& what) {
    GrammarSequence sequence = comma();
    append(sequence, what);
    return sequence;
  };
  // What may stand behind so many items, from the last ones on.
  GrammarSequence rest;
  std::int64_t begin = std::max<std::int64_t>(fixed, 1);
  if (most < 0 || most > begin) {
    rest = builder_.repeated(with_comma(item), std::max<std::int64_t>(0, least - begin),
                             most < 0 ? -1 : most - begin);
  }
  for (std::int64_t i = fixed - 1; i >= 1; --i) {
    GrammarSequence more = with_comma(front[static_cast<std::size_t>(i)]);
    append(more, rest);
    rest = i >= least ? builder_.any_of({more, {}}) : builder_.any_of({more});
  }
  GrammarSequence items = space();
  if (most != 0) {
    append(items, fixed > 0 ? front.front() : item);
    append(items, rest);
    append(items, space());
  }
  GrammarSequence result = text(std::string(1, open));
  append(result, least == 0 && most != 0 ? builder_.any_of({items, space()}) : items);
  append(result, text(std::string(1, close)));
  return result;
}

GrammarSequence JsonRules::object(const std::vector<Member>& members,
                                  const GrammarSequence& other) {
  const auto with_comma = [&](const GrammarSequence& what) {
    GrammarSequence sequence = comma();
    append(sequence, what);
    return sequence;
  };
  // What may stand from member i on, when something stands before it already, and when nothing
  // does.
  GrammarSequence later =
      other.empty() ? GrammarSequence{} : builder_.repeated(with_comma(other), 0, -1);
  GrammarSequence first;
  if (!other.empty()) {
    GrammarSequence some = other;
    append(some, later);
    first = builder_.any_of({some, {}});
  }
  // Something must stand before whatever follows a required member.
  const auto required = std::find_if(members.begin(), members.end(),
                                     [](const Member& member) { return member.required; });
  const auto may_be_first = static_cast<std::size_t>(required - members.begin());
  for (std::size_t i = members.size(); i-- > 0;) {
    const GrammarSequence member = builder_.any_of({members[i].text});
    if (i <= may_be_first) {
      GrammarSequence begun = member;
      append(begun, later);
      first = members[i].required ? begun : builder_.any_of({begun, first});
    }
    GrammarSequence more = with_comma(member);
    append(more, later);
    later = members[i].required ? builder_.any_of({more}) : builder_.any_of({more, later});
  }
  GrammarSequence result = text("{");
  append(result, space());
  append(result, first);
  append(result, space());
  append(result, text("}"));
  return result;
}

}  // namespace nibble::text
