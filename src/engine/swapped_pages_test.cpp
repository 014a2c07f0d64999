#include <gtest/gtest.h>

#include "engine/schedule_for_tests.h"

// Preempted sequences whose pages are kept in the host's memory.
namespace nibble::engine {
namespace {

using namespace testing;

TEST(SwappedPages, ChangeNothing) {
  for (std::uint64_t seed = 40; seed < 46; ++seed) {
    SCOPED_TRACE(seed);
    random_load(seed, {.pages = 12,
                       .prefill_rows = 48,
                       .prefix_cache = seed % 3 != 0,
                       .prompts_alike = seed % 4 != 0,
                       .steps_ahead = seed % 2 == 0,
                       .swapped_pages = seed < 44 ? 100 : 7,  // room for all, and for some
                       .plain_requests = seed % 2 == 0,
                       .drafts = nullptr});
  }
}

// Every token is computed once.
TEST(SwappedPages, NothingIsComputedAgain) {
  for (const bool ahead : {false, true}) {
    const Tested tested =
        make_engine({.pages = 8, .steps_ahead = ahead, .swapped_pages = 100, .drafts = nullptr});
    std::int64_t rows = 0;
    tested.runner->on_step = [&](std::span<const Slice> slices) {
      for (const Slice& slice : slices) {
        rows += std::ssize(slice.tokens);
      }
    };
    std::vector<Completion> completions(3);
    for (std::size_t i = 0; i < 3; ++i) {
      Request request = plain(20 + static_cast<std::int64_t>(i), 60);
      request.cache_salt = std::to_string(i);
      request.on_finish = [&completions, i](const Completion& done) { completions[i] = done; };
      tested.engine->submit(request);
    }
    tested.engine->run_all();
    EXPECT_GT(tested.engine->state().preemptions, 0);
    EXPECT_GT(tested.engine->state().swapped_tokens, 0);
    EXPECT_EQ(rows, 20 + 21 + 22 + 3 * 59);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(completions[i].tokens,
                run_alone(plain(20 + static_cast<std::int64_t>(i), 60)).tokens);
    }
  }
}

TEST(SwappedPages, OfCancelledRequestsAreGivenBack) {
  const Tested tested = make_engine({.pages = 8, .swapped_pages = 100, .drafts = nullptr});
  std::vector<RequestId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(tested.engine->submit(plain(20 + i, 60)));
  }
  while (tested.runner->swap_room() == 100) {
    ASSERT_TRUE(tested.engine->step());
  }
  for (const RequestId id : ids) {
    tested.engine->cancel(id);
  }
  EXPECT_EQ(tested.runner->swap_room(), 100);
  EXPECT_EQ(tested.engine->state().pages_in_use, 0);
}

}  // namespace
}  // namespace nibble::engine
