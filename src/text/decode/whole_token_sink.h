#pragma once

#include <string>

#include "text/decode/decoder.h"

namespace nibble::text {

/// Base of the sinks that need a whole token before they can rewrite it.
class WholeTokenSink : public TokenSink {
 public:
  explicit WholeTokenSink(TokenSink& next) : next_(next) {}

  void text(std::string_view part) override { token_.append(part); }
  void end_token() override {
    on_token(token_);
    token_.clear();
  }
  void finish() override {
    on_finish();
    next_.finish();
  }

 protected:
  virtual void on_token(std::string& token) = 0;
  virtual void on_finish() {}

  void emit_token(std::string_view token) {
    next_.text(token);
    next_.end_token();
  }
  TokenSink& next() { return next_; }

 private:
  TokenSink& next_;
  std::string token_;
};

}  // namespace nibble::text
