// AdamW and learning rates against PyTorch's.

#include "tune/adamw.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "tune/golden_for_tests.h"
#include "tune/learning_rate.h"

namespace nibble::tune {
namespace {

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance) << i;
  }
}

TEST(AdamW, MovesAsPyTorchs) {
  for (const core::Json& golden : training_golden("adamw")) {
    Parameters parameters;
    parameters.push_back(
        std::make_unique<Parameter>("a", floats(golden.at("start")[0]), 1.0f, true));
    parameters.push_back(std::make_unique<Parameter>("b", floats(golden.at("start")[1]), 3.0f));
    core::ThreadPool pool(1);
    AdamW optimizer(parameters,
                    {.beta2 = 0.95,
                     .weight_decay = golden.at("decay").get<double>(),
                     .clip = golden.at("clip").get<double>()},
                    pool);
    for (const core::Json& step : golden.at("steps")) {
      for (std::size_t p = 0; p < 2; ++p) {
        parameters[p]->gradient = floats(step.at("gradients")[p]);
      }
      EXPECT_NEAR(optimizer.step(1e-2), step.at("norm").get<double>(), 1e-5);
      for (std::size_t p = 0; p < 2; ++p) {
        expect_near(parameters[p]->values, floats(step.at("values")[p]), 2e-6);
        expect_near(parameters[p]->gradient, std::vector<float>(parameters[p]->gradient.size()),
                    0.0);
      }
    }
    EXPECT_EQ(optimizer.steps(), 6);
  }
}

TEST(AdamW, GivesTheSameBitsForAnyNumberOfThreads) {
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    core::Random random(5);
    Parameters parameters;
    parameters.push_back(std::make_unique<Parameter>("a", std::vector<float>(50000, 1.0f)));
    core::ThreadPool pool(threads);
    AdamW optimizer(parameters, {}, pool);
    for (int step = 0; step < 3; ++step) {
      for (float& value : parameters[0]->gradient) {
        value = random.normal();
      }
      optimizer.step(1e-3);
    }
    results.push_back(parameters[0]->values);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(AdamW, RefusesMomentsOfOtherParameters) {
  Parameters parameters;
  parameters.push_back(std::make_unique<Parameter>("a", std::vector<float>(4)));
  core::ThreadPool pool(1);
  AdamW optimizer(parameters, {}, pool);
  EXPECT_THROW(optimizer.restore(1, {}), core::Error);
  EXPECT_THROW(optimizer.restore(1, {{std::vector<float>(4), std::vector<float>(3)}}), core::Error);
}

TEST(LearningRate, IsThatOfPyTorchsSchedules) {
  for (const core::Json& golden : training_golden("learning_rate")) {
    const LearningRate rate{2.0, parse_decay(golden.at("decay").get<std::string>()),
                            golden.at("steps").get<std::int64_t>(),
                            golden.at("warmup").get<std::int64_t>(),
                            golden.at("last").get<double>()};
    const auto expected = golden.at("rates").get<std::vector<double>>();
    for (std::size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(rate.at(static_cast<std::int64_t>(step)), expected[step], 1e-12) << step;
    }
  }
  EXPECT_EQ((LearningRate{0.5, Decay::kConstant, 4, 0, 0.0}).at(3), 0.5);
  EXPECT_THROW(parse_decay("steps"), core::Error);
}

TEST(Parameters, NamesWhatIsNotFinite) {
  Parameters parameters;
  parameters.push_back(std::make_unique<Parameter>("model.layers.3.up", std::vector<float>(4)));
  EXPECT_NO_THROW(require_finite(1.0, parameters, 7));
  EXPECT_THROW(require_finite(std::nan(""), parameters, 7), core::Error);
  parameters[0]->gradient[2] = std::numeric_limits<float>::infinity();
  try {
    require_finite(1.0, parameters, 7);
    ADD_FAILURE();
  } catch (const core::Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("step 7"), std::string::npos) << message;
    EXPECT_NE(message.find("model.layers.3.up"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace nibble::tune
