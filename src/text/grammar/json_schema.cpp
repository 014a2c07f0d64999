#include "text/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/ordered_json.h"
#include "text/grammar/integer_range.h"
#include "text/grammar/json_rules.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/schema_place.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using Json = nlohmann::ordered_json;

constexpr std::array kKnown = {"$ref",
                               "additionalProperties",
                               "allOf",
                               "anyOf",
                               "const",
                               "enum",
                               "exclusiveMaximum",
                               "format",
                               "items",
                               "exclusiveMinimum",
                               "maxItems",
                               "maxLength",
                               "maximum",
                               "minItems",
                               "minLength",
                               "minimum",
                               "oneOf",
                               "pattern",
                               "prefixItems",
                               "properties",
                               "required",
                               "type"};
constexpr std::array kAnnotations = {
    "$anchor",     "$comment",   "$defs",       "$id",      "$schema",  "$vocabulary", "default",
    "definitions", "deprecated", "description", "examples", "readOnly", "title",       "writeOnly"};

template <typename List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

class Compiler {
 public:
  Compiler(GrammarBuilder& builder, const Json& document)
      : document_(document), pointers_(document), builder_(builder), json_(builder) {}

  GrammarSequence compile() { return schema(document_, {nullptr, "#"}); }

 private:
  [[noreturn]] static void refuse(const SchemaPlace& place, std::string_view what) {
    core::fail(ErrorKind::kUsage, "JSON schema, at {}: {}", core::printable(place.to_string()),
               what);
  }

  static const Json* find(const Json& node, const char* key) {
    const auto at = node.find(key);
    return at == node.end() ? nullptr : &*at;
  }

  static std::optional<std::int64_t> count(const Json& node, const char* key,
                                           const SchemaPlace& place) {
    const Json* value = find(node, key);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (!value->is_number_integer() || *value < 0 || *value > GrammarBuilder::kMaxRepeats) {
      refuse(place,
             fmt::format("{} must be an integer from 0 to {}", key, GrammarBuilder::kMaxRepeats));
    }
    return value->get<std::int64_t>();
  }

  GrammarSequence schema(const Json& node, const SchemaPlace& place) {
    if (depth_ == kMaxSchemaDepth) {
      refuse(place,
             fmt::format("more than {} schemas lie or refer in one another", kMaxSchemaDepth));
    }
    ++depth_;
    GrammarSequence result = schema_within(node, place);
    --depth_;
    return result;
  }

  GrammarSequence schema_within(const Json& node, const SchemaPlace& place) {
    if (node.is_boolean()) {
      if (!node.get<bool>()) {
        refuse(place, "false allows nothing");
      }
      return json_.value();
    }
    if (!node.is_object()) {
      refuse(place, "a schema is an object or true");
    }
    bool constrains = false;  // beside $ref
    for (const auto& [key, value] : node.items()) {
      const bool known = contains(kKnown, key);
      if (!known && !contains(kAnnotations, key)) {
        refuse(place, fmt::format("the keyword '{}' is not supported", core::printable(key)));
      }
      constrains = constrains || (known && key != "$ref");
    }
    if (const Json* target = find(node, "$ref")) {
      if (constrains || !target->is_string()) {
        refuse(place, "$ref must be text, and stand alone");
      }
      return reference(target->get<std::string>(), place);
    }
    return described(node, place);
  }

  GrammarSequence described(const Json& node, const SchemaPlace& place) {
    if (const Json* value = find(node, "const")) {
      return json_.literal(*value);
    }
    if (const Json* values = find(node, "enum")) {
      if (!values->is_array() || values->empty()) {
        refuse(place, "enum must be a list of values");
      }
      std::vector<GrammarSequence> all;
      for (const Json& value : *values) {
        all.push_back(json_.literal(value));
      }
      return builder_.any_of(all);
    }
    for (const char* key : {"anyOf", "oneOf", "allOf"}) {
      if (const Json* schemas = find(node, key)) {
        return combined(node, key, *schemas, place);
      }
    }
    const Json* type = find(node, "type");
    if (type == nullptr) {
      return typed(node, inferred_type(node), place);
    }
    if (type->is_string()) {
      return typed(node, type->get<std::string>(), place);
    }
    if (!type->is_array() || type->empty()) {
      refuse(place, "type must be a name or a list of names");
    }
    std::set<std::string> seen;
    std::vector<GrammarSequence> all;
    for (const Json& each : *type) {
      if (!each.is_string()) {
        refuse(place, "type must be a name or a list of names");
      }
      const std::string name = each.get<std::string>();
      if (!seen.insert(name).second) {
        refuse(place, fmt::format("the type '{}' stands twice", core::printable(name)));
      }
      all.push_back(typed(node, name, place));
    }
    return builder_.any_of(all);
  }

  GrammarSequence combined(const Json& node, const std::string& key, const Json& schemas,
                           const SchemaPlace& place) {
    for (const auto& [other, value] : node.items()) {
      if (other != key && contains(kKnown, other)) {
        refuse(place, fmt::format("{} beside {} is not supported", core::printable(other), key));
      }
    }
    if (!schemas.is_array() || schemas.empty()) {
      refuse(place, key + " must be a list of schemas");
    }
    if (key == "allOf" && schemas.size() > 1) {
      refuse(place, "allOf of more than one schema is not supported");
    }
    const SchemaPlace list = place / key;
    std::vector<GrammarSequence> all;
    for (std::size_t i = 0; i < schemas.size(); ++i) {
      all.push_back(schema(schemas[i], list / i));
    }
    return builder_.any_of(all);
  }

  static std::string inferred_type(const Json& node) {
    const std::pair<const char*, const char*> kinds[] = {
        {"properties", "object"},       {"additionalProperties", "object"},
        {"required", "object"},         {"items", "array"},
        {"prefixItems", "array"},       {"minItems", "array"},
        {"maxItems", "array"},          {"pattern", "string"},
        {"minLength", "string"},        {"maxLength", "string"},
        {"format", "string"},           {"minimum", "integer"},
        {"maximum", "integer"},         {"exclusiveMinimum", "integer"},
        {"exclusiveMaximum", "integer"}};
    for (const auto& [key, type] : kinds) {
      if (node.contains(key)) {
        return type;
      }
    }
    return "";
  }

  GrammarSequence typed(const Json& node, const std::string& type, const SchemaPlace& place) {
    if (type.empty()) {
      return json_.value();
    }
    if (type == "object") {
      return object(node, place);
    }
    if (type == "array") {
      return array(node, place);
    }
    if (type == "string") {
      return string(node, place);
    }
    if (type == "integer" || type == "number") {
      return number(node, type == "integer", place);
    }
    if (type == "boolean") {
      return json_.boolean();
    }
    if (type == "null") {
      return json_.null();
    }
    refuse(place, fmt::format("'{}' is no type", core::printable(type)));
  }

  GrammarSequence number(const Json& node, bool integer, const SchemaPlace& place) {
    const auto bound = [&](const char* key) -> std::optional<std::int64_t> {
      const Json* value = find(node, key);
      if (value == nullptr) {
        return std::nullopt;
      }
      if (!integer) {
        refuse(place, fmt::format("{} of numbers that are no integers is not supported", key));
      }
      if (!value->is_number_integer()) {
        refuse(place, fmt::format("{} must be an integer", key));
      }
      return std::clamp<std::int64_t>(value->get<std::int64_t>(), -kLargestInteger,
                                      kLargestInteger);
    };
    std::optional<std::int64_t> low = bound("minimum");
    std::optional<std::int64_t> high = bound("maximum");
    if (const auto value = bound("exclusiveMinimum")) {
      low = std::max(low.value_or(-kLargestInteger), *value + 1);
    }
    if (const auto value = bound("exclusiveMaximum")) {
      high = std::min(high.value_or(kLargestInteger), *value - 1);
    }
    if (!low && !high) {
      return integer ? json_.integer() : json_.number();
    }
    const std::int64_t least = low.value_or(-kLargestInteger);
    const std::int64_t most = high.value_or(kLargestInteger);
    if (least > most) {
      refuse(place, "no integer lies between its bounds");
    }
    return integer_range(builder_, least, most);
  }

  GrammarSequence string(const Json& node, const SchemaPlace& place) {
    GrammarSequence text;
    GrammarBuilder::append_text(text, "\"");
    if (const Json* pattern = find(node, "pattern")) {
      if (!pattern->is_string() || node.contains("minLength") || node.contains("maxLength")) {
        refuse(place, "pattern must be text, and stand without a length");
      }
      append(text, pattern_sequence(pattern->get<std::string>()));
    } else if (const std::string format = known_format(node); !format.empty()) {
      append(text, pattern_sequence(format));
    } else {
      const std::int64_t least = count(node, "minLength", place).value_or(0);
      const std::int64_t most = count(node, "maxLength", place).value_or(-1);
      if (most >= 0 && most < least) {
        refuse(place, "maxLength is below minLength");
      }
      append(text, builder_.repeated(json_.character(), least, most));
    }
    GrammarBuilder::append_text(text, "\"");
    return text;
  }

  // Unanchored ends match anything around them.
  GrammarSequence pattern_sequence(const std::string& pattern) {
    GrammarSequence result;
    const GrammarSequence anything = builder_.repeated(json_.character(), 0, -1);
    const bool starts = pattern.starts_with('^');
    const bool ends = pattern.ends_with('$') && !pattern.ends_with("\\$");
    if (!starts) {
      append(result, anything);
    }
    append(result, regex_sequence(builder_, pattern, append_json_class));
    if (!ends) {
      append(result, anything);
    }
    return result;
  }

  static std::string known_format(const Json& node) {
    const Json* format = find(node, "format");
    if (format == nullptr || !format->is_string()) {
      return "";
    }
    const std::string date = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
    const std::string time =
        "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-"
        "9])";
    if (*format == "date") {
      return "^" + date + "$";
    }
    if (*format == "time") {
      return "^" + time + "$";
    }
    if (*format == "date-time") {
      return "^" + date + "T" + time + "$";
    }
    if (*format == "uuid") {
      return "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";
    }
    return "";
  }

  GrammarSequence array(const Json& node, const SchemaPlace& place) {
    const std::int64_t least = count(node, "minItems", place).value_or(0);
    const std::int64_t most = count(node, "maxItems", place).value_or(-1);
    std::vector<GrammarSequence> front;
    if (const Json* schemas = find(node, "prefixItems")) {
      if (!schemas->is_array()) {
        refuse(place, "prefixItems must be a list of schemas");
      }
      const SchemaPlace list = place / "prefixItems";
      for (std::size_t i = 0; i < schemas->size(); ++i) {
        front.push_back(schema((*schemas)[i], list / i));
      }
    }
    const auto fixed = static_cast<std::int64_t>(front.size());
    const Json* items = find(node, "items");
    const bool more = (items == nullptr || *items != Json(false)) && (most < 0 || most > fixed);
    if ((most >= 0 && most < std::max(least, fixed)) || (!more && least > fixed)) {
      refuse(place, "no list has as many items as are asked for");
    }
    const GrammarSequence item = !more              ? GrammarSequence{}
                                 : items == nullptr ? json_.value()
                                                    : schema(*items, place / "items");
    return json_.list('[', ']', front, item, least, more ? most : fixed);
  }

  static std::set<std::string_view> required_names(const Json& node, const SchemaPlace& place) {
    std::set<std::string_view> required;
    if (const Json* names = find(node, "required")) {
      if (!names->is_array()) {
        refuse(place, "required must be a list of names");
      }
      for (const Json& name : *names) {
        if (!name.is_string()) {
          refuse(place, "required must be a list of names");
        }
        required.insert(name.get_ref<const std::string&>());
      }
    }
    return required;
  }

  GrammarSequence object(const Json& node, const SchemaPlace& place) {
    std::set<std::string_view> required = required_names(node, place);
    std::vector<JsonRules::Member> members;
    std::vector<std::string> names;
    if (const Json* properties = find(node, "properties")) {
      if (!properties->is_object()) {
        refuse(place, "properties must be an object of schemas");
      }
      const SchemaPlace list = place / "properties";
      for (const auto& [name, value] : properties->items()) {
        if (name.size() > kMaxNameBytes) {
          refuse(place, fmt::format("a property has a name of {} bytes; at most {} are taken",
                                    name.size(), kMaxNameBytes));
        }
        GrammarSequence member = json_.literal(Json(name));
        append(member, json_.colon());
        append(member, schema(value, list / name));
        members.push_back({member, required.erase(name) > 0});
        names.push_back(name);
      }
    }
    if (!required.empty()) {
      refuse(place,
             fmt::format("'{}' is required but no property", core::printable(*required.begin())));
    }
    const Json* rest = find(node, "additionalProperties");
    GrammarSequence other;
    if (rest == nullptr ? names.empty() : *rest != Json(false)) {
      other = json_.name_but(names);
      append(other, json_.colon());
      append(other,
             rest == nullptr ? json_.value() : schema(*rest, place / "additionalProperties"));
    }
    return json_.object(members, other);
  }

  // "#", "#/..." in this document; a rule for each, so that they may be recursive.
  GrammarSequence reference(const std::string& pointer, const SchemaPlace& place) {
    const auto known = references_.find(pointer);
    if (known != references_.end()) {
      return {GrammarElement::of_rule(known->second)};
    }
    if (pointer != "#" && !pointer.starts_with("#/")) {
      refuse(place, "$ref is known only within the document, as #/...");
    }
    const Json* target = pointers_.find(std::string_view(pointer).substr(1));
    if (target == nullptr) {
      refuse(place, fmt::format("$ref '{}' is not in the document", core::printable(pointer)));
    }
    const std::int32_t rule = builder_.add_rule(pointer);
    references_[pointer] = rule;
    builder_.add_alternative(rule, schema(*target, {nullptr, pointer}));
    return {GrammarElement::of_rule(rule)};
  }

  const Json& document_;
  SchemaPointers pointers_;
  GrammarBuilder& builder_;
  JsonRules json_;
  std::map<std::string, std::int32_t> references_;
  int depth_ = 0;
};

}  // namespace

GrammarSequence json_schema_sequence(GrammarBuilder& builder, const Json& schema) {
  return Compiler(builder, schema).compile();
}

std::shared_ptr<const Grammar> json_schema_grammar(const Json& schema) {
  GrammarBuilder builder;
  const std::int32_t root = builder.add_rule("root");
  builder.add_alternative(root, json_schema_sequence(builder, schema));
  return std::make_shared<const Grammar>(builder.build(root));
}

std::shared_ptr<const Grammar> json_grammar(bool only_objects) {
  GrammarBuilder builder;
  JsonRules json(builder);
  const std::int32_t root = builder.add_rule("root");
  builder.add_alternative(root, only_objects ? json.any_object() : json.value());
  return std::make_shared<const Grammar>(builder.build(root));
}

}  // namespace nibble::text
