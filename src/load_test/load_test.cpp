#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "load_test/load_report.h"
#include "load_test/sse_reader.h"
#include "load_test/workload.h"

namespace nibble::load_test {
namespace {

std::vector<std::string> events_of(const std::string& bytes, std::size_t step) {
  std::vector<std::string> events;
  SseReader reader([&](std::string_view data) { events.emplace_back(data); });
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    reader.push(std::string_view(bytes).substr(at, step));
  }
  return events;
}

TEST(SseReader, FindsEventsHoweverTheyAreCut) {
  const std::string bytes =
      ": ping\n\ndata: one\n\ndata:two\r\ndata:  three\r\n\r\nevent: x\ndata\n\nid: 4\n\n"
      "data: [DONE]\r\rdata: never ended\n";
  const std::vector<std::string> expected = {"one", "two\n three", "", "[DONE]"};
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    EXPECT_EQ(events_of(bytes, step), expected) << step;
  }
}

TEST(Workload, AtomsLengthsHaveTheirDistribution) {
  Workload workload;
  workload.lengths = Workload::Lengths::kAtom;
  workload.requests = 20'000;
  workload.seed = 3;
  double prompts = 0;
  double outputs = 0;
  for (const PlannedRequest& request : plan(workload)) {
    ASSERT_GE(request.prompt_tokens, 1);
    ASSERT_LE(request.prompt_tokens, 2046);
    ASSERT_GE(request.output_tokens, 1);
    ASSERT_LT(request.output_tokens, 2048);
    prompts += static_cast<double>(request.prompt_tokens);
    outputs += static_cast<double>(request.output_tokens);
  }
  // The mean of a lognormal distribution is scale * exp(sigma^2 / 2); half a token is cut off.
  EXPECT_NEAR(prompts / 20'000, 18 * std::exp(0.32) - 1.5, 0.5);
  EXPECT_NEAR((prompts + outputs) / 20'000, 1023.5, 15);
}

TEST(Workload, ArrivalsHaveTheirRate) {
  Workload workload;
  workload.requests = 10'000;
  workload.rate = 50;
  const auto requests = plan(workload);
  EXPECT_EQ(requests.front().arrival, 0.0);
  EXPECT_NEAR(requests.back().arrival, 200.0, 8.0);
  EXPECT_EQ(plan(workload).back().arrival, requests.back().arrival) << "the same every time";
}

// Percentiles as numpy.percentile([1, 2, 3, 10], q) gives them.
TEST(LoadReport, FiguresAreThoseOfTheRequests) {
  const Latency latency = latency_of({10, 1, 3, 2});
  EXPECT_DOUBLE_EQ(latency.mean, 4000);
  EXPECT_DOUBLE_EQ(latency.median, 2500);
  EXPECT_NEAR(latency.p90, 7900, 1e-9);
  EXPECT_NEAR(latency.deviation, 1000 * std::sqrt(12.5), 1e-9);

  LoadResult result;
  result.seconds = 2;
  RequestOutcome served{0, 0.1, 1.1, {0.4, 0.6}, 7, 11, false, ""};
  result.requests = {served, served, served, served};
  result.requests[1].cancelled = true;
  result.requests[2].error = "status 500";
  result.requests[3].first_token = 0.9;
  const LoadFigures figures = figures_of(result, parse_goals({"ttft:500", "tpot:100"}));
  EXPECT_EQ(figures.completed, 2);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.cancelled, 1);
  EXPECT_EQ(figures.output_tokens, 22);
  EXPECT_DOUBLE_EQ(figures.goodput, 0.5) << "one of them came in time";
  EXPECT_NEAR(figures.tpot.p99, 99.2, 1e-6);
  EXPECT_DOUBLE_EQ(figures.itl.mean, 500);
  const core::Json json = to_json(figures);
  EXPECT_DOUBLE_EQ(json["output_throughput"], 11.0);
  EXPECT_DOUBLE_EQ(json["total_token_throughput"], 18.0);
  EXPECT_DOUBLE_EQ(json["median_ttft_ms"], 500.0);
  EXPECT_NE(to_html(figures, result, "load").find("<svg"), std::string::npos);
}

TEST(LoadReport, GoalsAreChecked) {
  for (const char* word : {"ttft", "ttft:", "ttft:x", "ttft:-1", "speed:5", "ttft:5ms", ""}) {
    EXPECT_THROW(parse_goals({word}), core::Error) << word;
  }
}

}  // namespace
}  // namespace nibble::load_test
