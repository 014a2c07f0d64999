#include <algorithm>
#include <memory>
#include <utility>

#include "device/cuda/gpu_for_tests.h"
#include "engine/cuda_models_for_tests.h"
#include "engine/engine.h"
#include "engine/fixed_sequences.h"
#include "engine/forwarding_runner.h"

// Steps of a GPU that are begun before the last one's results are taken, and pages that leave it.
namespace nibble::engine {
namespace {

class CudaStepsAhead : public device::GpuTest {};

// As it was before there were such steps.
class InTurns final : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  StepsAhead* ahead() override { return nullptr; }
};

std::vector<Slice> next_of(FixedSequences& sequences, std::span<const std::int32_t> tokens) {
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    slices.push_back(sequences.next(static_cast<std::int64_t>(i), tokens.subspan(i, 1)));
  }
  return slices;
}

std::vector<std::int32_t> ids_of(const std::vector<ops::RankedToken>& ranked) {
  std::vector<std::int32_t> tokens;
  for (const ops::RankedToken& token : ranked) {
    tokens.push_back(token.id);
  }
  return tokens;
}

// Steps that are launched, recorded and launched again, whose rows go on in another order; more
// rows than a block of threads has threads.
TEST_F(CudaStepsAhead, TakeTheirTokensFromTheLastStep) {
  constexpr int kSteps = 6;
  for (const std::int64_t batch : {1, 3, 40, 300}) {
    SCOPED_TRACE(batch);
    std::vector<std::int32_t> first;
    for (std::int64_t i = 0; i < batch; ++i) {
      first.push_back(static_cast<std::int32_t>(20 + i * 3));
    }
    const auto runner = open(rounded("int4-sym-g128"), kCuda);
    std::vector<std::vector<ops::RankedToken>> expected;
    {
      FixedSequences sequences(*runner, batch, 32);
      std::vector<std::int32_t> tokens = first;
      for (int step = 0; step < kSteps; ++step) {
        std::vector<ops::RankedToken> ranked;
        runner->forward_ranked(next_of(sequences, tokens), 1, ranked);
        tokens = ids_of(ranked);
        expected.push_back(ranked);
      }
    }
    StepsAhead* const ahead = runner->ahead();
    ASSERT_NE(ahead, nullptr);
    FixedSequences sequences(*runner, batch, 32);
    std::vector<std::int32_t> tokens = first;
    std::vector<std::vector<ops::RankedToken>> got;
    std::vector<ops::RankedToken> ranked;
    for (int step = 0; step < kSteps; ++step) {
      ahead->begin(next_of(sequences, tokens), {});
      for (std::int64_t i = 0; i < batch; ++i) {
        tokens[static_cast<std::size_t>(i)] = token_of_row(i);
      }
      if (step > 0) {
        ahead->finish(ranked);
        got.push_back(ranked);
      }
    }
    ahead->finish(ranked);
    got.push_back(ranked);
    EXPECT_EQ(got, expected);
  }
}

TEST_F(CudaStepsAhead, RefuseWhatThereIsNot) {
  const auto runner = open(rounded("int4-sym-g128"), kCuda);
  StepsAhead* const ahead = runner->ahead();
  FixedSequences sequences(*runner, 2, 32);
  std::vector<ops::RankedToken> ranked;
  EXPECT_THROW(ahead->finish(ranked), core::Error);
  const std::vector<std::int32_t> unknown = {token_of_row(0)};
  const Slice nothing_before = sequences.next(0, unknown);
  EXPECT_THROW(ahead->begin({&nothing_before, 1}, {}), core::Error);
  const std::vector<std::int32_t> known = {5};
  const Slice first = sequences.next(1, known);
  ahead->begin({&first, 1}, {});
  const std::vector<std::int32_t> beyond = {token_of_row(1)};
  const Slice too_far = sequences.next(1, beyond);
  EXPECT_THROW(ahead->begin({&too_far, 1}, {}), core::Error);
  ahead->finish(ranked);
  EXPECT_EQ(ranked.size(), 1u);
}

Request greedy_request(std::int64_t prompt, std::int64_t count) {
  Request request;
  for (std::int64_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<std::int32_t>(11 + (prompt + i * 7) % 90));
  }
  request.max_tokens = count;
  request.sampling.temperature = 0;
  request.ignore_end_tokens = true;
  return request;
}

std::vector<std::vector<std::int32_t>> texts_of(Engine& engine, int count, bool drawn) {
  std::vector<std::vector<std::int32_t>> texts(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    Request request = greedy_request(10 + 5 * i, 30 + 3 * i);
    if (drawn && i != 1) {
      request.sampling = {.temperature = 0.7f + 0.1f * static_cast<float>(i),
                          .top_k = i % 2 == 0 ? 0 : 64 - 10 * i,
                          .top_p = 0.9f,
                          .min_p = 0.01f,
                          .seed = static_cast<std::uint64_t>(i)};
    }
    request.on_finish = [&texts, i](const Completion& done) {
      EXPECT_FALSE(done.error);
      texts[static_cast<std::size_t>(i)] = done.tokens;
    };
    engine.submit(std::move(request));
  }
  engine.run_all();
  return texts;
}

// Steps of an engine have the same rows either way, so texts have the same bits; tokens are drawn
// on the device, or by the host.
TEST_F(CudaStepsAhead, GiveAnEngineTheSameTexts) {
  const auto model = rounded("int4-sym-g128");
  const std::shared_ptr<Runner> runner = open(model, kCuda);
  EngineOptions options;
  options.context = 128;
  for (const bool drawn : {false, true}) {
    SCOPED_TRACE(drawn);
    std::vector<std::vector<std::vector<std::int32_t>>> expected;
    {
      Engine engine(model, std::make_unique<InTurns>(runner), options);
      expected = {texts_of(engine, 5, drawn), texts_of(engine, 5, drawn)};
    }
    Engine engine(model, std::make_unique<ForwardingRunner>(runner), options);
    EXPECT_EQ(texts_of(engine, 5, drawn), expected[0]);
    EXPECT_EQ(texts_of(engine, 5, drawn), expected[1]) << "with prefixes that are there";
  }
}

// Pages that others have written to since, in other places.
TEST_F(CudaStepsAhead, SwappedPagesComeBackAsTheyWere) {
  const std::vector<std::int32_t> prompt = greedy_request(41, 1).prompt;
  const std::vector<std::int32_t> other = greedy_request(60, 1).prompt;
  const std::vector<std::int32_t> next = {77};
  for (const ops::KvType kv : {ops::KvType::kF16, ops::KvType::kInt8, ops::KvType::kInt4}) {
    const auto runner = open(rounded("int4-sym-g128"), kCuda, kv);
    runner->make_pages(12);
    SwappedPages* const swapped = runner->make_swap_space(8 * runner->page_bytes());
    ASSERT_NE(swapped, nullptr);
    const auto row_of = [&](const std::vector<ops::PageId>& pages) {
      const Slice slice{pages, std::ssize(prompt), next};
      const LogitsView logits = runner->forward({&slice, 1});
      return std::vector<float>(logits.values.begin(), logits.values.end());
    };
    const std::vector<ops::PageId> first = {0, 1, 2};
    const std::vector<ops::PageId> six = {3, 4, 5, 6, 8, 9};
    const Slice given{first, 0, prompt, 1, std::ssize(prompt)};
    runner->forward({&given, 1});
    const auto id = swapped->swap_out(first);
    ASSERT_TRUE(id);
    EXPECT_FALSE(swapped->swap_out(six)) << "there is room for five";
    const std::vector<float> expected = row_of(first);
    const std::vector<ops::PageId> others = {0, 1, 2, 3};
    const Slice written{others, 0, other, 1, std::ssize(other)};
    runner->forward({&written, 1});
    const std::vector<ops::PageId> back = {7, 11, 5};
    EXPECT_NE(row_of(back), expected);
    swapped->swap_in(*id, 0, back);
    EXPECT_EQ(row_of(back), expected);
    const std::vector<ops::PageId> partly = {7, 4, 6};  // the first page was found
    swapped->swap_in(*id, 1, std::span(partly).subspan(1));
    EXPECT_EQ(row_of(partly), expected);
    swapped->drop(*id);
    EXPECT_TRUE(swapped->swap_out(six));
  }
}

// Three texts where two find room: none is computed again, or ends otherwise.
TEST_F(CudaStepsAhead, SwapPreemptedTexts) {
  const auto model = rounded("int4-sym-g128");
  const std::shared_ptr<Runner> runner = open(model, kCuda, ops::KvType::kInt4);
  EngineOptions options;
  options.prefix_cache = false;
  options.kv_bytes = 13 * runner->page_bytes();
  options.swap_bytes = options.kv_bytes;
  Engine engine(model, std::make_unique<ForwardingRunner>(runner), options);
  int ended = 0;
  for (int i = 0; i < 3; ++i) {
    Request request = greedy_request(20 + i, 70);
    request.on_finish = [&](const Completion& done) {
      EXPECT_EQ(done.tokens.size(), 70u);
      ++ended;
    };
    engine.submit(std::move(request));
  }
  engine.run_all();
  EXPECT_EQ(ended, 3);
  EXPECT_GT(engine.state().preemptions, 0);
  EXPECT_GT(engine.state().swapped_tokens, 60);
}

}  // namespace
}  // namespace nibble::engine
