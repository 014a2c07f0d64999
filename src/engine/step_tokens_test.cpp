#include "engine/step_tokens.h"

#include <string>

#include <gtest/gtest.h>

namespace nibble::engine {
namespace {

template <typename Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kFailed);
    return error.what();
  }
  return "";
}

TEST(StepTokens, StandOneAfterAnotherWithTheirPositions) {
  StepTokens step(10);
  step.append(std::vector<std::int32_t>{3, 9}, 0);
  step.append(std::vector<std::int32_t>{0}, 7);
  EXPECT_EQ(std::vector<std::int32_t>(step.tokens().begin(), step.tokens().end()),
            (std::vector<std::int32_t>{3, 9, 0}));
  EXPECT_EQ(std::vector<std::int32_t>(step.positions().begin(), step.positions().end()),
            (std::vector<std::int32_t>{0, 1, 7}));
  EXPECT_EQ(step.size(), 3);
  step.clear();
  EXPECT_EQ(step.size(), 0);
}

TEST(StepTokens, RefusesIdsOutsideTheVocabulary) {
  StepTokens step(10);
  for (const std::int32_t token : {10, -1}) {
    EXPECT_EQ(message_of([&] {
                step.append({&token, 1}, 0);
              }),
              "token id " + std::to_string(token) + " lies outside the vocabulary of 10");
  }
}

TEST(StepTokens, SlicesSayWhichRowsTheyWant) {
  const std::vector<ops::PageId> pages = {4};
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  StepTokens step(10);
  step.append(Slice{pages, 0, tokens, 0});
  step.append(Slice{pages, 5, tokens, 2});
  step.append(Slice{pages, 13, tokens});
  EXPECT_EQ(std::vector<std::int32_t>(step.logit_rows().begin(), step.logit_rows().end()),
            (std::vector<std::int32_t>{4, 5, 8}));
  EXPECT_EQ(message_of([&] {
              step.append(Slice{pages, 14, tokens});
            }),
            "the context of 16 tokens is full");
  step.clear();
  EXPECT_TRUE(step.logit_rows().empty());
}

TEST(StepTokens, RefusesMoreThanASequenceHolds) {
  EXPECT_EQ(message_of([] { StepTokens::require_room(6, 2, 8); }), "");
  EXPECT_EQ(message_of([] { StepTokens::require_room(7, 2, 8); }),
            "the context of 8 tokens is full");
}

}  // namespace
}  // namespace nibble::engine
