#include "text/decode/decoder.h"

#include <utility>

namespace nibble::text {

// The end of the pipe: collects the text. `separator` comes between tokens.
class Decoder::Run::Output : public TokenSink {
 public:
  explicit Output(std::string_view separator) : separator_(separator) {}

  void text(std::string_view part) override { collected_.append(part); }
  void end_token() override { ends_pending_ = true; }
  void finish() override {}

  // A separator is only written once it is known that another token follows.
  void before_token() {
    if (ends_pending_) {
      collected_.append(separator_);
      ends_pending_ = false;
    }
  }

  std::string take() { return std::exchange(collected_, std::string()); }

 private:
  std::string_view separator_;
  std::string collected_;
  bool ends_pending_ = false;
};

Decoder::Run::Run(const Decoder& decoder)
    : output_(std::make_unique<Output>(decoder.stages_.empty() ? " " : "")) {
  for (auto stage = decoder.stages_.rbegin(); stage != decoder.stages_.rend(); ++stage) {
    TokenSink& next = sinks_.empty() ? static_cast<TokenSink&>(*output_) : *sinks_.back();
    sinks_.push_back((*stage)->open(next));
  }
}

Decoder::Run::~Run() = default;

void Decoder::Run::push(std::string_view token) {
  output_->before_token();
  TokenSink& first = sinks_.empty() ? static_cast<TokenSink&>(*output_) : *sinks_.back();
  first.text(token);
  first.end_token();
}

void Decoder::Run::finish() {
  TokenSink& first = sinks_.empty() ? static_cast<TokenSink&>(*output_) : *sinks_.back();
  first.finish();
}

std::string Decoder::Run::take() {
  return output_->take();
}

std::string Decoder::piece(std::string token, PatternBudget& budget) const {
  for (const DecodeStagePtr& stage : stages_) {
    token = stage->piece(std::move(token), budget);
  }
  return token;
}

}  // namespace nibble::text
