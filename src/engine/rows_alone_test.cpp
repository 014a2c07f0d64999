#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "core/random.h"
#include "engine/fixed_sequences.h"
#include "engine/runner.h"
#include "formats/format.h"

// Whole models: the logits after a token are the same bits however the text before it was cut and
// whatever shared its batches. Where prompts are computed apart, texts that are given are one kind,
// texts as if a model had written them another.
namespace nibble::engine {
namespace {

using ops::ActivationPrecision;
using ops::KvType;
using ops::KvTypes;
using Logits = std::vector<float>;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kMost = 40;  // tokens of a slice

std::shared_ptr<models::Model> family(const std::string& name) {
  return models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/families" / name);
}

// A model with every layer of its blocks, but for routers, rounded to nearest.
std::shared_ptr<models::Model> rounded(std::shared_ptr<models::Model> model,
                                       const std::string& scheme) {
  for (models::Block& block : model->network.decoder.blocks) {
    for (ops::LinearSet* set : models::linear_sets(block)) {
      for (ops::Linear& part : set->parts) {
        if (!block.router || set != &*block.router) {
          part.weight =
              formats::round_to_nearest(core::to_float32(part.weight.dense), part.weight.n,
                                        part.weight.k, formats::parse_scheme(scheme));
        }
      }
    }
  }
  return model;
}

std::shared_ptr<models::Model> in_half(std::shared_ptr<models::Model> model) {
  for (models::Block& block : model->network.decoder.blocks) {
    for (ops::LinearSet* set : models::linear_sets(block)) {
      for (ops::Linear& part : set->parts) {
        const core::Tensor& dense = part.weight.dense;
        part.weight = formats::dense_weight(core::from_float32(
            core::to_float32(dense), {part.weight.n, part.weight.k}, core::DType::kF16));
      }
    }
  }
  return model;
}

// Random texts on one runner.
class Texts {
 public:
  Texts(const std::shared_ptr<models::Model>& model, KvTypes types, ActivationPrecision activations)
      : vocabulary_(model->network.config.vocabulary) {
    RunnerOptions options;
    options.cpu.threads = 2;
    options.cpu.activations = activations;
    options.kv_types = types;
    runner_ = make_cpu_runner(model, options);
    for (const std::size_t length : {75, 90, 33}) {
      Tokens tokens(length);
      for (std::int32_t& token : tokens) {
        token = static_cast<std::int32_t>(random_.below(vocabulary_));
      }
      texts_.push_back(std::move(tokens));
    }
  }

  bool are_alike() const { return runner_->prompts_are_alike(); }

  // Whether tokens are those of prompts from now on.
  void give(bool given) { given_ = given; }

  // Logits after every token, one token at a time and alone.
  std::vector<Logits> alone(std::size_t text) {
    std::vector<Logits> logits;
    FixedSequences sequence(*runner_, 1, std::ssize(texts_[text]));
    for (const std::int32_t& token : texts_[text]) {
      const Slice slice = marked(sequence.next(0, {&token, 1}));
      const auto row = runner_->forward({&slice, 1}).row(0);
      logits.emplace_back(row.begin(), row.end());
    }
    return logits;
  }

  // Of one text, in slices of at most `most` tokens, by the number of the last token of each.
  std::map<std::size_t, Logits> in_slices(std::size_t text, std::size_t most) {
    std::map<std::size_t, Logits> logits;
    const std::span<const std::int32_t> tokens = texts_[text];
    FixedSequences sequence(*runner_, 1, std::ssize(tokens));
    for (std::size_t done = 0; done < tokens.size();) {
      const std::size_t count = std::min(most, tokens.size() - done);
      const Slice slice = marked(sequence.next(0, tokens.subspan(done, count)));
      done += count;
      const auto row = runner_->forward({&slice, 1}).row(0);
      logits.emplace(done - 1, Logits(row.begin(), row.end()));
    }
    return logits;
  }

  // All texts together, cut at random.
  std::vector<std::map<std::size_t, Logits>> together() {
    std::vector<std::map<std::size_t, Logits>> logits(texts_.size());
    FixedSequences sequences(*runner_, std::ssize(texts_), 96);
    std::vector<std::size_t> done(texts_.size());
    while (done != lengths()) {
      std::vector<Slice> slices;
      std::vector<std::size_t> which;
      for (std::size_t t = 0; t < texts_.size(); ++t) {
        const std::size_t left = texts_[t].size() - done[t];
        const auto wanted = static_cast<std::size_t>(
            random_.below(3) == 0 ? 1 : random_.below(static_cast<std::int64_t>(kMost)));
        if (const std::size_t count = std::min(left, wanted); count > 0) {
          slices.push_back(marked(sequences.next(static_cast<std::int64_t>(t),
                                                 std::span(texts_[t]).subspan(done[t], count))));
          which.push_back(t);
          done[t] += count;
        }
      }
      if (slices.empty()) {
        continue;
      }
      const LogitsView view = runner_->forward(slices);
      for (std::size_t i = 0; i < which.size(); ++i) {
        const auto row = view.row(static_cast<std::int64_t>(i));
        logits[which[i]].emplace(done[which[i]] - 1, Logits(row.begin(), row.end()));
      }
    }
    return logits;
  }

  // As evaluation computes them.
  std::vector<Logits> scored(std::size_t text) {
    std::vector<Logits> logits;
    runner_->score(texts_[text], [&](std::int64_t, const LogitsView& view) {
      for (std::int64_t i = 0; i < view.rows; ++i) {
        logits.emplace_back(view.row(i).begin(), view.row(i).end());
      }
    });
    return logits;
  }

  std::size_t count() const { return texts_.size(); }

 private:
  Slice marked(Slice slice) const {
    slice.prompt_tokens = given_ ? std::ssize(slice.tokens) : 0;
    return slice;
  }

  std::vector<std::size_t> lengths() const {
    std::vector<std::size_t> lengths;
    for (const Tokens& text : texts_) {
      lengths.push_back(text.size());
    }
    return lengths;
  }

  core::Random random_{5};
  std::int64_t vocabulary_;
  bool given_ = false;
  std::unique_ptr<Runner> runner_;
  std::vector<Tokens> texts_;
};

void expect_same(const std::map<std::size_t, Logits>& some, const std::vector<Logits>& all,
                 const std::string& how) {
  ASSERT_FALSE(some.empty());
  for (const auto& [token, logits] : some) {
    ASSERT_EQ(logits, all[token]) << how << ", after token " << token;
  }
}

void check(Texts& texts, bool given) {
  texts.give(given);
  const auto together = texts.together();
  for (std::size_t t = 0; t < texts.count(); ++t) {
    const std::vector<Logits> alone = texts.alone(t);
    if (given || texts.are_alike()) {
      EXPECT_EQ(texts.scored(t), alone) << "scored";
    }
    expect_same(together[t], alone, "in a batch");
    for (const std::size_t most : {2, 7, 16, 31, 1000}) {
      expect_same(texts.in_slices(t, most), alone, "slices of " + std::to_string(most));
    }
  }
}

void check(const std::shared_ptr<models::Model>& model, KvTypes types,
           ActivationPrecision activations = ActivationPrecision::kInt8) {
  Texts texts(model, types, activations);
  check(texts, false);
  if (!texts.are_alike()) {
    check(texts, true);
  }
}

TEST(RowsAlone, DenseFamilies) {
  for (const char* name : {"llama", "qwen2-window", "qwen3", "mixtral", "qwen3-moe", "phi3",
                           "gemma2", "gemma3-text", "gpt2"}) {
    SCOPED_TRACE(name);
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kInt4, KvType::kFp8}) {
      check(family(name), type);
    }
  }
}

TEST(RowsAlone, HalfPrecision) {
  check(in_half(family("llama")), KvType::kF16);
  check(in_half(family("mixtral")), {KvType::kInt8, KvType::kInt4});
}

TEST(RowsAlone, RoundedFamilies) {
  for (const char* name : {"llama", "mixtral"}) {
    for (const char* scheme : {"int4-asym-g32", "lut4-nf4-g16", "int4-sym-g16-a4"}) {
      SCOPED_TRACE(std::string(name) + " in " + scheme);
      const auto model = rounded(family(name), scheme);
      check(model, KvType::kF16);
      check(model, KvType::kInt4);
      check(model, KvType::kF16, ActivationPrecision::kFloat);
      check(model, KvType::kF16, ActivationPrecision::kInt16);
    }
  }
}

}  // namespace
}  // namespace nibble::engine
