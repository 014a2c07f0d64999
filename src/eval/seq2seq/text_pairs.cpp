#include "eval/seq2seq/text_pairs.h"

#include <algorithm>

#include "characters/utf8.h"
#include "core/json.h"
#include "core/ordered_json.h"
#include "io/text_file.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;
using core::Json;

constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 32;
constexpr std::string_view kSpace = " \t\n\v\f\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

// A line of tabs.
TextPair pair_of_fields(std::string_view line, const std::string& where) {
  TextPair pair{where, {}, {}};
  std::vector<std::string> fields;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find('\t', at), line.size());
    fields.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  core::require(fields.size() >= 2, ErrorKind::kInvalidModel,
                "{}: no tab divides a source from its target", where);
  pair.source = std::move(fields.front());
  pair.targets.assign(std::make_move_iterator(fields.begin() + 1),
                      std::make_move_iterator(fields.end()));
  return pair;
}

// A text, or the texts of a list.
std::vector<std::string> texts_of(const Json& object, std::string_view key,
                                  const std::string& where) {
  const auto found = object.find(key);
  core::require(found != object.end(), ErrorKind::kInvalidModel, "{}: there is no '{}'", where,
                key);
  const Json list = found->is_array() ? *found : Json::array({*found});
  std::vector<std::string> texts;
  for (const Json& text : list) {
    core::require(text.is_string(), ErrorKind::kInvalidModel,
                  "{}: '{}' must be a text or a list of texts", where, key);
    texts.emplace_back(trimmed(text.get_ref<const std::string&>()));
  }
  core::require(!texts.empty(), ErrorKind::kInvalidModel, "{}: '{}' is empty", where, key);
  return texts;
}

TextPair pair_of_object(std::string_view line, const std::string& where) {
  const Json object = core::parse_json(line, where);
  core::require(object.is_object(), ErrorKind::kInvalidModel, "{}: expected a JSON object", where);
  TextPair pair{where, {}, texts_of(object, "target", where)};
  for (const std::string& sentence : texts_of(object, "source", where)) {
    pair.source += (pair.source.empty() ? "" : " ") + sentence;
  }
  return pair;
}

using ReadLine = TextPair (*)(std::string_view line, const std::string& where);

// Lines that are not empty.
std::vector<TextPair> read_lines(std::string_view text, const std::string& name, ReadLine read,
                                 std::size_t most) {
  std::vector<TextPair> pairs;
  std::int64_t number = 0;
  while (!text.empty() && pairs.size() < most) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    line = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
    if (!line.empty()) {
      pairs.push_back(read(line, fmt::format("{}, line {}", name, number)));
    }
  }
  return pairs;
}

std::vector<TextPair> read_dictionary(std::string_view text, const std::string& name,
                                      std::size_t most) {
  const core::OrderedJson entries = core::parse_ordered_json(text, name);
  core::require(entries.is_object(), ErrorKind::kInvalidModel, "{}: expected a JSON object", name);
  std::vector<TextPair> pairs;
  for (const auto& [source, target] : entries.items()) {
    const bool chosen = target.is_object() && target.contains("DEFAULT");
    const auto& said = chosen ? target.at("DEFAULT") : target;
    if (said.is_string() && pairs.size() < most) {
      pairs.push_back({fmt::format("{}, '{}'", name, source), source, {said.get<std::string>()}});
    }
  }
  return pairs;
}

}  // namespace

std::vector<TextPair> read_text_pairs(const std::filesystem::path& file, std::int64_t limit) {
  const std::string name = io::shown_text(file);
  const std::string kind = file.extension();
  const bool lines = kind == ".tsv" || kind == ".txt";
  core::require(lines || kind == ".jsonl" || kind == ".json", ErrorKind::kUsage,
                "{} is no file of pairs; its name must end in .tsv, .txt, .jsonl or .json", name);
  const std::string text = io::read_named_text(file, kMaxFileBytes);
  characters::require_utf8(text, name);
  const std::size_t most = limit > 0 ? static_cast<std::size_t>(limit) : SIZE_MAX;
  auto pairs = kind == ".json"
                   ? read_dictionary(text, name, most)
                   : read_lines(text, name, lines ? pair_of_fields : pair_of_object, most);
  core::require(!pairs.empty(), ErrorKind::kInvalidModel, "{} holds no pair of texts", name);
  return pairs;
}

}  // namespace nibble::eval
