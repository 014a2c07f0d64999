#include "serve/whole_answer.h"

#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/ordered_json.h"
#include "serve/log_probabilities.h"

namespace nibble::serve {
namespace {

OrderedJson message_json(const Choice& choice) {
  OrderedJson message;
  message["role"] = "assistant";
  message["content"] = choice.text;
  message["refusal"] = nullptr;
  if (choice.tool_calls.empty()) {
    return message;
  }
  if (choice.text.empty()) {
    message["content"] = nullptr;
  }
  message["tool_calls"] = tool_calls_json(choice.tool_calls);
  return message;
}

class AnswerSections {
 public:
  AnswerSections(WholeAnswer answer, const text::Tokenizer& tokenizer)
      : answer_(std::make_shared<const WholeAnswer>(std::move(answer))), tokenizer_(tokenizer) {}

  std::shared_ptr<BodySource> take() {
    body_->keep(answer_, held_bytes());
    std::string head = to_text(
        envelope(answer_->head, answer_->head.chat ? "chat.completion" : "text_completion"));
    head.pop_back();
    body_->text(head + R"(,"choices":[)");
    for (std::size_t i = 0; i < answer_->choices.size(); ++i) {
      add_choice(i);
    }
    body_->text(R"(],"usage":)" + to_text(usage_json(answer_->usage)));
    if (answer_->head.chat) {
      add_records_of_prompt(answer_->prompts.front());  // vLLM's place for it
    }
    body_->text("}");
    return body_;
  }

 private:
  void add_choice(std::size_t i) {
    const Choice& choice = answer_->choices[i];
    body_->each(1, [answer = answer_.get(), i](std::size_t, std::string& part) {
      part += i == 0 ? "{" : ",{";
      part += fmt::format(R"("index":{},)", i);
      const Choice& written = answer->choices[i];
      if (answer->head.chat) {
        part.append(R"("message":)").append(to_text(message_json(written)));
      } else {
        const std::string& echo = answer->prompts[written.prompt].echo;
        part.append(R"("text":)").append(to_text(echo + written.text));
      }
      part += R"(,"logprobs":)";
    });
    if (answer_->log_probabilities) {
      add_log_probabilities(*body_, recorded(choice), answer_->head.chat,
                            TokenFormat(tokenizer_, *answer_->log_probabilities));
    } else {
      body_->text("null");
    }
    const OrderedJson reason =
        choice.finish_reason.empty() ? OrderedJson() : OrderedJson(choice.finish_reason);
    body_->text(R"(,"finish_reason":)" + to_text(reason));
    if (!answer_->head.chat) {
      add_records_of_prompt(answer_->prompts[choice.prompt]);
    }
    body_->text("}");
  }

  RecordedText recorded(const Choice& choice) const {
    RecordedText text{std::nullopt, {}, choice.records};
    if (answer_->echo) {
      const AnsweredPrompt& prompt = answer_->prompts[choice.prompt];
      text.first = prompt.first_token;
      text.prompt = prompt.records;
    }
    return text;
  }

  void add_records_of_prompt(const AnsweredPrompt& prompt) {
    if (answer_->prompt_log_probabilities) {
      body_->text(R"(,"prompt_logprobs":)");
      add_prompt_log_probabilities(*body_, prompt.records, *answer_->prompt_log_probabilities,
                                   tokenizer_);
    }
  }

  std::size_t held_bytes() const {
    std::size_t bytes = 0;
    for (const Choice& choice : answer_->choices) {
      bytes += choice.text.size() + bytes_of(choice.records);
    }
    for (const AnsweredPrompt& prompt : answer_->prompts) {
      bytes += prompt.echo.size() + bytes_of(prompt.records);
    }
    return bytes;
  }

  std::shared_ptr<const WholeAnswer> answer_;
  const text::Tokenizer& tokenizer_;
  std::shared_ptr<BodySections> body_ = std::make_shared<BodySections>();
};

}  // namespace

std::shared_ptr<BodySource> body_of(WholeAnswer answer, const text::Tokenizer& tokenizer) {
  return AnswerSections(std::move(answer), tokenizer).take();
}

std::string base64_of(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < there ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= there ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::shared_ptr<BodySource> embeddings_body(const std::string& model,
                                            std::vector<std::vector<float>> embeddings, bool base64,
                                            std::int64_t tokens) {
  static_assert(std::endian::native == std::endian::little);
  const auto kept = std::make_shared<const std::vector<std::vector<float>>>(std::move(embeddings));
  const std::size_t width = kept->empty() ? 0 : kept->front().size();
  auto body = std::make_shared<BodySections>();
  body->keep(kept, kept->size() * width * sizeof(float));
  body->text(R"({"object":"list","data":[)");
  body->each(kept->size(), [kept = kept.get(), base64](std::size_t i, std::string& part) {
    const std::vector<float>& values = (*kept)[i];
    part +=
        fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", i == 0 ? "" : ",", i);
    if (base64) {
      std::string bytes(values.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), values.data(), bytes.size());
      part += fmt::format("\"{}\"}}", base64_of(bytes));
    } else {
      part += fmt::format("[{}]}}", fmt::join(values, ","));
    }
  });
  body->text(fmt::format(R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})",
                         to_text(model), tokens, tokens));
  return body;
}

}  // namespace nibble::serve
