#include "text/model_input.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "text/tokenizer_parts.h"

namespace nibble::text {
namespace {

using Ids = std::vector<std::int32_t>;

struct Lengths {
  std::size_t first = 0;
  std::size_t second = 0;
};

// How many tokens remain of two texts that may have `most` together (tokenizers,
// utils/truncation.rs, LongestFirst).
Lengths longest_first(Lengths lengths, std::size_t most) {
  if (lengths.first + lengths.second <= most) {
    return lengths;
  }
  const bool swap = lengths.first > lengths.second;
  const std::size_t shorter = std::min(std::min(lengths.first, lengths.second), most / 2);
  const Lengths kept = {shorter, most - shorter};
  return swap ? Lengths{kept.second, kept.first} : kept;
}

void cut(Ids& ids, std::size_t size, bool from_left) {
  if (from_left) {
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(size));
  } else {
    ids.resize(size);
  }
}

class InputBuilder {
 public:
  InputBuilder(std::size_t tokens, bool add_special) : add_special_(add_special) {
    input_.ids.reserve(tokens);
    input_.types.reserve(tokens);
  }

  void add(const std::vector<FrameToken>& tokens) {
    if (add_special_) {
      for (const FrameToken& token : tokens) {
        input_.ids.push_back(token.id);
        input_.types.push_back(token.type);
        input_.framing.push_back(true);
      }
    }
  }

  void add(const Ids& ids, std::int32_t type) {
    input_.ids.insert(input_.ids.end(), ids.begin(), ids.end());
    input_.types.resize(input_.ids.size(), type);
    input_.framing.resize(input_.ids.size(), false);
  }

  ModelInput take() { return std::move(input_); }

 private:
  bool add_special_;
  ModelInput input_;
};

const Frame& frame_of(const TokenizerParts& parts, bool is_pair) {
  core::require(!is_pair || parts.frames.pair.has_value(), core::ErrorKind::kInvalidModel,
                "the tokenizer's template of pairs is not supported: only text A before text B, "
                "each once");
  return is_pair ? *parts.frames.pair : parts.frames.single;
}

}  // namespace

ModelInput encode_for_model(const Tokenizer& tokenizer, std::string_view text,
                            std::optional<std::string_view> pair,
                            const ModelInputOptions& options) {
  const TokenizerParts& parts = tokenizer.parts();
  const Frame& frame = frame_of(parts, pair.has_value());
  Ids first = tokenizer.encode(text);
  Ids second = pair ? tokenizer.encode(*pair) : Ids();
  const std::size_t special = options.add_special ? frame.tokens() : 0;
  bool truncated = false;
  if (options.most_tokens > 0) {
    const auto most = static_cast<std::size_t>(options.most_tokens);
    core::require(most > special, core::ErrorKind::kUsage,
                  "at most {} tokens leave no room for a text beside the {} special ones", most,
                  special);
    const Lengths kept = longest_first({first.size(), second.size()}, most - special);
    truncated = kept.first < first.size() || kept.second < second.size();
    cut(first, kept.first, parts.truncates_left);
    cut(second, kept.second, parts.truncates_left);
  }
  InputBuilder builder(first.size() + second.size() + special, options.add_special);
  builder.add(frame.before);
  builder.add(first, frame.first_type);
  if (pair) {
    builder.add(frame.between);
    builder.add(second, frame.second_type);
  }
  builder.add(frame.behind);
  ModelInput input = builder.take();
  input.truncated = truncated;
  return input;
}

std::optional<std::int64_t> longest_input(const Tokenizer& tokenizer) {
  return tokenizer.parts().longest_input;
}

}  // namespace nibble::text
