#pragma once

#include <span>
#include <vector>

#include "tune/qat/labelled_texts.h"

/// The loss of a student: its terms, and what a batch adds to them.
namespace nibble::tune {

/// What each term of the loss counts for; 0 leaves it out. Of layers, the sum over all of them
/// counts, and of a decoder's attention to an encoder as of another layer's.
struct LossWeights {
  double labels = 0;
  double logits = 0;
  double hidden = 0;     // states behind each block
  double attention = 0;  // normalized
  double scores = 0;     // attention before softmax

  bool needs_teacher() const { return logits > 0 || hidden > 0 || needs_scores(); }
  bool needs_scores() const { return attention > 0 || scores > 0; }
};

/// What a batch is of the step that it belongs to; 1: all of it.
struct BatchShare {
  double answers = 1;  // texts, or tokens that a decoder writes
  double read = 1;     // tokens that an encoder reads
  double read_pairs = 1;
  double written = 1;  // tokens of a decoder
  double written_pairs = 1;
  double memory_pairs = 1;  // of a token of the decoder and one of the encoder
};

/// The shares of batches that make one step together.
std::vector<BatchShare> shares_of(std::span<const std::vector<const LabelledText*>> batches);

/// What the terms were on a batch; 0 where one was left out.
struct LossTerms {
  double labels = 0;
  double logits = 0;
  double hidden = 0;
  double attention = 0;
  double scores = 0;

  double total(const LossWeights& weights) const {
    return weights.labels * labels + weights.logits * logits + weights.hidden * hidden +
           weights.attention * attention + weights.scores * scores;
  }
  void add(const LossTerms& batch);
};

}  // namespace nibble::tune
