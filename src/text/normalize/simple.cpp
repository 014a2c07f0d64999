#include "characters/properties.h"
#include "characters/utf8.h"
#include "text/byte_alphabet.h"
#include "text/normalize/icu_status.h"
#include "text/normalize/normalizer.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

constexpr std::size_t kMaxKnownShrink = 1 << 16;  // more says nothing

// Rewrites character by character: `write(out, c)` appends what stands for c.
template <typename Write>
class CharacterMap : public Normalizer {
 public:
  explicit CharacterMap(Write write) : write_(write) {}

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const characters::CodePoint c = characters::decode_utf8(text, at);
      write_(out, c.value);
      at += c.bytes;
    }
    check_growth(out.size(), scope);
    return out;
  }

 private:
  Write write_;
};

template <typename Write>
NormalizerPtr map_characters(Write write) {
  return std::make_unique<CharacterMap<Write>>(write);
}

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  std::string apply(std::string text, const NormalizeScope&) const override {
    std::size_t end = text.size();
    while (right_ && end > 0) {
      const characters::CodePoint c = characters::decode_utf8_before(text, end);
      if (!characters::is_white_space(c.value)) {
        break;
      }
      end -= c.bytes;
    }
    std::size_t begin = 0;
    while (left_ && begin < end) {
      const characters::CodePoint c = characters::decode_utf8(text, begin);
      if (!characters::is_white_space(c.value)) {
        break;
      }
      begin += c.bytes;
    }
    return text.substr(begin, end - begin);
  }

 private:
  bool left_;
  bool right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  std::optional<std::size_t> max_shrink() const override { return 1; }

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    if (!text.empty()) {
      text.insert(0, prefix_);
      check_growth(text.size(), scope);
    }
    return text;
  }

 private:
  std::string prefix_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}

  std::optional<std::size_t> max_shrink() const override {
    std::size_t product = 1;
    for (const NormalizerPtr& step : steps_) {
      const auto shrink = step->max_shrink();
      if (!shrink || *shrink > kMaxKnownShrink / product) {
        return std::nullopt;
      }
      product *= *shrink;
    }
    return product;
  }

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    for (const NormalizerPtr& step : steps_) {
      text = step->apply(std::move(text), scope);
    }
    return text;
  }

 private:
  std::vector<NormalizerPtr> steps_;
};

// nmt_norm of SentencePiece: control characters vanish, odd spaces become ' '.
void append_nmt(std::string& out, char32_t c) {
  const bool dropped = (c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) ||
                       c == 0x7f || c == 0x8f || c == 0x9f;
  const bool space = c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 ||
                     (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xfeff || c == 0xfffd;
  if (!dropped) {
    characters::append_utf8(out, space ? U' ' : c);
  }
}

}  // namespace

void check_growth(std::size_t bytes, const NormalizeScope& scope) {
  core::require(
      bytes <= scope.max_bytes, ErrorKind::kFailed,
      "tokenizer: its normalizer makes a text of more than {} bytes out of this one, refused",
      scope.max_bytes);
}

std::size_t max_normalized_bytes(std::size_t bytes) {
  constexpr std::size_t kFactor = 64;
  constexpr std::size_t kBase = 4096;
  return bytes > (SIZE_MAX - kBase) / kFactor ? SIZE_MAX : bytes * kFactor + kBase;
}

NormalizerPtr make_normalizer_sequence(std::vector<NormalizerPtr> steps) {
  return std::make_unique<Sequence>(std::move(steps));
}

NormalizerPtr make_lowercase() {
  return map_characters(characters::append_lower_case);
}

NormalizerPtr make_strip_accents() {
  return map_characters([](std::string& out, char32_t c) {
    if (!characters::is_mark(c)) {
      characters::append_utf8(out, c);
    }
  });
}

NormalizerPtr make_strip(bool left, bool right) {
  return std::make_unique<Strip>(left, right);
}

NormalizerPtr make_prepend(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

NormalizerPtr make_nmt() {
  return map_characters(append_nmt);
}

namespace {

class ByteLevelNormalizer : public Normalizer {
 public:
  std::optional<std::size_t> max_shrink() const override { return 1; }

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    std::string out;
    out.reserve(text.size() + text.size() / 4);
    append_byte_alphabet(out, text);
    check_growth(out.size(), scope);
    return out;
  }
};

}  // namespace

NormalizerPtr make_byte_level_normalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}

}  // namespace nibble::text
