#include <optional>
#include <utility>

#include "capi/generate.h"
#include "capi/generation_options.h"
#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "capi/returned.h"
#include "core/ordered_json.h"
#include "serve/openai_responses.h"
#include "serve/prepared_text.h"
#include "serve/tool_calls.h"

namespace nibble::capi {
namespace {

core::OrderedJson json_of(const char* text, const char* what) {
  try {
    return core::parse_ordered_json(required_text(text, what), what);
  } catch (const core::Error& error) {
    throw core::Error(core::ErrorKind::kUsage, error.what());
  }
}

// As a server reads the same fields.
serve::PreparedText prepare_chat(nibble_model& model, const char* messages, const char* tools) {
  core::OrderedJson request;
  request["messages"] = json_of(messages, "messages");
  if (tools != nullptr) {
    request["tools"] = json_of(tools, "tools");
  }
  const serve::Prompts& prompts = model.prompts();
  const serve::RequestLimits limits{
      static_cast<std::int32_t>(model.model().network.config.vocabulary), prompts.context()};
  return serve::prepare(serve::read_chat(request, limits), prompts, prompts.tool_format(), 0);
}

// The text of an answer, with its calls of tools taken out.
class AnswerText {
 public:
  explicit AnswerText(const std::optional<serve::ToolCallOptions>& tools) {
    if (tools) {
      reader_.emplace(*tools, "call_");
    }
  }

  /// What becomes known with a piece.
  std::string add(const std::string& piece) {
    return keep(reader_ ? reader_->add(piece) : serve::ToolText{piece, {}});
  }
  std::string finish() { return reader_ ? keep(reader_->finish()) : std::string(); }

  void put_into(nibble_texts::Text& text) const {
    text.text = content_;
    if (!calls_.empty()) {
      text.tool_calls = serve::to_text(serve::tool_calls_json(calls_));
      text.finish_reason = text.finish_reason == "stop" ? "tool_calls" : text.finish_reason;
    }
  }

 private:
  std::string keep(serve::ToolText text) {
    content_ += text.content;
    for (serve::ToolCall& call : text.calls) {
      calls_.push_back(std::move(call));
    }
    return std::move(text.content);
  }

  std::optional<serve::ToolCallReader> reader_;
  std::string content_;
  std::vector<serve::ToolCall> calls_;
};

nibble_texts::Text answer(nibble_model& model, const Call& call, const serve::PreparedText& chat,
                          const nibble_generate_options& options) {
  AnswerText content(chat.plan.tools);
  const auto tell = [&options](const std::string& text) {
    return options.on_piece == nullptr || text.empty() ||
           options.on_piece(options.user, 0, text.data(), text.size()) == 0;
  };
  TextOrder order;
  order.request = request_of(options);
  order.request.prompt = chat.plan.prompts.front();
  order.on_piece = [&](const std::string& piece) { return tell(content.add(piece)); };
  const auto completions = write_all(model, call, {order});
  if (!tell(content.finish())) {
    throw Cancelled();
  }
  nibble_texts::Text text = text_of(completions.front(), order.request.prompt.size());
  content.put_into(text);
  return text;
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" {

nibble_status nibble_chat(nibble_model* model, const char* messages, const char* tools,
                          const nibble_generate_options* options, nibble_texts** texts) {
  return with_model(model, [&](const Call& call) {
    require_given(texts, "texts");
    const auto asked = options_of(options, default_generate_options());
    auto written = std::make_unique<nibble_texts>();
    written->texts.push_back(answer(*model, call, prepare_chat(*model, messages, tools), asked));
    *texts = written.release();
  });
}

nibble_status nibble_chat_prompt(nibble_model* model, const char* messages, const char* tools,
                                 int32_t** ids, size_t* count) {
  return with_model(model, [&](const Call&) {
    require_given(ids, "ids");
    require_given(count, "count");
    const auto chat = prepare_chat(*model, messages, tools);
    const std::vector<std::int32_t>& prompt = chat.plan.prompts.front();
    auto copy = returned(std::span<const std::int32_t>(prompt));
    *count = prompt.size();
    *ids = copy.release();
  });
}
}
