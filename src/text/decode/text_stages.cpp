#include <algorithm>
#include <array>

#include "characters/utf8.h"
#include "text/decode/whole_token_sink.h"
#include "text/normalize/normalizer.h"

namespace nibble::text {
namespace {

class FuseSink : public TokenSink {
 public:
  explicit FuseSink(TokenSink& next) : next_(next) {}
  void text(std::string_view part) override { next_.text(part); }
  void end_token() override {}
  void finish() override {
    next_.end_token();
    next_.finish();
  }

 private:
  TokenSink& next_;
};

class FuseStage : public DecodeStage {
 public:
  TokenSinkPtr open(TokenSink& next) const override { return std::make_unique<FuseSink>(next); }
};

// Works on parts of tokens, because the token of a stream that was fused ends with the stream.
class StripSink : public TokenSink {
 public:
  StripSink(TokenSink& next, std::string_view content, std::size_t start, std::size_t stop)
      : next_(next), content_(content), start_(start), stop_(stop) {}

  void text(std::string_view part) override {
    for (std::size_t at = 0; at < part.size();) {
      const std::string_view character = part.substr(at, characters::utf8_bytes(part[at]));
      at += character.size();
      if (character == content_) {
        take_content();
      } else {
        release(held_);
        cut_ = start_;
        next_.text(character);
      }
    }
  }

  void end_token() override {
    held_ = 0;
    cut_ = 0;
    next_.end_token();
  }

  void finish() override { next_.finish(); }

 private:
  void take_content() {
    if (cut_ < start_) {
      ++cut_;
    } else if (held_ < stop_) {
      ++held_;
    } else {
      next_.text(content_);  // the oldest of those held, or this one: they are all alike
    }
  }

  void release(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      next_.text(content_);
    }
    held_ -= count;
  }

  TokenSink& next_;
  std::string_view content_;
  std::size_t start_;
  std::size_t stop_;
  std::size_t cut_ = 0;   // characters dropped at the start of the token; start_ when that is over
  std::size_t held_ = 0;  // at the end of what came, to be dropped if the token ends here
};

class StripStage : public DecodeStage {
 public:
  StripStage(std::string content, std::size_t start, std::size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  TokenSinkPtr open(TokenSink& next) const override {
    return std::make_unique<StripSink>(next, content_, start_, stop_);
  }

 private:
  std::string content_;
  std::size_t start_;
  std::size_t stop_;
};

// Replacing may make a token longer, but not without bound: files can ask for any growth.
NormalizeScope replace_scope(std::size_t token_bytes, PatternBudget& budget) {
  constexpr std::size_t kMaxGrownBytes = 1 << 20;
  budget.add_bytes(token_bytes);
  return {.at_origin = true, .max_bytes = std::max(token_bytes, kMaxGrownBytes), .budget = &budget};
}

class ReplaceSink : public WholeTokenSink {
 public:
  ReplaceSink(TokenSink& next, const Normalizer& replace)
      : WholeTokenSink(next), replace_(replace) {}

 private:
  void on_token(std::string& token) override {
    emit_token(replace_.apply(token, replace_scope(token.size(), budget_)));
  }

  const Normalizer& replace_;
  PatternBudget budget_;
};

class ReplaceStage : public DecodeStage {
 public:
  explicit ReplaceStage(NormalizerPtr replace) : replace_(std::move(replace)) {}
  TokenSinkPtr open(TokenSink& next) const override {
    return std::make_unique<ReplaceSink>(next, *replace_);
  }
  std::string piece(std::string token, PatternBudget& budget) const override {
    return characters::is_valid_utf8(token)
               ? replace_->apply(token, replace_scope(token.size(), budget))
               : token;
  }

 private:
  NormalizerPtr replace_;
};

std::string with_spaces(std::string_view token, std::string_view replacement,
                        std::string_view space) {
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const std::string_view character = token.substr(at, characters::utf8_bytes(token[at]));
    at += character.size();
    out.append(character == replacement ? space : character);
  }
  return out;
}

class MetaspaceSink : public WholeTokenSink {
 public:
  MetaspaceSink(TokenSink& next, std::string_view replacement, bool drops_first)
      : WholeTokenSink(next), replacement_(replacement), drops_(drops_first) {}

 private:
  void on_token(std::string& token) override {
    emit_token(with_spaces(token, replacement_, drops_ ? "" : " "));
    drops_ = false;
  }

  std::string_view replacement_;
  bool drops_;
};

class MetaspaceStage : public DecodeStage {
 public:
  MetaspaceStage(std::string replacement, bool drops_first)
      : replacement_(std::move(replacement)), drops_first_(drops_first) {}
  TokenSinkPtr open(TokenSink& next) const override {
    return std::make_unique<MetaspaceSink>(next, replacement_, drops_first_);
  }
  std::string piece(std::string token, PatternBudget&) const override {
    return characters::is_valid_utf8(token) ? with_spaces(token, replacement_, " ") : token;
  }

 private:
  std::string replacement_;
  bool drops_first_;
};

struct Cleanup {
  std::string_view from;
  std::string_view to;
};

// The replacements and their order are those of Hugging Face's tokenizers.
constexpr std::array<Cleanup, 11> kCleanups = {{{" .", "."},
                                                {" ?", "?"},
                                                {" !", "!"},
                                                {" ,", ","},
                                                {" ' ", "'"},
                                                {" n't", "n't"},
                                                {" 'm", "'m"},
                                                {" do not", " don't"},
                                                {" 's", "'s"},
                                                {" 've", "'ve"},
                                                {" 're", "'re"}}};

std::string replace_all(const std::string& text, const Cleanup& cleanup) {
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = text.find(cleanup.from); at != std::string::npos;
       at = text.find(cleanup.from, copied)) {
    out.append(text, copied, at - copied).append(cleanup.to);
    copied = at + cleanup.from.size();
  }
  return out.append(text, copied);
}

std::string cleaned(std::string text) {
  for (const Cleanup& cleanup : kCleanups) {
    if (text.find(cleanup.from) != std::string::npos) {
      text = replace_all(text, cleanup);
    }
  }
  return text;
}

class WordPieceSink : public WholeTokenSink {
 public:
  WordPieceSink(TokenSink& next, std::string_view prefix, bool cleanup)
      : WholeTokenSink(next), prefix_(prefix), cleanup_(cleanup) {}

 private:
  void on_token(std::string& token) override {
    if (!first_) {
      if (token.starts_with(prefix_)) {
        token.erase(0, prefix_.size());
      } else {
        token = std::string(" ").append(token);
      }
    }
    first_ = false;
    emit_token(cleanup_ ? cleaned(std::move(token)) : token);
  }

  std::string_view prefix_;
  bool cleanup_;
  bool first_ = true;
};

class WordPieceStage : public DecodeStage {
 public:
  WordPieceStage(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  TokenSinkPtr open(TokenSink& next) const override {
    return std::make_unique<WordPieceSink>(next, prefix_, cleanup_);
  }
  std::string piece(std::string token, PatternBudget&) const override {
    return token.starts_with(prefix_) ? token.substr(prefix_.size()) : token;
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

}  // namespace

DecodeStagePtr make_fuse_stage() {
  return std::make_unique<FuseStage>();
}

DecodeStagePtr make_strip_stage(std::string content, std::size_t start, std::size_t stop) {
  return std::make_unique<StripStage>(std::move(content), start, stop);
}

DecodeStagePtr make_replace_stage(std::string pattern, std::string content) {
  return std::make_unique<ReplaceStage>(make_replace(std::move(pattern), std::move(content)));
}

DecodeStagePtr make_replace_regex_stage(std::string_view pattern, std::string content,
                                        std::string_view what) {
  return std::make_unique<ReplaceStage>(make_replace_regex(pattern, std::move(content), what));
}

DecodeStagePtr make_metaspace_stage(std::string replacement, bool drops_first) {
  return std::make_unique<MetaspaceStage>(std::move(replacement), drops_first);
}

DecodeStagePtr make_word_piece_stage(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceStage>(std::move(prefix), cleanup);
}

}  // namespace nibble::text
