#include "compress/pipeline/where_it_runs.h"

#include <gtest/gtest.h>

#include "core/json.h"

namespace nibble::compress {
namespace {

// The line for passes without options over layers of the schemes.
std::string line_of(const std::vector<std::string>& passes,
                    const std::vector<std::string>& schemes) {
  std::map<std::string, formats::Scheme> by_layer;
  for (const std::string& scheme : schemes) {
    by_layer.emplace("layer of " + scheme, formats::parse_scheme(scheme));
  }
  WhereItRuns where;
  for (const std::string& pass : passes) {
    where.add(pass, *make_pass(pass, core::Json::object()), by_layer);
  }
  return where.line();
}

TEST(WhereItRuns, NamesThePassesOfEachDevice) {
  EXPECT_EQ(line_of({"awq", "search", "gptq", "refine"}, {"int4-asym-g128"}),
            "on the GPU: awq, gptq; on the CPU: search, refine");
  EXPECT_EQ(line_of({"any4", "gptq"}, {"lut4-row-g128"}),
            "on the GPU: any4, gptq; on the CPU: nothing");
  EXPECT_EQ(line_of({"rtn"}, {"int8-sym-row"}), "on the GPU: nothing; on the CPU: rtn");
}

TEST(WhereItRuns, NamesTheSchemesOfAPassThatRunsOnBoth) {
  EXPECT_EQ(line_of({"gptq"}, {"int4-asym-g128", "mxfp4", "f16"}),
            "on the GPU: gptq (int4-asym-g128); on the CPU: gptq (mxfp4)");
  EXPECT_EQ(line_of({"any4"}, {"lut4-row-g64", "lut4-matrix-g64"}),
            "on the GPU: any4 (lut4-row-g64); on the CPU: any4 (lut4-matrix-g64)");
}

TEST(WhereItRuns, RoundsTailsOnTheGpu) {
  for (const char* scheme : {"int4-sym-g128-a4-tail128", "lut4-fp4-g128-afp4g128-tail128"}) {
    EXPECT_EQ(line_of({"atom-reorder", "search", "gptq"}, {scheme}),
              "on the GPU: gptq; on the CPU: atom-reorder, search");
  }
}

// AWQ rounds trials of NVFP4 by fp16 scales, which a GPU could, but clips by its own.
TEST(WhereItRuns, LeavesSchemesWithoutKernelsToTheCpu) {
  EXPECT_EQ(line_of({"awq"}, {"nvfp4"}), "on the GPU: nothing; on the CPU: awq");
}

}  // namespace
}  // namespace nibble::compress
