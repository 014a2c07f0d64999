#include "serve/service_for_tests.h"

// Requests of many texts: they count as what they have in the engine at a time, and others are
// served between.
namespace nibble::serve {
namespace {

using core::Json;

constexpr std::int32_t kOther = 5;  // the prompt of another client

std::string list_of(std::size_t count, const char* item) {
  std::string list;
  for (std::size_t i = 0; i < count; ++i) {
    list.append(i == 0 ? "" : ",").append(item);
  }
  return list;
}

// A request of many texts is held in its first step until another client's has come; what is
// computed from then on, in order: 'o' the other's prompt, '.' anything else.
class PortionsTest : public ServiceTest {
 protected:
  void SetUp() override {
    *hook_ = [this](std::span<const engine::Slice> slices) {
      gate_.wait();
      for (const engine::Slice& slice : slices) {
        const bool other = slice.position == 0 && slice.tokens.front() == kOther;
        order_ += other ? 'o' : '.';
      }
    };
    gate_.close();
  }

  /// How many steps came before the other's, of how many.
  std::pair<std::size_t, std::size_t> serve(const std::string& path, const std::string& body) {
    RawClient many = send(path, body);
    gate_.wait_until_reached();
    RawClient other = send("/v1/completions", R"({"prompt":[5],"max_tokens":1})");
    EXPECT_TRUE(metric_becomes("nibble:request_params_n_count", accepted_)) << "it is admitted";
    gate_.open();
    EXPECT_EQ(other.read_answer().status, 200);
    EXPECT_EQ(many.read_answer().status, 200);
    return {order_.find('o'), order_.size()};
  }

  std::string order_;  // of the engine's thread
  double accepted_ = 1;
};

TEST_F(PortionsTest, EmbeddingsLeaveRoomForOthers) {
  options_.max_jobs = 8;
  start();
  const auto [before, all] =
      serve("/v1/embeddings", R"({"input":[)" + list_of(100, R"("a b")") + "]}");
  EXPECT_LE(before, 3u);
  EXPECT_GT(all, 100u);
}

// Long ones, too, which are computed in parts.
TEST_F(PortionsTest, AnEmbeddingIsComputedInParts) {
  engine_.prefill_rows = 16;
  start();
  const auto [before, all] = serve("/v1/embeddings", R"({"input":[)" + list_of(480, "300") + "]}");
  EXPECT_LE(before, 3u);
  EXPECT_GT(all, 30u);
}

TEST_F(PortionsTest, TextsLeaveRoomForOthers) {
  engine_.max_batch = 3;
  options_.max_jobs = 4;
  accepted_ = 13;
  start();
  const auto [before, all] = serve("/v1/completions", R"({"prompt":[)" + list_of(12, "[300,301]") +
                                                          R"(],"n":4,"best_of":5,"max_tokens":3})");
  EXPECT_LE(before, 8u);
  EXPECT_GT(all, 60u);
}

// Texts and their order are those of a request that has the engine for itself.
TEST_F(PortionsTest, TextsDoNotDependOnPortions) {
  gate_.open();
  const std::string body =
      R"({"prompt":["Once","The river"],"n":5,"max_tokens":8,"temperature":1,"seed":7,"logprobs":1,)"
      R"("echo":true})";
  engine_.max_batch = 2;
  start();
  const Json one_by_one = complete(body).at("choices");
  service_->drain();
  wait_for_end();
  engine_.max_batch = 16;
  start();
  EXPECT_EQ(complete(body).at("choices"), one_by_one);
  EXPECT_EQ(one_by_one.size(), 10u);
}

// A client that goes takes along what has not begun.
TEST_F(PortionsTest, EmbeddingsOfAClientThatGoesAreNotComputed) {
  start();
  {
    RawClient many = send("/v1/embeddings", R"({"input":[)" + list_of(100, R"("a b")") + "]}");
    gate_.wait_until_reached();
    many.reset();
  }
  EXPECT_TRUE(metric_becomes(
      R"(http_requests_total{handler="/v1/embeddings",method="POST",status="499"})", 1));
  gate_.open();
  EXPECT_TRUE(becomes_idle());
  EXPECT_EQ(post("/v1/completions", R"({"prompt":[5],"max_tokens":1})").status, 200);
  EXPECT_LE(order_.size(), 4u);
}

TEST_F(PortionsTest, EmbeddingsHaveTheirTimeToo) {
  options_.request_time = std::chrono::seconds(0);
  start();
  RawClient many = send("/v1/embeddings", R"({"input":["a","b"]})");
  gate_.wait_until_reached();
  const auto answer = many.read_answer();
  EXPECT_EQ(answer.status, 504) << answer.body;
  gate_.open();
}

}  // namespace
}  // namespace nibble::serve
