#include "tune/qat/student_loss.h"

#include <array>

namespace nibble::tune {
namespace {

constexpr std::array kShares = {&BatchShare::answers,       &BatchShare::read,
                                &BatchShare::read_pairs,    &BatchShare::written,
                                &BatchShare::written_pairs, &BatchShare::memory_pairs};

BatchShare counts_of(const LabelledText& text) {
  const auto read = static_cast<double>(text.tokens.size());
  const auto written = static_cast<double>(text.written.size());
  return {text.written.empty() ? 1.0 : written,
          read,
          read * read,
          written,
          written * (written + 1) / 2,  // a token sees those before it
          written * read};
}

}  // namespace

void LossTerms::add(const LossTerms& batch) {
  labels += batch.labels;
  logits += batch.logits;
  hidden += batch.hidden;
  attention += batch.attention;
  scores += batch.scores;
}

std::vector<BatchShare> shares_of(std::span<const std::vector<const LabelledText*>> batches) {
  constexpr BatchShare kNone = {0, 0, 0, 0, 0, 0};
  BatchShare all = kNone;
  std::vector<BatchShare> shares;
  for (const auto& batch : batches) {
    BatchShare& own = shares.emplace_back(kNone);
    for (const LabelledText* text : batch) {
      const BatchShare counts = counts_of(*text);
      for (const auto count : kShares) {
        own.*count += counts.*count;
        all.*count += counts.*count;
      }
    }
  }
  for (BatchShare& share : shares) {
    for (const auto count : kShares) {
      share.*count = all.*count > 0 ? share.*count / all.*count : 0;
    }
  }
  return shares;
}

}  // namespace nibble::tune
