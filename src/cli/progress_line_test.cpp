#include "cli/progress_line.h"

#include <gtest/gtest.h>

#include "report/text_width.h"

namespace nibble::cli {
namespace {

ProgressState compared() {
  return {"gptq-w4g128",
          2,
          8,
          "quantize",
          21,
          42,
          9,
          10.0,
          185.0,
          "block 3 of 6: model.layers.2.mlp.up_proj error 0.01234"};
}

TEST(ProgressLine, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(bar_progress(compared(), 200),
            "gptq-w4g128 (2 of 8): quantize [############            ] 21/42 9s elapsed, 10s left, "
            "3m05s in all block 3 of 6: model.layers.2.mlp.up_proj error 0.01234");
  EXPECT_EQ(plain_progress(compared()),
            "gptq-w4g128 (2 of 8): quantize 21/42 9s elapsed, 10s left, 3m05s in all block 3 of 6: "
            "model.layers.2.mlp.up_proj error 0.01234");
}

TEST(ProgressLine, LeavesOutWhatMattersLeast) {
  EXPECT_EQ(
      bar_progress(compared(), 86),
      "gptq-w4g128 (2 of 8): quantize [#####     ] 21/42 10s left, 3m05s in all block 3 of 6…");
  EXPECT_EQ(bar_progress(compared(), 79),
            "gptq-w4g128 (2 of 8): quantize [#####     ] 21/42 10s left, 3m05s in all");
  EXPECT_EQ(bar_progress(compared(), 50), "gptq-w4g128 (2 of 8): quantize 21/42 3m05s left");
  EXPECT_EQ(bar_progress(compared(), 40), "2 of 8 quantize 21/42 3m05s left");
  EXPECT_EQ(bar_progress(compared(), 25), "2 of 8 21/42 3m05s left");
  EXPECT_EQ(bar_progress(compared(), 18), "21/42 3m05s left");
  EXPECT_EQ(bar_progress(compared(), 10), "21/42");
  EXPECT_EQ(bar_progress(compared(), 3), "21…");
  EXPECT_EQ(bar_progress(compared(), 0), "");
}

TEST(ProgressLine, NeedsNeitherPartsNorEstimates) {
  const ProgressState state{"", 0, 0, "perplexity", 0, 12, 3, {}, {}, ""};
  EXPECT_EQ(plain_progress(state), "perplexity 0/12 3s elapsed");
  EXPECT_EQ(bar_progress(state, 79), "perplexity [                        ] 0/12 3s elapsed");
  EXPECT_EQ(bar_progress(state, 10), "0/12");
}

TEST(ProgressLine, IsNeverWiderThanAsked) {
  ProgressState wide = compared();
  wide.part = "最好的四位";
  wide.job = "量化";
  wide.note = "第三块：模型🙂";
  for (const ProgressState& state : {compared(), wide}) {
    for (std::size_t columns = 0; columns < 150; ++columns) {
      EXPECT_LE(report::text_width(bar_progress(state, columns)), columns) << columns;
    }
  }
}

TEST(ProgressLine, Durations) {
  EXPECT_EQ(duration(0.9), "0s");
  EXPECT_EQ(duration(59.9), "59s");
  EXPECT_EQ(duration(60), "1m00s");
  EXPECT_EQ(duration(3599), "59m59s");
  EXPECT_EQ(duration(7805), "2h10m");
}

}  // namespace
}  // namespace nibble::cli
