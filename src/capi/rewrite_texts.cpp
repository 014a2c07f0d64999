#include "capi/generate.h"
#include "capi/generation_options.h"
#include "capi/inputs.h"
#include "engine/language_codes.h"
#include "engine/write_texts.h"
#include "text/model_input.h"

namespace nibble::capi {
namespace {

// An encoder-decoder that stops between steps when the call is cancelled.
class CancelledWriter final : public engine::TextToText {
 public:
  CancelledWriter(std::shared_ptr<const models::Model> model, engine::TextToText& writer,
                  const Call& call)
      : TextToText(std::move(model)), writer_(writer), call_(call) {}

  using TextToText::read;
  void read(std::span<const std::span<const std::int32_t>> texts,
            const engine::WritingRoom& room) override {
    call_.check();
    writer_.read(texts, room);
  }
  engine::LogitsView step(std::span<const engine::DecoderRow> rows) override {
    call_.check();
    return writer_.step(rows);
  }
  engine::EncoderRows score(std::span<const std::int32_t> source,
                            std::span<const std::int32_t> target) override {
    call_.check();
    return writer_.score(source, target);
  }
  core::ThreadPool& pool() override { return writer_.pool(); }

 private:
  engine::TextToText& writer_;
  const Call& call_;
};

std::vector<std::int32_t> source_tokens(const models::Model& model, const nibble_input& source,
                                        const char* language) {
  if (has_ids(source)) {
    return {source.ids, source.ids + source.count};
  }
  text::ModelInput input = text::encode_for_model(*model.tokenizer, text_of(source), std::nullopt);
  if (language != nullptr) {
    engine::set_source_language(input, *model.tokenizer, language);
  }
  return std::move(input.ids);
}

}  // namespace

std::vector<nibble_texts::Text> rewrite_texts(nibble_model& model, const Call& call,
                                              std::span<const nibble_input> sources,
                                              const nibble_generate_options& options) {
  const engine::WritingOptions writing = writing_of(options, model.model());
  std::vector<std::vector<std::int32_t>> ids;
  for (const nibble_input& source : sources) {
    ids.push_back(source_tokens(model.model(), source, options.source_language));
  }
  const std::vector<std::span<const std::int32_t>> inputs(ids.begin(), ids.end());
  CancelledWriter writer(model.shared_model(), model.writer(), call);
  std::vector<nibble_texts::Text> texts;
  if (inputs.empty()) {
    return texts;
  }
  for (const engine::WrittenText& written : engine::write_texts(writer, inputs, writing)) {
    nibble_texts::Text& text = texts.emplace_back();
    text.text = engine::text_of(written, writing, *model.model().tokenizer);
    text.tokens.assign(written.tokens.begin() + 1, written.tokens.end());
    text.finish_reason = engine::is_ended(written, writing) ? "stop" : "length";
    text.prompt_tokens = ids[texts.size() - 1].size();
    if (options.on_piece != nullptr && !text.text.empty() &&
        options.on_piece(options.user, texts.size() - 1, text.text.data(), text.text.size()) != 0) {
      throw Cancelled();
    }
  }
  return texts;
}

}  // namespace nibble::capi
