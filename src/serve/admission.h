#pragma once

#include <cstddef>
#include <optional>
#include <utility>

namespace nibble::serve {

/// How much the engine may be asked for at a time: so many texts, with so many tokens of prompts. A
/// request holds its place until it has ended. For one thread.
class Admission {
 public:
  Admission(std::size_t texts, std::size_t tokens) : texts_(texts), tokens_(tokens) {}

  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), texts_(other.texts_), tokens_(other.tokens_) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(texts_, other.texts_);
      std::swap(tokens_, other.tokens_);
      return *this;
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (of_ != nullptr) {
        of_->taken_texts_ -= texts_;
        of_->taken_tokens_ -= tokens_;
      }
    }

   private:
    friend class Admission;
    Place(Admission* of, std::size_t texts, std::size_t tokens)
        : of_(of), texts_(texts), tokens_(tokens) {}

    Admission* of_ = nullptr;
    std::size_t texts_ = 0;
    std::size_t tokens_ = 0;
  };

  /// Nothing where there is no room. A request that is alone always finds some. Must outlive the
  /// place.
  std::optional<Place> take(std::size_t texts, std::size_t tokens) {
    const bool alone = taken_texts_ == 0;
    if (!alone && (taken_texts_ + texts > texts_ || taken_tokens_ + tokens > tokens_)) {
      return std::nullopt;
    }
    taken_texts_ += texts;
    taken_tokens_ += tokens;
    return Place(this, texts, tokens);
  }

 private:
  std::size_t texts_;
  std::size_t tokens_;
  std::size_t taken_texts_ = 0;
  std::size_t taken_tokens_ = 0;
};

}  // namespace nibble::serve
