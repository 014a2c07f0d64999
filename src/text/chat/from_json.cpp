#include <algorithm>

#include "text/chat/json_value.h"
#include "text/chat/limits.h"
#include "text/chat/utf8.h"

namespace nibble::text::chat {
namespace {

using Json = nlohmann::ordered_json;

Value text_from_json(const std::string& bytes) {
  core::require(is_valid_utf8(bytes), core::ErrorKind::kUsage,
                "chat messages: the text '{}' is not valid UTF-8", core::printable(bytes, 40));
  return Value::text(bytes);
}

Value convert(const Json& json, int depth) {
  core::require(depth <= kMaxValueDepth, core::ErrorKind::kUsage,
                "chat messages nest deeper than {} levels", kMaxValueDepth);
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
      return text_from_json(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      auto sequence = std::make_shared<Sequence>();
      for (const Json& element : json) {
        sequence->items.push_back(convert(element, depth + 1));
        sequence->depth = std::max(sequence->depth, 1 + sequence->items.back().depth());
      }
      return Value(Value::Storage(List{std::move(sequence)}));
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, element] : json.items()) {
        dict->set(text_from_json(key), convert(element, depth + 1));
      }
      return Value(Value::Storage(std::shared_ptr<const Dict>(std::move(dict))));
    }
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return Value();
}

}  // namespace

Value from_json(const Json& json) {
  return convert(json, 1);
}

std::int64_t json_bytes(const Json& json) {
  constexpr std::int64_t kPerValue = 16;
  if (json.is_string()) {
    return kPerValue + static_cast<std::int64_t>(json.get_ref<const std::string&>().size());
  }
  std::int64_t bytes = kPerValue;
  for (const auto& [key, element] : json.items()) {
    bytes += (json.is_object() ? static_cast<std::int64_t>(key.size()) : 0) + json_bytes(element);
  }
  return bytes;
}

}  // namespace nibble::text::chat
