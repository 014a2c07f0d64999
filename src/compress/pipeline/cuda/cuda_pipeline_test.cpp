#include <cmath>
#include <numeric>
#include <utility>

#include "compress/calibration/calibration.h"
#include "compress/pipeline/pipeline.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "compress/recipe/recipe.h"
#include "device/cuda/gpu_for_tests.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

// Whole recipes on the GPU beside the CPU.
namespace nibble::compress {
namespace {

const std::filesystem::path kDemo = std::filesystem::path(NIBBLE_SOURCE_DIR) / "models/demo";

// exp of the mean negative log-likelihood of a text that no recipe has seen.
double perplexity(const models::Model& model, ops::cpu::CpuOps& ops) {
  CalibrationOptions options;
  options.texts = {source_text("models/demo/texts/evaluation.txt")};
  options.samples = 8;
  options.seq_len = 256;
  double sum = 0;
  double count = 0;
  for (const auto& window : read_calibration(model, options)) {
    std::vector<std::int32_t> positions(window.size());
    std::iota(positions.begin(), positions.end(), 0);
    const ops::SequenceSlice<ops::cpu::KvCache> alone{nullptr, 0, 0,
                                                      static_cast<std::int64_t>(window.size())};
    const models::Batch<ops::cpu::CpuOps> batch{window, positions, {&alone, 1}};
    const auto logits = models::forward(ops, model.network, batch, positions);
    for (std::size_t i = 0; i + 1 < window.size(); ++i) {
      const float* row = logits.row(static_cast<std::int64_t>(i));
      const float largest = *std::max_element(row, row + logits.columns());
      double total = 0;
      for (std::int64_t j = 0; j < logits.columns(); ++j) {
        total += std::exp(static_cast<double>(row[j] - largest));
      }
      sum += std::log(total) - static_cast<double>(row[window[i + 1]] - largest);
      ++count;
    }
  }
  return std::exp(sum / count);
}

// The codes of a row by the model's inputs. Those of a tail are told from others.
std::vector<int> codes_by_input(const formats::PackedWeight& weight, std::int64_t row) {
  const auto k = static_cast<std::size_t>(weight.k);
  std::vector<std::uint8_t> codes(k);
  if (weight.scheme.inputs.tail == 0) {
    formats::unpack_codes(weight, row, codes);
    return {codes.begin(), codes.end()};
  }
  const formats::PackedWeight head = formats::head_of(weight);
  const auto before = static_cast<std::size_t>(head.k);
  formats::unpack_codes(head, row, std::span(codes).first(before));
  formats::unpack_codes(formats::tail_of(weight), row, std::span(codes).subspan(before));
  const auto order = weight.permutation.data<std::int32_t>();
  constexpr int kOfTail = 256;
  std::vector<int> by_input(k);
  for (std::size_t i = 0; i < k; ++i) {
    by_input[static_cast<std::size_t>(order[i])] = codes[i] + (i < before ? 0 : kOfTail);
  }
  return by_input;
}

// Share of codes that two forms of a layer have in common.
double share_of_equal_codes(const formats::PackedWeight& a, const formats::PackedWeight& b) {
  double equal = 0;
  for (std::int64_t row = 0; row < a.n; ++row) {
    const std::vector<int> codes_of_a = codes_by_input(a, row);
    const std::vector<int> codes_of_b = codes_by_input(b, row);
    for (std::size_t i = 0; i < codes_of_a.size(); ++i) {
      equal += codes_of_a[i] == codes_of_b[i] ? 1 : 0;
    }
  }
  return equal / static_cast<double>(a.n * a.k);
}

// What a recipe makes of the model, and how far the perplexities of two devices may lie apart.
// Methods that make up for errors, or choose among candidates, turn a difference in the last bit
// into another code here and there, which changes what later blocks see: with another BLAS on the
// same CPU, the perplexity of gptq-w4g128 changes by 0.5 % too.
struct Whole {
  const char* recipe;
  double tolerance;
};

class CudaPipeline : public device::GpuTest, public testing::WithParamInterface<Whole> {};

TEST_P(CudaPipeline, GivesTheModelThatTheCpuGives) {
  const auto model = models::open_model(kDemo);
  const Recipe recipe = find_recipe(GetParam().recipe);
  PipelineOptions options = small_job_on_text(16, 256, 2);
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const Quantized on_cpu = quantize_in_memory(*model, recipe, options, core::silent_progress());
  options.place = {device::Kind::kCuda, 0};
  Interrupted progress("");
  const Quantized on_gpu = quantize_in_memory(*model, recipe, options, progress);
  EXPECT_NE(progress.messages().find("on the GPU: forward passes and statistics"),
            std::string::npos)
      << progress.messages();
  EXPECT_EQ(on_gpu.model->compression.recipe, on_cpu.model->compression.recipe);
  EXPECT_EQ(on_gpu.model->compression.schemes, on_cpu.model->compression.schemes);
  ASSERT_EQ(on_gpu.layers.size(), on_cpu.layers.size());
  // The first block sees the same inputs on both.
  const auto sets =
      models::linear_sets(std::as_const(on_gpu.model->network.decoder.blocks.front()));
  const auto expected_sets =
      models::linear_sets(std::as_const(on_cpu.model->network.decoder.blocks.front()));
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t part = 0; part < sets[i]->parts.size(); ++part) {
      const double share =
          share_of_equal_codes(sets[i]->parts[part].weight, expected_sets[i]->parts[part].weight);
      EXPECT_GE(share, 0.995) << sets[i]->parts[part].name;
    }
  }
  const double plain = perplexity(*model, ops);
  const double expected = perplexity(*on_cpu.model, ops);
  const double got = perplexity(*on_gpu.model, ops);
  if (recipe.scheme.code.bits < 8) {  // INT8 loses less than a text tells
    EXPECT_GT(expected, plain);
  }
  EXPECT_NEAR(got, expected, GetParam().tolerance * expected);
  std::printf("%s: dense %.4f, on the CPU %.4f, on the GPU %.4f\n", GetParam().recipe, plain,
              expected, got);
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaPipeline,
    testing::Values(Whole{"any4g128", 0.002}, Whole{"gptq-w4g128", 0.01}, Whole{"awq-w4g128", 0.01},
                    Whole{"any4g128-gptq-refine", 0.01}, Whole{"awq-gptq-w4g128", 0.015},
                    Whole{"gptq-w3g128", 0.03}, Whole{"smoothquant-w8a8", 0.01},
                    Whole{"atom-w4a4", 0.03}, Whole{"atom-rot-w4a4", 0.03},
                    Whole{"atom-w3a3", 0.03}, Whole{"atom-fp4", 0.03}, Whole{"atom-rot-fp4", 0.03},
                    Whole{"quarot-w4a4", 0.03}),
    [](const auto& parameter) {
      std::string name = parameter.param.recipe;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

using CudaPipelineLog = device::GpuTest;

// An interrupted job that goes on ends in the same bytes.
TEST_F(CudaPipelineLog, GivesTheSameCodesEachTime) {
  const auto model = models::open_model(kDemo);
  PipelineOptions options = small_job_on_text(4, 200, 2);
  options.place = {device::Kind::kCuda, 0};
  for (const char* recipe : {"awq-gptq-w4g128", "any4g128", "atom-w4a4"}) {
    const Quantized first =
        quantize_in_memory(*model, find_recipe(recipe), options, core::silent_progress());
    const Quantized second =
        quantize_in_memory(*model, find_recipe(recipe), options, core::silent_progress());
    const auto a = models::linear_sets(std::as_const(first.model->network.decoder.blocks.back()));
    const auto b = models::linear_sets(std::as_const(second.model->network.decoder.blocks.back()));
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(share_of_equal_codes(a[i]->parts[0].weight, b[i]->parts[0].weight), 1.0) << recipe;
    }
  }
}

// The output layer too, and passes that have no form on the GPU: said, and done.
TEST_F(CudaPipelineLog, SaysWhatRunsOnTheCpu) {
  const auto model = models::open_model(kDemo);
  PipelineOptions options = small_job_on_text(2, 64, 2);
  options.place = {device::Kind::kCuda, 0};
  Interrupted progress("");
  const Recipe recipe =
      with_output(find_recipe("rtn-w4g128-search"), formats::parse_scheme("int8-sym-g32"));
  const Quantized result = quantize_in_memory(*model, recipe, options, progress);
  EXPECT_NE(progress.messages().find("on the CPU: search, rtn"), std::string::npos)
      << progress.messages();
  EXPECT_EQ(result.layers.size(), 6u * 7u + 1u);
}

}  // namespace
}  // namespace nibble::compress
