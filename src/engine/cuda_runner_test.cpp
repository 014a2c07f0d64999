#include <cmath>
#include <cstring>
#include <filesystem>

#include "device/cuda/gpu_for_tests.h"
#include "engine/engine.h"
#include "formats/format.h"

// Whole models on a GPU beside the same models on the CPU.
namespace nibble::engine {
namespace {

using core::ErrorKind;

std::shared_ptr<const models::Model> demo() {
  static const std::shared_ptr<const models::Model> model =
      models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo");
  return model;
}

/// Every layer of the blocks rounded to nearest.
std::shared_ptr<const models::Model> rounded(const std::string& scheme_text) {
  auto model = std::make_shared<models::Model>(*demo());
  const formats::Scheme scheme = formats::parse_scheme(scheme_text);
  for (models::Block& block : model->decoder.blocks) {
    for (ops::LinearSet* set : models::linear_sets(block)) {
      for (ops::Linear& part : set->parts) {
        part.weight = formats::round_to_nearest(core::to_float32(part.weight.dense), part.weight.n,
                                                part.weight.k, scheme);
      }
    }
  }
  return model;
}

std::unique_ptr<Runner> open(const std::shared_ptr<const models::Model>& model, Device device,
                             ops::cpu::KvTypes kv = ops::cpu::KvType::kF16) {
  RunnerOptions options;
  options.device = device;
  options.cpu.threads = 2;
  options.cpu.activations = ops::cpu::ActivationPrecision::kInt16;
  options.kv_types = kv;
  return make_runner(model, options);
}

const std::string kText = "A library is a place where books are kept and read. The first of them";

std::vector<std::int32_t> ids() {
  return demo()->tokenizer->encode(kText);
}

double nll(Runner& runner, std::span<const std::int32_t> tokens) {
  double sum = 0.0;
  runner.score(tokens, [&](std::int64_t first, const LogitsView& logits) {
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      const auto next = static_cast<std::size_t>(first + i + 1);
      if (next < tokens.size()) {
        double total = 0.0;
        for (const float value : logits.row(i)) {
          total += std::exp(static_cast<double>(value));
        }
        sum += std::log(total) - logits.row(i)[static_cast<std::size_t>(tokens[next])];
      }
    }
  });
  return sum / static_cast<double>(tokens.size() - 1);
}

std::vector<std::int32_t> greedy(Runner& runner, std::vector<std::int32_t> next, int count) {
  const SequenceId sequence = runner.open_sequence(static_cast<std::int64_t>(next.size()) + count);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    const Slice slice{sequence, next};
    const auto row = runner.forward({&slice, 1}).row(0);
    next = {static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin())};
    tokens.push_back(next.front());
  }
  runner.close_sequence(sequence);
  return tokens;
}

class CudaRunner : public device::GpuTest {};

TEST_F(CudaRunner, EverySchemeGivesTheLossOfTheCpu) {
  for (const char* scheme : {"int4-asym-g128", "int4-sym-g32", "int8-sym-row", "int3-asym-g64",
                             "lut4-nf4-g64", "mxfp4"}) {
    const auto model = rounded(scheme);
    const double expected = nll(*open(model, Device::kCpu), ids());
    EXPECT_NEAR(nll(*open(model, Device::kCuda), ids()), expected, 2e-3) << scheme;
  }
}

TEST_F(CudaRunner, WritesTheTokensOfTheCpu) {
  for (const char* scheme : {"int4-asym-g128", "lut4-nf4-g64"}) {
    const auto model = rounded(scheme);
    EXPECT_EQ(greedy(*open(model, Device::kCuda), ids(), 40),
              greedy(*open(model, Device::kCpu), ids(), 40))
        << scheme;
  }
}

TEST_F(CudaRunner, EachTypeOfCacheGivesTheLossOfTheCpu) {
  using ops::cpu::KvType;
  using ops::cpu::KvTypes;
  for (const KvTypes& kv : {KvTypes(KvType::kF32), KvTypes(KvType::kF16), KvTypes(KvType::kInt8),
                            KvTypes(KvType::kInt8, KvType::kInt4)}) {
    const double expected = nll(*open(demo(), Device::kCpu, kv), ids());
    EXPECT_NEAR(nll(*open(demo(), Device::kCuda, kv), ids()), expected, 1e-2);
  }
}

// Steps that are recorded and steps that are not, alone and beside others.
TEST_F(CudaRunner, ASequenceHasTheSameBitsInEveryBatch) {
  const auto runner = open(rounded("int4-sym-g128"), Device::kCuda);
  const std::vector<std::int32_t> prompt = ids();
  std::vector<SequenceId> sequences;
  for (int i = 0; i < 5; ++i) {
    sequences.push_back(runner->open_sequence(64));
    const Slice slice{sequences.back(), std::span(prompt).first(prompt.size() - 4)};
    runner->forward({&slice, 1});
  }
  for (std::size_t step = prompt.size() - 4; step < prompt.size(); ++step) {
    const std::span<const std::int32_t> token = std::span(prompt).subspan(step, 1);
    const Slice single{sequences[0], token};
    const LogitsView alone = runner->forward({&single, 1});
    const std::vector<float> expected(alone.values.begin(), alone.values.end());
    std::vector<Slice> others;
    for (std::size_t i = 1; i < sequences.size(); ++i) {
      others.push_back({sequences[i], token});
    }
    const LogitsView together = runner->forward(others);
    for (std::int64_t i = 0; i < together.rows; ++i) {
      EXPECT_EQ(0, std::memcmp(together.row(i).data(), expected.data(), expected.size() * 4))
          << "step " << step << ", sequence " << i;
    }
  }
}

TEST_F(CudaRunner, AFullContextIsSaid) {
  const auto runner = open(demo(), Device::kCuda);
  const std::vector<std::int32_t> prompt = ids();
  const SequenceId sequence = runner->open_sequence(static_cast<std::int64_t>(prompt.size()));
  const Slice all{sequence, prompt};
  runner->forward({&all, 1});
  const Slice more{sequence, std::span(prompt).first(1)};
  EXPECT_THROW(runner->forward({&more, 1}), core::Error);
}

TEST_F(CudaRunner, WhatItDoesNotRunIsRefused) {
  for (const char* scheme : {"nvfp4", "int8-sym-row-a8o", "int4-sym-g128-h128"}) {
    try {
      open(rounded(scheme), Device::kCuda);
      FAIL() << scheme << " was taken";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << scheme;
      EXPECT_NE(std::string(error.what()).find("use --device cpu"), std::string::npos)
          << error.what();
    }
  }
}

TEST(CudaRunnerAbsent, WithoutAGpuTheReasonIsGiven) {
  if (!device::cuda_devices().empty()) {
    GTEST_SKIP() << "there is a GPU";
  }
  EXPECT_THROW(open(demo(), Device::kCuda), core::Error);
}

}  // namespace
}  // namespace nibble::engine
