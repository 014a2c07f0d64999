#include <array>

#include "text/json_fields.h"
#include "text/part_table.h"
#include "text/pretokenize/pre_tokenizer.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using core::Json;

SplitBehavior behavior_from_name(std::string_view name, std::string_view what) {
  struct Entry {
    std::string_view name;
    SplitBehavior behavior;
  };
  constexpr std::array kBehaviors = {
      Entry{"Removed", SplitBehavior::kRemoved},
      Entry{"Isolated", SplitBehavior::kIsolated},
      Entry{"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      Entry{"MergedWithNext", SplitBehavior::kMergedWithNext},
      Entry{"Contiguous", SplitBehavior::kContiguous},
  };
  for (const Entry& entry : kBehaviors) {
    if (entry.name == name) {
      return entry.behavior;
    }
  }
  core::fail(ErrorKind::kInvalidModel, "{}: unknown behavior '{}'", what, core::printable(name));
}

PreTokenizerPtr read_sequence(const Json& json, std::string_view what) {
  std::vector<PreTokenizerPtr> steps;
  for (const Json& step : part_list(json, "pretokenizers", what)) {
    steps.push_back(pre_tokenizer_from_json(step, what));
  }
  std::erase(steps, nullptr);
  return make_pre_tokenizer_sequence(std::move(steps));
}

PreTokenizerPtr read_split(const Json& json, std::string_view what) {
  PatternField pattern = get_pattern(json, what);
  const SplitBehavior behavior = behavior_from_name(core::get_string(json, "behavior", what), what);
  const bool invert = get_bool(json, "invert", what);
  if (pattern.is_regex || pattern.text.empty()) {
    return make_split_regex(pattern.text, behavior, invert, what);
  }
  return make_split_string(std::move(pattern.text), behavior, invert);
}

PreTokenizerPtr read_byte_level(const Json& json, std::string_view what) {
  return make_byte_level(get_bool(json, "add_prefix_space", what),
                         core::find_bool(json, "use_regex", what).value_or(true));
}

PrependScheme read_prepend_scheme(const Json& json, std::string_view what) {
  const auto add_prefix_space = core::find_bool(json, "add_prefix_space", what);
  const auto name = core::find_string(json, "prepend_scheme", what);
  if (!name) {
    return add_prefix_space.value_or(true) ? PrependScheme::kAlways : PrependScheme::kNever;
  }
  core::require(*name == "first" || *name == "never" || *name == "always", ErrorKind::kInvalidModel,
                "{}: unknown prepend_scheme '{}'", what, core::printable(*name));
  core::require(add_prefix_space.value_or(true) || *name == "never", ErrorKind::kInvalidModel,
                "{}: prepend_scheme '{}' contradicts add_prefix_space false", what, *name);
  return *name == "first" ? PrependScheme::kFirst
                          : (*name == "never" ? PrependScheme::kNever : PrependScheme::kAlways);
}

PreTokenizerPtr read_metaspace(const Json& json, std::string_view what) {
  return make_metaspace(get_character(json, "replacement", what), read_prepend_scheme(json, what),
                        core::find_bool(json, "split", what).value_or(true));
}

PreTokenizerPtr read_punctuation(const Json& json, std::string_view what) {
  const auto name = core::find_string(json, "behavior", what);
  return make_punctuation(name ? behavior_from_name(*name, what) : SplitBehavior::kIsolated);
}

using Entry = PartReader<PreTokenizerPtr>;

constexpr Entry kPreTokenizers[] = {
    {"Sequence", read_sequence},
    {"Split", read_split},
    {"ByteLevel", read_byte_level},
    {"Metaspace", read_metaspace},
    {"BertPreTokenizer", [](const Json&, std::string_view) { return make_bert_pre_tokenizer(); }},
    {"Whitespace", [](const Json&, std::string_view) { return make_whitespace(); }},
    {"WhitespaceSplit", [](const Json&, std::string_view) { return make_whitespace_split(); }},
    {"Digits",
     [](const Json& json, std::string_view what) {
       return make_digits(get_bool(json, "individual_digits", what));
     }},
    {"Punctuation", read_punctuation},
};

}  // namespace

PreTokenizerPtr pre_tokenizer_from_json(const Json& json, std::string_view what) {
  if (json.is_null()) {
    return nullptr;
  }
  return read_part<PreTokenizerPtr>(kPreTokenizers, "pre-tokenizer", part_type(json, what), json,
                                    what);
}

}  // namespace nibble::text
