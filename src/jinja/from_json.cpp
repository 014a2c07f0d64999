#include "jinja/from_json.h"

#include <algorithm>

#include "characters/utf8.h"
#include "core/error.h"
#include "core/ordered_json.h"
#include "jinja/limits.h"

namespace nibble::jinja {
namespace {

using Json = nlohmann::ordered_json;

/// Converts one document and counts what its parts weigh.
class Converter {
 public:
  Value convert(const Json& json, int depth) {
    core::require(depth <= kMaxValueDepth, core::ErrorKind::kUsage,
                  "chat messages nest deeper than {} levels", kMaxValueDepth);
    bytes_ += kBytesPerValue;
    switch (json.type()) {
      case Json::value_t::boolean:
        return Value::boolean(json.get<bool>());
      case Json::value_t::number_integer:
        return Value::integer(json.get<std::int64_t>());
      case Json::value_t::number_unsigned:
        return Value::integer(json.get<std::uint64_t>());
      case Json::value_t::number_float:
        return Value::real(json.get<double>());
      case Json::value_t::string:
        return convert_text(json.get_ref<const std::string&>());
      case Json::value_t::array:
        return convert_array(json, depth);
      case Json::value_t::object:
        return convert_object(json, depth);
      case Json::value_t::null:
      case Json::value_t::binary:
      case Json::value_t::discarded:
        break;
    }
    return Value();
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kBytesPerValue = 16;

  Value convert_text(const std::string& text) {
    core::require(text.size() <= kMaxInputText, core::ErrorKind::kUsage,
                  "chat messages: a text of {} bytes, more than {}", text.size(), kMaxInputText);
    core::require(characters::is_valid_utf8(text), core::ErrorKind::kUsage,
                  "chat messages: the text '{}' is not valid UTF-8", core::printable(text, 40));
    bytes_ += static_cast<std::int64_t>(text.size());
    return Value::text(text);
  }

  Value convert_array(const Json& json, int depth) {
    Sequence sequence;
    for (const Json& element : json) {
      sequence.items.push_back(convert(element, depth + 1));
      sequence.depth = std::max(sequence.depth, 1 + sequence.items.back().depth());
    }
    return Value(Value::Storage(std::make_shared<const Sequence>(std::move(sequence))));
  }

  Value convert_object(const Json& json, int depth) {
    Dict dict;
    for (auto entry = json.begin(); entry != json.end(); ++entry) {
      dict.set(convert_text(entry.key()), convert(entry.value(), depth + 1));
    }
    return Value(Value::Storage(std::make_shared<const Dict>(std::move(dict))));
  }

  std::int64_t bytes_ = 0;
};

}  // namespace

Value from_json(const Json& json, std::int64_t& bytes) {
  Converter converter;
  Value value = converter.convert(json, 1);
  bytes += converter.bytes();
  return value;
}

}  // namespace nibble::jinja
