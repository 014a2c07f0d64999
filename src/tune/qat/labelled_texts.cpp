#include "tune/qat/labelled_texts.h"

#include <numeric>
#include <span>
#include <utility>

#include "core/hash.h"
#include "core/random.h"

namespace nibble::tune {
namespace {

constexpr std::uint64_t kNextEpoch = 0x9e3779b97f4a7c15u;  // splits seeds (splitmix64)

template <typename T>
void append(const std::vector<T>& values, std::vector<std::byte>& bytes) {
  const auto more = std::as_bytes(std::span(values));
  bytes.insert(bytes.end(), more.begin(), more.end());
}

}  // namespace

std::uint64_t hash_of(const std::vector<LabelledText>& texts) {
  std::vector<std::byte> bytes;
  for (const LabelledText& text : texts) {
    append(text.tokens, bytes);
    append(text.types, bytes);
    append(text.written, bytes);
    append(std::vector<std::int64_t>{std::ssize(text.tokens), std::ssize(text.written),
                                     text.label.output},
           bytes);
    append(std::vector<float>{text.label.value}, bytes);
  }
  return core::hash64(bytes);
}

// Fisher and Yates.
std::vector<std::size_t> order_of_epoch(std::size_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  core::Random random(seed + static_cast<std::uint64_t>(epoch) * kNextEpoch);
  for (std::size_t left = count; left > 1; --left) {
    std::swap(order[left - 1],
              order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(left)))]);
  }
  return order;
}

}  // namespace nibble::tune
