#include "serve/log_probabilities.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "characters/utf8.h"
#include "core/ordered_json.h"

namespace nibble::serve {
namespace {

constexpr double kLeast = -9999.0;

// At most so many: a record may have been made for a field that wants more.
std::span<const engine::TokenChance> first(std::span<const engine::TokenChance> chances,
                                           int count) {
  return chances.first(std::min(chances.size(), static_cast<std::size_t>(count)));
}

OrderedJson bytes_of(std::string_view piece) {
  OrderedJson bytes = OrderedJson::array();
  for (const char c : piece) {
    bytes.push_back(static_cast<unsigned char>(c));
  }
  return bytes;
}

const char* comma(std::size_t i) {
  return i == 0 ? "" : ",";
}

}  // namespace

double finite(float log_probability) {
  return std::isfinite(log_probability) ? static_cast<double>(log_probability) : kLeast;
}

std::string token_name(std::string_view piece) {
  if (characters::is_valid_utf8(piece)) {
    return std::string(piece);
  }
  std::string name = "bytes:";
  for (const char c : piece) {
    name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return name;
}

// ---- one token

std::int64_t TokenFormat::length(std::int32_t token) const {
  const std::string piece = tokenizer_->piece(token);
  return std::count_if(piece.begin(), piece.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

OrderedJson TokenFormat::chance(const engine::TokenChance& chance) const {
  const std::string piece = tokenizer_->piece(chance.token);
  OrderedJson json;
  json["token"] = token_name(piece);
  json["logprob"] = finite(chance.log_probability);
  json["bytes"] = bytes_of(piece);
  return json;
}

OrderedJson TokenFormat::for_chat(const engine::TokenRecord& record) const {
  OrderedJson json = chance(record.chosen);
  OrderedJson most = OrderedJson::array();
  for (const engine::TokenChance& other : record.most_probable) {
    most.push_back(chance(other));
  }
  json["top_logprobs"] = std::move(most);
  return json;
}

OrderedJson TokenFormat::most_probable(const engine::TokenRecord& record) const {
  OrderedJson most;
  for (const engine::TokenChance& other : first(record.most_probable, most_probable_)) {
    most[name(other.token)] = finite(other.log_probability);
  }
  if (most_probable_ > 0) {
    most[name(record.chosen.token)] = finite(record.chosen.log_probability);
  }
  return most;
}

// ---- in a stream

OrderedJson LogProbabilities::take() {
  const auto records = std::exchange(records_, {});
  OrderedJson json;
  if (chat_) {
    OrderedJson& content = json["content"] = OrderedJson::array();
    for (const engine::TokenRecord& record : records) {
      content.push_back(format_.for_chat(record));
    }
    json["refusal"] = nullptr;
    return json;
  }
  OrderedJson tokens = OrderedJson::array();
  OrderedJson values = OrderedJson::array();
  OrderedJson most = OrderedJson::array();
  OrderedJson offsets = OrderedJson::array();
  for (const engine::TokenRecord& record : records) {
    tokens.push_back(format_.name(record.chosen.token));
    values.push_back(finite(record.chosen.log_probability));
    most.push_back(format_.most_probable(record));
    offsets.push_back(offset_);
    offset_ += format_.length(record.chosen.token);
  }
  json["tokens"] = std::move(tokens);
  json["token_logprobs"] = std::move(values);
  json["top_logprobs"] = format_.has_most_probable() ? std::move(most) : OrderedJson();
  json["text_offset"] = std::move(offsets);
  return json;
}

// ---- of a whole text

const engine::TokenRecord* RecordedText::at(std::size_t i) const {
  if (first && i == 0) {
    return nullptr;
  }
  i -= first ? 1 : 0;
  return i < prompt.size() ? &prompt[i] : &text[i - prompt.size()];
}

std::int32_t RecordedText::token(std::size_t i) const {
  const engine::TokenRecord* record = at(i);
  return record == nullptr ? *first : record->chosen.token;
}

namespace {

void add_for_chat(BodySections& body, const RecordedText& text, const TokenFormat& format) {
  body.text(R"({"content":[)");
  body.each(text.size(), [text, format](std::size_t i, std::string& part) {
    part.append(comma(i)).append(to_text(format.for_chat(*text.at(i))));
  });
  body.text(R"(],"refusal":null})");
}

}  // namespace

void add_log_probabilities(BodySections& body, const RecordedText& text, bool chat,
                           const TokenFormat& format) {
  if (chat) {
    add_for_chat(body, text, format);
    return;
  }
  body.text(R"({"tokens":[)");
  body.each(text.size(), [text, format](std::size_t i, std::string& part) {
    part.append(comma(i)).append(to_text(format.name(text.token(i))));
  });
  body.text(R"(],"token_logprobs":[)");
  body.each(text.size(), [text](std::size_t i, std::string& part) {
    const engine::TokenRecord* record = text.at(i);
    part.append(comma(i));
    part += record == nullptr ? "null" : to_text(finite(record->chosen.log_probability));
  });
  body.text(format.has_most_probable() ? R"(],"top_logprobs":[)" : R"(],"top_logprobs":null)");
  body.each(format.has_most_probable() ? text.size() : 0,
            [text, format](std::size_t i, std::string& part) {
              const engine::TokenRecord* record = text.at(i);
              part.append(comma(i));
              part += record == nullptr ? "null" : to_text(format.most_probable(*record));
            });
  body.text(format.has_most_probable() ? R"(],"text_offset":[)" : R"(,"text_offset":[)");
  body.each(text.size(),
            [text, format, offset = std::int64_t{0}](std::size_t i, std::string& part) mutable {
              part.append(comma(i)).append(std::to_string(offset));
              offset += format.length(text.token(i));
            });
  body.text("]}");
}

void add_prompt_log_probabilities(BodySections& body, std::span<const engine::TokenRecord> records,
                                  int most_probable, const text::Tokenizer& tokenizer) {
  body.text("[null");
  body.each(records.size(), [records, most_probable, &tokenizer](std::size_t i, std::string& part) {
    const auto entry = [&](const engine::TokenChance& chance, std::int64_t rank) {
      return fmt::format(R"("{}":{{"logprob":{},"rank":{},"decoded_token":{}}})", chance.token,
                         finite(chance.log_probability), rank,
                         to_text(token_name(tokenizer.piece(chance.token))));
    };
    const engine::TokenRecord& record = records[i];
    part.append(",{").append(entry(record.chosen, record.rank));
    std::int64_t rank = 0;
    for (const engine::TokenChance& other : first(record.most_probable, most_probable)) {
      ++rank;
      if (other.token != record.chosen.token) {
        part.append(",").append(entry(other, rank));
      }
    }
    part += '}';
  });
  body.text("]");
}

std::size_t bytes_of(std::span<const engine::TokenRecord> records) {
  std::size_t bytes = records.size_bytes();
  for (const engine::TokenRecord& record : records) {
    bytes += record.most_probable.size() * sizeof(engine::TokenChance);
  }
  return bytes;
}

}  // namespace nibble::serve
