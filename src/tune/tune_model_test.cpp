// Whole tuning jobs on the small models of the families.

#include "tune/tune_model.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "core/error.h"
#include "formats/block_sparse.h"
#include "io/temporary_folder_for_tests.h"
#include "models/forward.h"
#include "tune/tune_block.h"
#include "tune/tune_model_for_tests.h"
#include "tune/tune_network.h"

namespace nibble::tune {
namespace {

namespace fs = std::filesystem;
using compress::Interrupted;

TEST_F(TuneModel, BringsTheModelNearerToTheFloatOneInTheSameScheme) {
  for (const char* family : {"llama", "gpt2", "opt"}) {
    for (const char* recipe : {"gqsa-w4s50", "gqsa-w4s50-t16", "rtn-w4g16", "rtn-w4g16-sym"}) {
      const auto before = quantized(family, recipe);
      TuningOptions options = small_options();
      options.blocks.zero_rate = options.model.zero_rate = 1.0;
      options.model.epochs = 8;
      Interrupted progress("");
      tune(*before, family, "tuned", options, progress);
      const auto after = models::open_model(folder_ / "tuned");
      EXPECT_EQ(after->compression.recipe, std::string(recipe) + "-bqpo-e2e");
      EXPECT_EQ(after->compression.schemes, before->compression.schemes);
      const auto float_model = teacher(family);
      EXPECT_LT(divergence(*after, *float_model, options),
                0.9 * divergence(*before, *float_model, options))
          << family << " " << recipe;
      EXPECT_NE(progress.messages().find("memory: about"), std::string::npos);
      fs::remove_all(folder_ / "tuned");
    }
  }
}

// Groups of floats have weights alone to be trained, block by block.
TEST_F(TuneModel, TrainsGroupsOfFloats) {
  const auto before = quantized("llama", "gqsa-f16s50");
  TuningOptions options = small_options();
  options.model.runs = false;
  tune(*before, "llama", "tuned", options);
  const auto after = models::open_model(folder_ / "tuned");
  EXPECT_EQ(after->compression.schemes, before->compression.schemes);
  EXPECT_EQ(after->compression.recipe, "gqsa-f16s50-bqpo");
  const auto float_model = teacher("llama");
  EXPECT_LT(divergence(*after, *float_model, options),
            0.9 * divergence(*before, *float_model, options));
  options.model.runs = true;
  EXPECT_THROW(tune(*before, "llama", "whole", options), core::Error);
}

// Codes that are trained, too, bring the model nearer than scales alone.
TEST_F(TuneModel, TrainsCodesThroughTheWholeModel) {
  for (const char* recipe : {"gqsa-w4s50", "rtn-w2g16"}) {
    const auto before = quantized("llama", recipe);
    const auto float_model = teacher("llama");
    TuningOptions options = small_options();
    options.blocks.runs = false;
    options.model.epochs = 12;
    const auto trained = [&](const std::string& name, double code_rate) {
      options.model.code_rate = code_rate;
      tune(*before, "llama", name, options);
      return models::open_model(folder_ / name);
    };
    const auto scales = trained(std::string(recipe) + "-scales", 0.0);
    const auto codes = trained(std::string(recipe) + "-codes", 10.0);
    EXPECT_EQ(codes->compression.schemes, before->compression.schemes);
    EXPECT_LT(divergence(*codes, *float_model, options),
              0.8 * divergence(*scales, *float_model, options))
        << recipe;
    const auto codes_of = [](const models::Model& model) {
      const ops::LinearSet& down = model.network.decoder.blocks[0].mlp->down;
      const auto bytes = down.parts[0].weight.codes.data<std::uint8_t>();
      return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
    };
    EXPECT_EQ(codes_of(*scales), codes_of(*before)) << recipe;
    EXPECT_NE(codes_of(*codes), codes_of(*before)) << recipe;
    EXPECT_EQ(codes_of(*codes).size(), codes_of(*before).size()) << recipe;  // pruned stays so
  }
}

// What is not in the blocks, and which groups are stored, stays bit for bit.
TEST_F(TuneModel, KeepsThePatternAndTheRest) {
  const auto before = quantized("llama", "gqsa-w4s50");
  tune(*before, "llama", "tuned", small_options());
  const auto after = models::open_model(folder_ / "tuned");
  for (std::size_t b = 0; b < before->network.decoder.blocks.size(); ++b) {
    const auto sets = models::linear_sets(before->network.decoder.blocks[b]);
    const auto tuned = models::linear_sets(after->network.decoder.blocks[b]);
    for (std::size_t s = 0; s < sets.size(); ++s) {
      for (std::size_t p = 0; p < sets[s]->parts.size(); ++p) {
        const formats::PackedWeight& old = sets[s]->parts[p].weight;
        const formats::PackedWeight& now = tuned[s]->parts[p].weight;
        ASSERT_EQ(formats::stored_group_count(old), formats::stored_group_count(now));
        for (std::int64_t at = 0; at < formats::stored_group_count(old); ++at) {
          ASSERT_EQ(formats::stored_group(old, at), formats::stored_group(now, at));
        }
      }
    }
  }
  for (const std::string& name : before->source->names()) {
    if (name.find("layers.") == std::string::npos || name.find("norm") != std::string::npos) {
      const core::Tensor old = before->source->load(name);
      const core::Tensor now = after->source->load(name);
      EXPECT_TRUE(std::equal(old.raw(), old.raw() + old.bytes(), now.raw())) << name;
    }
  }
}

TEST_F(TuneModel, GoesOnToTheSameBytes) {
  const auto model = quantized("llama", "rtn-w4g16");
  TuningOptions options = small_options();
  options.model.code_rate = 0.1;
  options.csv = folder_ / "loss.csv";
  const auto whole = tune(*model, "llama", "whole", options);
  const auto curve = io::folder_contents(folder_.path()).at("loss.csv");
  fs::remove(*options.csv);
  // Stopped in the second block, and between two states of the whole model.
  int stops = 0;
  for (const char* job : {"block 2: bqpo", "the whole model: e2e-oqp"}) {
    class Stopped : public Interrupted {
     public:
      explicit Stopped(std::string job) : Interrupted(""), job_(std::move(job)) {}
      void update(std::int64_t done, std::string_view note) override {
        if (jobs().back() == job_ && done == 2) {
          throw std::runtime_error("stopped");
        }
        Interrupted::update(done, note);
      }

     private:
      std::string job_;
    } progress(job);
    try {
      tune(*model, "llama", "halves", options, progress, stops > 0);
      ADD_FAILURE() << job;
    } catch (const std::runtime_error&) {
      ++stops;
    }
  }
  EXPECT_EQ(stops, 2);
  EXPECT_THROW(tune(*model, "llama", "halves", options), core::Error);  // without --resume
  TuningOptions others = options;
  others.seed = 5;
  EXPECT_THROW(tune(*model, "llama", "halves", others, core::silent_progress(), true), core::Error);
  EXPECT_EQ(tune(*model, "llama", "halves", options, core::silent_progress(), true), whole);
  EXPECT_EQ(io::folder_contents(folder_.path()).at("loss.csv"), curve);
}

TEST_F(TuneModel, GivesTheSameBytesForAnyNumberOfThreads) {
  const auto model = quantized("llama", "gqsa-w4s50");
  TuningOptions options = small_options();
  options.model.code_rate = 0.1;
  const auto two = tune(*model, "llama", "two", options);
  options.threads = 1;
  EXPECT_EQ(tune(*model, "llama", "one", options), two);
}

// Only the inputs of blocks are kept then, and each block is computed a second time.
TEST_F(TuneModel, GivesTheSameBytesWithLittleMemory) {
  const auto model = quantized("gpt2", "rtn-w4g16");
  TuningOptions options = small_options();
  options.blocks.runs = false;
  options.model.zero_rate = 1.0;
  for (const double code_rate : {0.0, 0.1}) {
    options.model.code_rate = code_rate;
    options.memory = 0;
    const std::string name = code_rate > 0 ? "-codes" : "";
    const auto much = tune(*model, "gpt2", "much" + name, options);
    options.memory = 1;
    EXPECT_EQ(tune(*model, "gpt2", "little" + name, options), much);
  }
}

// Batches of a step are that of one large batch, but for rounding; 7 windows are learned, so that
// the last step has fewer.
TEST_F(TuneModel, BatchesOfAStepAreOneLargeBatch) {
  const auto model = quantized("llama", "rtn-w4g16");
  TuningOptions options = small_options();
  options.calibration.samples = 8;
  options.blocks.epochs = 1;
  options.blocks.learning_rate = 1e-4;
  options.model.learning_rate = 1e-4;
  options.batch = 4;
  options.csv = folder_ / "large.csv";
  tune(*model, "llama", "large", options);
  options.batch = 1;
  options.accumulate = 4;
  options.csv = folder_ / "small.csv";
  tune(*model, "llama", "small", options);
  const auto large = losses_in(folder_ / "large.csv");
  ASSERT_EQ(large.size(), 8U);  // two steps of each of two blocks, and two times two
  expect_near_losses(folder_ / "small.csv", large, 1e-3, "small");
}

TEST_F(TuneModel, LearnsOneBatchByHeart) {
  const auto model = quantized("llama", "rtn-w4g16");
  TuningOptions options = small_options();
  options.calibration.samples = 3;
  options.loss = {1.0, 0.0};
  options.model.epochs = 60;
  options.model.learning_rate = 0.03;
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const auto tokens = compress::read_calibration(*model, options.calibration);
  const WindowBatches windows(tokens, 2);
  ASSERT_EQ(windows.steps(), 1);
  LossCurve curve(folder_ / "loss.csv");
  ModelGain gain;
  const auto device = make_tuning_device(options.place, options.precision, ops);
  (void)tune_network(model->network, teacher("llama")->network, windows, options, *device,
                     folder_ / "state", curve, core::silent_progress(), gain);
  curve.save();
  const std::vector<double> losses = losses_in(folder_ / "loss.csv");
  ASSERT_EQ(losses.size(), 60u);
  EXPECT_LT(losses.back(), 0.6 * losses.front());
}

TEST_F(TuneModel, StopsWhereALossIsNotFinite) {
  const auto model = quantized("llama", "rtn-w4g16");
  TuningOptions options = small_options();
  options.blocks.learning_rate = 1e30;
  try {
    tune(*model, "llama", "tuned", options);
    ADD_FAILURE();
  } catch (const core::Error& error) {
    EXPECT_NE(std::string(error.what()).find("step "), std::string::npos) << error.what();
  }
  EXPECT_FALSE(fs::exists(folder_ / "tuned"));
}

TEST_F(TuneModel, RefusesWhatItDoesNotTune) {
  const TuningOptions options = small_options();
  const auto expect_refused = [&](const models::Model& model, const std::string& family,
                                  const std::string& what) {
    try {
      tune(model, family, "refused", options);
      ADD_FAILURE() << what;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kUsage) << error.what();
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
    EXPECT_FALSE(fs::exists(folder_ / ".refused.partial"));
  };
  expect_refused(*teacher("llama"), "llama", "no compressed layers");
  expect_refused(*quantized("mixtral", "rtn-w4g16"), "mixtral", "mixtures of experts");
  expect_refused(*quantized("llama", "nf4g64"), "llama", "are not tuned");
  expect_refused(*quantized("llama", "gqsa-f16s50"), "llama", "f16-g16-bsr have no scales");
  expect_refused(*quantized("llama", "rtn-w4g16"), "gpt2", "its shape is another");
  expect_refused(*quantized("llama", "quarot-rtn-w4g16"), "llama", "it was rotated");
  expect_refused(*teacher("bert"), "bert", "has an encoder");
  TuningOptions short_windows = options;
  short_windows.calibration.seq_len = 1;
  io::expect_error(core::ErrorKind::kUsage, {"windows of two tokens"}, [&] {
    tune(*quantized("llama", "rtn-w4g16-sym"), "llama", "refused", short_windows);
  });
}

// Before a GPU is looked for.
TEST_F(TuneModel, RefusesOnAGpuActivationsThatAreNoIntegers) {
  const auto model = quantized("llama", "rtn-w4g16");
  TuningOptions options = small_options();
  options.place.kind = device::Kind::kCuda;
  model->network.decoder.blocks[1].mlp->down.parts[0].weight.scheme.activation =
      *formats::parse_activation("afp4");
  io::expect_error(core::ErrorKind::kUsage,
                   {"layers.1.mlp.down_proj rounds its input to E2M1 numbers"},
                   [&] { tune(*model, "llama", "refused", options); });
  EXPECT_FALSE(fs::exists(folder_ / ".refused.partial"));
}

// Blocks of other sizes than the teacher's would be read out of range.
TEST_F(TuneModel, RefusesATeacherOfOtherSizes) {
  const auto model = quantized("llama", "rtn-w4g16");
  const auto expect_refused = [&](const models::Model& other, const std::string& what) {
    io::expect_error(core::ErrorKind::kUsage, {"is not the model that", what}, [&] {
      tune_model(*model, other, folder_ / "refused", small_options(), false,
                 core::silent_progress());
    });
  };
  const auto changed = [&](auto change) {
    const auto other = teacher("llama");
    change(other->network);
    return other;
  };
  const auto wider = [](ops::Linear& layer, std::int64_t n, std::int64_t k) {
    layer.weight = formats::dense_weight(
        core::Tensor::zeros(core::DType::kF32, {layer.weight.n + n, layer.weight.k + k}));
  };
  expect_refused(*changed([](models::Network& network) { network.config.head_dim /= 2; }),
                 "its shape is another");
  expect_refused(*changed([&](models::Network& network) {
    wider(network.decoder.blocks[1].mlp->up.parts[1], 16, 0);
  }),
                 "in block 2 it has model.layers.1.mlp.up_proj [");
  expect_refused(*changed([&](models::Network& network) {
    wider(network.decoder.blocks[0].attention.out.parts[0], 0, -16);
  }),
                 "in block 1 it has model.layers.0.self_attn.o_proj [");
  expect_refused(*changed([](models::Network& network) {
    network.decoder.blocks[0].attention.qkv.parts.pop_back();
  }),
                 "in block 1 it has model.layers.0.self_attn.o_proj [");
  expect_refused(
      *changed([](models::Network& network) { network.decoder.blocks[1].mlp->down.parts.clear(); }),
      "in block 2 it has no layer there");
}

TEST_F(TuneModel, WritesACard) {
  const auto model = quantized("llama", "gqsa-w4s50");
  const std::string card = tune(*model, "llama", "tuned", small_options()).at("README.md");
  EXPECT_NE(card.find("# llama, gqsa-w4s50-bqpo-e2e\n"), std::string::npos) << card;
  EXPECT_NE(card.find("| trained | bqpo (3 epochs), e2e-oqp (2 epochs), behind `gqsa-w4s50` |"),
            std::string::npos)
      << card;
  EXPECT_NE(card.find("| learned from | given text, at most 6 windows of 16 tokens |"),
            std::string::npos)
      << card;
}

}  // namespace
}  // namespace nibble::tune
