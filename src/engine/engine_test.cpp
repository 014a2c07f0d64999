#include "engine/engine.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/fixed_sequences.h"
#include "engine/ngram_drafts.h"
#include "engine/stop_strings.h"
#include "formats/format.h"

namespace nibble::engine {
namespace {

const std::filesystem::path kDemo = std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo";

std::shared_ptr<const models::Model> demo() {
  static const std::shared_ptr<const models::Model> model = models::open_model(kDemo);
  return model;
}

std::unique_ptr<Engine> make_engine(int threads, std::int64_t max_batch = 16) {
  RunnerOptions options;
  options.cpu.threads = threads;
  return std::make_unique<Engine>(demo(), make_cpu_runner(demo(), options),
                                  EngineOptions{.max_batch = max_batch});
}

const char* const kPrompts[] = {"The memory bus", "Once upon a time there was a",
                                "In 1923 the river", "A number format stores"};

std::vector<Completion> generate(Engine& engine, const std::vector<std::string>& prompts,
                                 std::int64_t tokens, float temperature) {
  std::vector<Completion> completions(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Request request;
    request.prompt = demo()->tokenizer->encode(prompts[i]);
    request.max_tokens = tokens;
    request.sampling.temperature = temperature;
    request.sampling.seed = 17;
    request.on_finish = [&completions, i](const Completion& completion) {
      completions[i] = completion;
    };
    engine.submit(std::move(request));
  }
  engine.run_all();
  return completions;
}

TEST(Engine, TokensDoNotDependOnThreadsOrTheBatch) {
  const std::vector<std::string> prompts(std::begin(kPrompts), std::end(kPrompts));
  const auto together = generate(*make_engine(2), prompts, 40, 0.0f);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    for (const int threads : {1, 2, 3}) {
      const auto alone = generate(*make_engine(threads, 1), {prompts[i]}, 40, 0.0f);
      EXPECT_EQ(alone[0].tokens, together[i].tokens)
          << prompts[i] << " with " << threads << " threads";
    }
  }
}

// Preempted and computed again, with cached prefixes, with drafts, in chunks: the tokens are those
// of a request alone.
TEST(Engine, TokensDoNotDependOnWhatTheKvCacheGoesThrough) {
  std::vector<std::string> prompts;
  for (int i = 0; i < 3; ++i) {
    for (const char* prompt : kPrompts) {
      prompts.push_back("The history of the city begins where two rivers meet. " +
                        std::string(prompt));
    }
  }
  std::vector<std::vector<std::int32_t>> expected;
  for (const std::string& prompt : prompts) {
    expected.push_back(generate(*make_engine(2, 1), {prompt}, 60, 0.9f)[0].tokens);
  }
  for (const bool drafts : {false, true}) {
    RunnerOptions runner_options;
    runner_options.cpu.threads = 2;
    auto runner = make_cpu_runner(demo(), runner_options);
    EngineOptions options;
    options.kv_bytes = 14 * runner->page_bytes();
    options.prefill_rows = 24;
    Engine engine(demo(), std::move(runner), options,
                  drafts ? std::make_unique<NgramDrafts>(4) : nullptr);
    const auto completions = generate(engine, prompts, 60, 0.9f);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(completions[i].tokens, expected[i]) << prompts[i];
    }
    EXPECT_GT(engine.state().preemptions, 0);
    EXPECT_GT(engine.state().prefix_hits, 0);
    EXPECT_EQ(engine.state().accepted_drafts > 0, drafts);
  }
}

TEST(Engine, SamplingRepeatsWithItsSeed) {
  const auto first = generate(*make_engine(2), {kPrompts[1]}, 30, 1.0f);
  const auto second = generate(*make_engine(1), {kPrompts[1]}, 30, 1.0f);
  EXPECT_EQ(first[0].tokens, second[0].tokens);
}

TEST(Engine, ThePiecesAreTheText) {
  auto engine = make_engine(2);
  std::string streamed;
  Completion completion;
  Request request;
  request.prompt = demo()->tokenizer->encode(kPrompts[0]);
  request.max_tokens = 50;
  request.on_piece = [&](const Piece& piece) { streamed += piece.text; };
  request.on_finish = [&](const Completion& done) { completion = done; };
  engine->submit(request);
  engine->run_all();
  EXPECT_EQ(streamed, completion.text);
  EXPECT_EQ(completion.text, demo()->tokenizer->decode(completion.tokens));
  EXPECT_EQ(completion.reason, FinishReason::kLength);
}

TEST(Engine, EndsBeforeAStopString) {
  const auto whole = generate(*make_engine(1), {kPrompts[0]}, 30, 0.0f);
  const std::string& text = whole[0].text;
  const std::string stop = text.substr(text.size() / 2, 4);
  auto engine = make_engine(1);
  Completion completion;
  Request request;
  request.prompt = demo()->tokenizer->encode(kPrompts[0]);
  request.sampling.temperature = 0;
  request.stop = {stop};
  request.on_finish = [&](const Completion& done) { completion = done; };
  engine->submit(request);
  engine->run_all();
  EXPECT_EQ(completion.text, text.substr(0, text.find(stop)));
  EXPECT_EQ(completion.reason, FinishReason::kStop);
}

TEST(Engine, RefusesWhatCannotBeServed) {
  auto engine = make_engine(1);
  Request request;
  EXPECT_THROW(engine->submit(request), core::Error);
  request.prompt.assign(5000, 1);
  EXPECT_THROW(engine->submit(request), core::Error);
  request.prompt = {1};
  request.max_tokens = 0;
  EXPECT_THROW(engine->submit(request), core::Error);
  request.max_tokens = 1;
  request.sampling.top_p = 0;
  EXPECT_THROW(engine->submit(request), core::Error);
  request.sampling.top_p = 1;
  request.prompt = {1 << 20};
  EXPECT_THROW(engine->submit(request), core::Error) << "a token outside the vocabulary";
}

formats::PackedWeight packed(const core::Tensor& table) {
  return formats::round_to_nearest(core::to_float32(table), table.dim(0), table.dim(1),
                                   formats::parse_scheme("int8-sym-g32"));
}

// The demo model with packed blocks and an output layer of its own.
std::shared_ptr<models::Model> with_output(formats::PackedWeight weight) {
  auto model = std::make_shared<models::Model>(*demo());
  for (models::Block& block : model->network.decoder.blocks) {
    for (ops::LinearSet* set : models::linear_sets(block)) {
      for (ops::Linear& part : set->parts) {
        part.weight = packed(part.weight.dense);
      }
    }
  }
  model->network.output.parts.front().weight = std::move(weight);
  model->network.config.tied_output = false;
  return model;
}

// Logits of the last token of each prompt, together in one call.
std::vector<float> logits_of(Runner& runner, const std::vector<std::string>& prompts) {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<Slice> slices;
  for (const std::string& prompt : prompts) {
    tokens.push_back(demo()->tokenizer->encode(prompt));
  }
  FixedSequences sequences(runner, std::ssize(tokens), 64);
  for (const auto& ids : tokens) {
    slices.push_back(sequences.next(std::ssize(slices), ids));
  }
  const LogitsView logits = runner.forward(slices);
  return {logits.values.begin(), logits.values.end()};
}

// It runs by the packed kernels: the same bits in every batch, its stored bytes for each token, and
// no second copy in memory.
TEST(Engine, RunsAPackedOutputLayer) {
  const core::Tensor& table = demo()->network.embeddings.tokens.plain();
  const auto coded = with_output(packed(table));
  const auto dense = with_output(formats::dense_weight(table));
  RunnerOptions options;
  options.cpu.threads = 2;
  const auto runner = make_cpu_runner(coded, options);
  const auto reference = make_cpu_runner(dense, options);
  const std::vector<std::string> prompts(std::begin(kPrompts), std::end(kPrompts));
  const std::vector<float> together = logits_of(*runner, prompts);
  const std::vector<float> expected = logits_of(*reference, prompts);
  std::vector<float> alone;
  for (const std::string& prompt : prompts) {
    const auto logits = logits_of(*runner, {prompt});
    alone.insert(alone.end(), logits.begin(), logits.end());
  }
  EXPECT_EQ(together, alone);
  double error = 0;
  double total = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(together[i]) - expected[i], 2);
    total += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_GT(error, 0.0);
  EXPECT_LT(error, 1e-4 * total);
  const std::int64_t saved =
      table.bytes() - formats::stored_bytes(coded->network.output.parts.front().weight);
  EXPECT_EQ(reference->bytes_per_token() - runner->bytes_per_token(), saved);
  EXPECT_LT(make_cpu_runner(coded, options)->peak_bytes(),
            make_cpu_runner(dense, options)->peak_bytes() - saved * 3 / 4);
}

TEST(StopStrings, HoldBackOnlyWhatMayBecomeAStop) {
  StopStrings stop({"END", "\n\n", ""});
  EXPECT_EQ(stop.push("abcE"), "abc");
  EXPECT_EQ(stop.push("Nx"), "ENx");
  EXPECT_EQ(stop.push("\n"), "");
  EXPECT_EQ(stop.push("yEN"), "\ny");
  EXPECT_FALSE(stop.found());
  EXPECT_EQ(stop.push("D tail"), "");
  EXPECT_TRUE(stop.found());
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.flush(), "");
}

}  // namespace
}  // namespace nibble::engine
