#include <algorithm>

#include "characters/utf8.h"
#include "text/byte_alphabet.h"
#include "text/decode/whole_token_sink.h"
#include "text/model/byte_tokens.h"

namespace nibble::text {
namespace {

// A token that is not written in the byte alphabet stands for its own bytes.
std::string bytes_of(const std::string& token) {
  auto bytes = bytes_from_alphabet(token);
  return bytes ? *std::move(bytes) : token;
}

class ByteLevelSink : public WholeTokenSink {
 public:
  using WholeTokenSink::WholeTokenSink;

 private:
  void on_token(std::string& token) override {
    certain_.clear();
    repair_.push(bytes_of(std::move(token)), certain_);
    next().text(certain_);
  }
  void on_finish() override {
    certain_.clear();
    repair_.finish(certain_);
    emit_token(certain_);
  }

  characters::Utf8Repair repair_;
  std::string certain_;
};

class ByteLevelStage : public DecodeStage {
 public:
  TokenSinkPtr open(TokenSink& next) const override {
    return std::make_unique<ByteLevelSink>(next);
  }
  std::string piece(std::string token, PatternBudget&) const override {
    return bytes_of(std::move(token));
  }
};

// A run of byte tokens counts as a whole: one byte too many makes all of it U+FFFD. So nothing of a
// run is certain before its end.
class ByteFallbackSink : public WholeTokenSink {
 public:
  using WholeTokenSink::WholeTokenSink;

 private:
  void on_token(std::string& token) override {
    const int byte = byte_of_token(token, true);
    if (byte >= 0) {
      run_.push_back(static_cast<char>(byte));
      return;
    }
    flush();
    emit_token(token);
  }
  void on_finish() override { flush(); }

  void flush() {
    if (!run_.empty() && characters::is_valid_utf8(run_)) {
      emit_token(run_);
    } else {
      for (std::size_t i = 0; i < run_.size(); ++i) {
        emit_token("\ufffd");
      }
    }
    run_.clear();
  }

  std::string run_;
};

class ByteFallbackStage : public DecodeStage {
 public:
  TokenSinkPtr open(TokenSink& next) const override {
    return std::make_unique<ByteFallbackSink>(next);
  }
  std::string piece(std::string token, PatternBudget&) const override {
    const int byte = byte_of_token(token, true);
    return byte < 0 ? token : std::string(1, static_cast<char>(byte));
  }
};

}  // namespace

DecodeStagePtr make_byte_level_stage() {
  return std::make_unique<ByteLevelStage>();
}

DecodeStagePtr make_byte_fallback_stage() {
  return std::make_unique<ByteFallbackStage>();
}

}  // namespace nibble::text
