#include <filesystem>

#include <gtest/gtest.h>

#include "engine/runner.h"

namespace nibble::engine {
namespace {

models::Network network_of(const char* family) {
  return models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families" /
                            family)
      ->network;
}

// What GPUs would compute wrongly is refused before anything is loaded there.
TEST(GpuRefusal, NamesWhatIsMissing) {
  try {
    require_runs_on_gpu(network_of("gemma2"));
    ADD_FAILURE() << "gemma2 is taken";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "the model runs on the CPU only so far: attention soft-capping is not built for "
                 "GPUs; use --device cpu");
  }
  models::Network scaled = network_of("llama");
  scaled.decoder.blocks.back().attention.spec.scale = 0.3f;
  EXPECT_THROW(require_runs_on_gpu(scaled), core::Error);
}

// Scales of scores go into the norms of queries.
TEST(GpuRefusal, TakesFamiliesThatAreDataAlone) {
  for (const char* family :
       {"llama", "qwen3-moe", "phi3", "phi3-long-rope", "gemma", "gemma3-text", "gemma3"}) {
    EXPECT_NO_THROW(require_runs_on_gpu(network_of(family))) << family;
  }
}

}  // namespace
}  // namespace nibble::engine
