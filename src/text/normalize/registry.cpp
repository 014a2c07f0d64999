
#include "text/json_fields.h"
#include "text/normalize/normalizer.h"
#include "text/part_table.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using core::Json;

NormalizerPtr read_sequence(const Json& json, std::string_view what) {
  std::vector<NormalizerPtr> steps;
  for (const Json& step : part_list(json, "normalizers", what)) {
    steps.push_back(normalizer_from_json(step, what));
  }
  std::erase(steps, nullptr);
  return make_normalizer_sequence(std::move(steps));
}

NormalizerPtr read_replace(const Json& json, std::string_view what) {
  PatternField pattern = get_pattern(json, what);
  std::string content = get_replacement(json, what);
  if (pattern.is_regex) {
    return make_replace_regex(pattern.text, std::move(content), what);
  }
  core::require(!pattern.text.empty(), ErrorKind::kInvalidModel, "{}: 'pattern' is an empty string",
                what);
  return make_replace(std::move(pattern.text), std::move(content));
}

NormalizerPtr read_prepend(const Json& json, std::string_view what) {
  constexpr std::size_t kMaxBytes = 256;
  std::string prefix = core::get_string(json, "prepend", what);
  core::require(prefix.size() <= kMaxBytes, ErrorKind::kInvalidModel,
                "{}: 'prepend' has {} bytes, more than {}", what, prefix.size(), kMaxBytes);
  return make_prepend(std::move(prefix));
}

NormalizerPtr read_bert(const Json& json, std::string_view what) {
  BertNormalizerOptions options;
  options.clean_text = get_bool(json, "clean_text", what);
  options.handle_chinese_chars = get_bool(json, "handle_chinese_chars", what);
  options.lowercase = get_bool(json, "lowercase", what);
  options.strip_accents = core::find_bool(json, "strip_accents", what).value_or(options.lowercase);
  return make_bert_normalizer(options);
}

NormalizerPtr read_precompiled(const Json& json, std::string_view what) {
  const std::string encoded = core::get_string(json, "precompiled_charsmap", what);
  return make_precompiled(decode_base64(encoded, what), what);
}

using Entry = PartReader<NormalizerPtr>;

constexpr Entry kNormalizers[] = {
    {"Sequence", read_sequence},
    {"NFC", [](const Json&, std::string_view) { return make_unicode_form(UnicodeForm::kNfc); }},
    {"NFD", [](const Json&, std::string_view) { return make_unicode_form(UnicodeForm::kNfd); }},
    {"NFKC", [](const Json&, std::string_view) { return make_unicode_form(UnicodeForm::kNfkc); }},
    {"NFKD", [](const Json&, std::string_view) { return make_unicode_form(UnicodeForm::kNfkd); }},
    {"Lowercase", [](const Json&, std::string_view) { return make_lowercase(); }},
    {"StripAccents", [](const Json&, std::string_view) { return make_strip_accents(); }},
    {"Strip",
     [](const Json& json, std::string_view what) {
       return make_strip(get_bool(json, "strip_left", what), get_bool(json, "strip_right", what));
     }},
    {"Replace", read_replace},
    {"Prepend", read_prepend},
    {"BertNormalizer", read_bert},
    {"Nmt", [](const Json&, std::string_view) { return make_nmt(); }},
    {"ByteLevel", [](const Json&, std::string_view) { return make_byte_level_normalizer(); }},
    {"Precompiled", read_precompiled},
};

}  // namespace

NormalizerPtr normalizer_from_json(const Json& json, std::string_view what) {
  if (json.is_null()) {
    return nullptr;
  }
  return read_part<NormalizerPtr>(kNormalizers, "normalizer", part_type(json, what), json, what);
}

}  // namespace nibble::text
