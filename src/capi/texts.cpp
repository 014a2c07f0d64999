#include "capi/texts.h"

#include "core/ordered_json.h"

namespace nibble::capi {
namespace {

core::OrderedJson chance_json(const engine::TokenChance& chance) {
  return {{"token", chance.token}, {"log_probability", chance.log_probability}};
}

std::string records_json(const std::vector<engine::TokenRecord>& records) {
  core::OrderedJson list = core::OrderedJson::array();
  for (const engine::TokenRecord& record : records) {
    core::OrderedJson json = chance_json(record.chosen);
    json["rank"] = record.rank;
    json["most_probable"] = core::OrderedJson::array();
    for (const engine::TokenChance& chance : record.most_probable) {
      json["most_probable"].push_back(chance_json(chance));
    }
    list.push_back(std::move(json));
  }
  return list.dump();
}

}  // namespace

nibble_texts::Text text_of(const engine::Completion& completion, std::size_t prompt_tokens) {
  rethrow_failure(completion);
  nibble_texts::Text text;
  text.text = completion.text;
  text.tokens = completion.tokens;
  text.finish_reason = to_string(completion.reason);
  text.prompt_tokens = prompt_tokens;
  text.log_probabilities = records_json(completion.records);
  return text;
}

}  // namespace nibble::capi

namespace {

const nibble_texts::Text* find(const nibble_texts* texts, std::size_t index) {
  return texts == nullptr || index >= texts->texts.size() ? nullptr : &texts->texts[index];
}

}  // namespace

extern "C" {

size_t nibble_texts_count(const nibble_texts* texts) {
  return texts == nullptr ? 0 : texts->texts.size();
}

const char* nibble_texts_text(const nibble_texts* texts, size_t index, size_t* bytes) {
  const auto* text = find(texts, index);
  if (bytes != nullptr) {
    *bytes = text == nullptr ? 0 : text->text.size();
  }
  return text == nullptr ? nullptr : text->text.c_str();
}

const int32_t* nibble_texts_tokens(const nibble_texts* texts, size_t index, size_t* count) {
  const auto* text = find(texts, index);
  if (count != nullptr) {
    *count = text == nullptr ? 0 : text->tokens.size();
  }
  return text == nullptr ? nullptr : text->tokens.data();
}

const char* nibble_texts_finish_reason(const nibble_texts* texts, size_t index) {
  const auto* text = find(texts, index);
  return text == nullptr ? nullptr : text->finish_reason.c_str();
}

size_t nibble_texts_prompt_tokens(const nibble_texts* texts, size_t index) {
  const auto* text = find(texts, index);
  return text == nullptr ? 0 : text->prompt_tokens;
}

const char* nibble_texts_log_probabilities(const nibble_texts* texts, size_t index) {
  const auto* text = find(texts, index);
  return text == nullptr ? nullptr : text->log_probabilities.c_str();
}

const char* nibble_texts_tool_calls(const nibble_texts* texts, size_t index) {
  const auto* text = find(texts, index);
  return text == nullptr ? nullptr : text->tool_calls.c_str();
}

void nibble_texts_free(nibble_texts* texts) {
  delete texts;
}
}
