#include "text/normalize/normalizer.h"
#include "text/regex/regex.h"

namespace nibble::text {
namespace {

class ReplaceString : public Normalizer {
 public:
  ReplaceString(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  std::optional<std::size_t> max_shrink() const override {
    return content_.empty()
               ? std::nullopt
               : std::optional((pattern_.size() + content_.size() - 1) / content_.size());
  }

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    std::size_t found = text.find(pattern_);
    if (found == std::string::npos) {
      return text;
    }
    std::string out;
    out.reserve(text.size() + text.size() / 4);
    std::size_t copied = 0;
    for (; found != std::string::npos; found = text.find(pattern_, copied)) {
      out.append(text, copied, found - copied).append(content_);
      check_growth(out.size(), scope);
      copied = found + pattern_.size();
    }
    out.append(text, copied);
    check_growth(out.size(), scope);
    return out;
  }

 private:
  std::string pattern_;
  std::string content_;
};

class ReplaceRegex : public Normalizer {
 public:
  ReplaceRegex(std::string_view pattern, std::string content, std::string_view what)
      : regex_(pattern, what), content_(std::move(content)) {}

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    if (text.empty()) {
      return text;
    }
    PatternBudget own(text.size());
    RegexSearch search(regex_, scope.budget == nullptr ? own : *scope.budget);
    search.start(text);
    std::string out;
    std::size_t copied = 0;
    while (const auto found = search.next()) {
      out.append(text, copied, found->begin - copied).append(content_);
      check_growth(out.size(), scope);
      copied = found->end;
    }
    out.append(text, copied);
    check_growth(out.size(), scope);
    return out;
  }

 private:
  Regex regex_;
  std::string content_;
};

}  // namespace

NormalizerPtr make_replace(std::string pattern, std::string content) {
  return std::make_unique<ReplaceString>(std::move(pattern), std::move(content));
}

NormalizerPtr make_replace_regex(std::string_view pattern, std::string content,
                                 std::string_view what) {
  return std::make_unique<ReplaceRegex>(pattern, std::move(content), what);
}

}  // namespace nibble::text
