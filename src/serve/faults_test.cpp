#include <new>

#include "core/error.h"
#include "serve/service_for_tests.h"

// Clients that go away, queues that are full, engines that fail.
namespace nibble::serve {
namespace {

using core::Json;
using namespace std::chrono_literals;

const std::string kEndless =
    R"({"prompt":"Once upon a time","max_tokens":900,"ignore_eos":true,"temperature":0)";

// Row 35: in the queue, in prefill, in decode.
TEST_F(ServiceTest, AClientThatGoesIsForgotten) {
  engine_.max_batch = 1;
  *hook_ = [this](auto) { gate_.wait(); };
  gate_.close();
  start();
  for (const bool reset : {false, true}) {
    gate_.close();
    RawClient prefill = send("/v1/completions", kEndless + "}");
    gate_.wait_until_reached();
    RawClient queued = send("/v1/completions", kEndless + R"(,"stream":true})");
    EXPECT_EQ(queued.read_until("\r\n\r\n").substr(0, 12), "HTTP/1.1 200") << "streams begin early";
    reset ? prefill.reset() : prefill.close();
    reset ? queued.reset() : queued.close();
    EXPECT_TRUE(metric_becomes(
        "nibble:request_success_total{model_name=\"demo\",finished_reason=\"abort\"}",
        reset ? 5 : 2));
    gate_.open();
    EXPECT_TRUE(becomes_idle());
    RawClient decode = send("/v1/completions", kEndless + R"(,"stream":true})");
    decode.read_until("data: ");
    reset ? decode.reset() : decode.close();
    EXPECT_TRUE(metric_becomes(
        "nibble:request_success_total{model_name=\"demo\",finished_reason=\"abort\"}",
        reset ? 6 : 3));
    EXPECT_TRUE(becomes_idle());
  }
  EXPECT_EQ(complete(R"({"prompt":"a","max_tokens":2,"ignore_eos":true})")
                .at("usage")
                .at("completion_tokens"),
            2);
}

// Row 38.
TEST_F(ServiceTest, ManyCancelledRequestsLeaveRoomForOne) {
  options_.max_jobs = 1000;
  start();
  {
    std::vector<RawClient> clients;
    for (int i = 0; i < 200; ++i) {
      clients.push_back(
          send("/v1/completions", kEndless + (i % 2 == 0 ? "}" : R"(,"stream":true})")));
    }
  }
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","max_tokens":2})").status, 200);
}

// Row 37: others go on while one client does not read.
TEST_F(ServiceTest, AClientThatDoesNotReadHoldsNobodyUp) {
  options_.http.limits.stream_bytes = 16 << 10;
  start();
  RawClient lazy(port_, 2048);
  const std::string body = kEndless + R"(,"stream":true,"n":4,"logprobs":20})";
  lazy.send(
      fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                  "application/json\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body));
  EXPECT_EQ(complete(R"({"prompt":"a","max_tokens":4,"ignore_eos":true})")
                .at("usage")
                .at("completion_tokens"),
            4);
  EXPECT_TRUE(metric_becomes(
      "nibble:request_success_total{model_name=\"demo\",finished_reason=\"abort\"}", 4));
}

// What a request waited and worked for: the second was queued before the first began, and each
// step takes 20 ms at the least.
TEST_F(ServiceTest, TheTimeOfARequestHasParts) {
  engine_.max_batch = 1;
  *hook_ = [this](auto) {
    gate_.wait();
    std::this_thread::sleep_for(20ms);
  };
  gate_.close();
  start();
  const std::string body = R"({"prompt":"a b c","max_tokens":4,"ignore_eos":true})";
  RawClient first = send("/v1/completions", body);
  gate_.wait_until_reached();
  RawClient second = send("/v1/completions", body);
  EXPECT_TRUE(metric_becomes("nibble:num_requests_waiting", 2)) << "no step has ended yet";
  gate_.open();
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(second.read_answer().status, 200);
  const double queue = metric("nibble:request_queue_time_seconds_sum");
  const double prefill = metric("nibble:request_prefill_time_seconds_sum");
  const double decode = metric("nibble:request_decode_time_seconds_sum");
  EXPECT_GE(queue, 4 * 0.020);
  EXPECT_GE(prefill, 2 * 0.020);
  EXPECT_GE(decode, 2 * 3 * 0.020);
  EXPECT_LE(queue + prefill + decode, metric("nibble:e2e_request_latency_seconds_sum"));
  for (const char* part : {"queue", "prefill", "decode"}) {
    EXPECT_EQ(metric(fmt::format("nibble:request_{}_time_seconds_count", part)), 2);
  }
}

// Row 40: the first text takes long.
TEST_F(ServiceTest, AStreamThatWaitsHasPings) {
  options_.http.limits.heartbeat_time = 100ms;
  *hook_ = [this](auto) { gate_.wait(); };
  gate_.close();
  start();
  RawClient client = send("/v1/completions", R"({"prompt":"a","max_tokens":2,"stream":true})");
  EXPECT_NE(client.read_until(": ping\n\n").find(": ping"), std::string::npos);
  EXPECT_NE(client.read_until(": ping\n\n").find(": ping"), std::string::npos);
  gate_.open();
  EXPECT_NE(client.read_until("[DONE]").find("[DONE]"), std::string::npos);
}

// Row 42.
TEST_F(ServiceTest, AFullQueueSaysSo) {
  engine_.max_batch = 2;
  options_.max_jobs = 6;
  *hook_ = [this](auto) { gate_.wait(); };
  gate_.close();
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(send("/v1/completions", R"({"prompt":"a","max_tokens":2})"));
  }
  int refused = 0;
  EXPECT_TRUE(metric_becomes("nibble:admission_rejections_total", 54));
  gate_.open();
  for (RawClient& client : clients) {
    const auto answer = client.read_answer();
    if (answer.status == 429) {
      EXPECT_EQ(answer.header("Retry-After"), "1");
      ++refused;
    } else {
      EXPECT_EQ(answer.status, 200);
    }
  }
  EXPECT_EQ(refused, 54);
}

TEST_F(ServiceTest, TheQueueIsBoundedByTokensToo) {
  options_.max_tokens = 10;
  *hook_ = [this](auto) { gate_.wait(); };
  gate_.close();
  start();
  RawClient first = send("/v1/completions", R"({"prompt":[5,5,5,5,5,5,5,5],"max_tokens":1})");
  gate_.wait_until_reached();
  is_error(post("/v1/completions", R"({"prompt":[5,5,5]})"), 429, "", "tokens");
  gate_.open();
  EXPECT_EQ(first.read_answer().status, 200);
}

std::int64_t page_bytes(const std::shared_ptr<const models::Model>& model) {
  return engine::make_cpu_runner(model, {})->page_bytes();
}

// Row 43: the KV cache is too small for all at once.
TEST_F(ServiceTest, ASmallCacheGivesTheSameTexts) {
  start();
  const auto ask_for = [](int i) {
    return fmt::format(
        R"({{"prompt":"Once {}","max_tokens":40,"temperature":0,"ignore_eos":true}})", i);
  };
  std::vector<std::string> expected;
  for (int i = 0; i < 4; ++i) {
    expected.push_back(complete(ask_for(i)).at("choices")[0].at("text"));
  }
  becomes_idle();
  service_->drain();
  wait_for_end();
  engine_.kv_bytes = 7 * page_bytes(demo());
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(send("/v1/completions", ask_for(i)));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(json(clients[i].read_answer()).at("choices")[0].at("text"), expected[i]);
  }
  EXPECT_GT(metric("nibble:num_preemptions_total"), 0);
  is_error(post("/v1/completions", R"({"prompt":")" + std::string(2000, '.') + "x y z\"}"), 400,
           "prompt", "more than the cache holds");
}

// Row 43: 16 tokens, of the prompt and the text together.
TEST_F(ServiceTest, ACacheOfOnePageServesShortTexts) {
  engine_.kv_bytes = page_bytes(demo());
  start();
  const auto body = [](int prompt, int max_tokens) {
    return fmt::format(R"({{"prompt":{},"max_tokens":{},"ignore_eos":true,"temperature":0}})",
                       Json(std::vector<int>(static_cast<std::size_t>(prompt), 300)).dump(),
                       max_tokens);
  };
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {  // one after the other
    clients.push_back(send("/v1/completions", body(10, 6)));
  }
  for (RawClient& client : clients) {
    EXPECT_EQ(json(client.read_answer()).at("usage").at("total_tokens"), 16);
  }
  EXPECT_EQ(complete(body(15, 1)).at("usage").at("total_tokens"), 16);
  const Json cut = complete(body(15, 9));
  EXPECT_EQ(cut.at("usage").at("completion_tokens"), 1) << "the cache ends a text, too";
  EXPECT_EQ(cut.at("choices")[0].at("finish_reason"), "length");
  is_error(post("/v1/completions", body(16, 1)), 400, "prompt", "a page and no room");
  is_error(post("/v1/completions", body(17, 1)), 400, "prompt", "more than a page");
  EXPECT_EQ(json(get("/v1/models")).at("data")[0].at("max_model_len"), 16);
}

// Row 44: no memory for one request; the others go on.
TEST_F(ServiceTest, ARequestWithoutMemoryFails) {
  std::atomic<int> steps{0};
  *hook_ = [&](auto) {
    if (++steps == 3) {
      throw std::bad_alloc();
    }
  };
  start();
  is_error(post("/v1/completions", R"({"prompt":"a","max_tokens":9,"ignore_eos":true})"), 503, "",
           "no memory");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","max_tokens":9})").status, 200);
}

// Row 41: a failure in the middle of a stream.
TEST_F(ServiceTest, AStreamSaysWhyItFails) {
  std::atomic<int> steps{0};
  *hook_ = [&](auto) {
    if (++steps == 5) {
      core::fail(core::ErrorKind::kFailed, "the device fell off");
    }
  };
  start();
  const auto stream = post("/v1/completions", kEndless + R"(,"stream":true})");
  const auto events = events_of(stream.body);
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.back(), "[DONE]");
  const Json error = core::parse_json(events[events.size() - 2], "event").at("error");
  EXPECT_EQ(error.at("message"), "the request failed inside the server; its log says why");
  EXPECT_EQ(error.at("type"), "server_error");
  EXPECT_EQ(logged("reason", stream.header("x-request-id")), "the device fell off");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","max_tokens":2})").status, 200);
}

// What names files and devices is for the log; /health says that it happened, until something goes
// well again.
TEST_F(ServiceTest, ClientsAreToldNothingOfTheMachine) {
  std::atomic<core::ErrorKind> kind{core::ErrorKind::kIo};
  std::atomic<bool> fails{true};
  *hook_ = [&](auto) {
    if (fails) {
      core::fail(kind, "'/srv/secret/model.safetensors' lost bytes");
    }
  };
  start();
  for (const auto& [path, body] : {std::pair("/v1/completions", R"({"prompt":"a","max_tokens":2})"),
                                   std::pair("/v1/embeddings", R"({"input":"a"})")}) {
    const auto answer = post(path, body);
    is_error(answer, 500, "", path);
    EXPECT_EQ(answer.body.find("secret"), std::string::npos) << answer.body;
    EXPECT_NE(logged("reason", answer.header("x-request-id")).find("/srv/secret"),
              std::string::npos);
    const auto health = get("/health");
    EXPECT_EQ(health.status, 503);
    const Json said = core::parse_json(health.body, "health");
    EXPECT_EQ(said.at("status"), "failing");
    EXPECT_EQ(said.at("live"), true);
    EXPECT_NE(said.at("reason").get<std::string>().find("the model's files"), std::string::npos);
    EXPECT_EQ(get("/readyz").status, 503);
  }
  kind = core::ErrorKind::kOutOfMemory;
  const auto memory = post("/v1/embeddings", R"({"input":"a"})");
  is_error(memory, 503, "", "memory");
  EXPECT_EQ(memory.body.find("secret"), std::string::npos) << memory.body;
  fails = false;
  EXPECT_EQ(post("/v1/embeddings", R"({"input":"a"})").status, 200);
  EXPECT_EQ(get("/health").status, 200);
}

// Embeddings count as steps do.
TEST_F(ServiceTest, EmbeddingsThatOnlyFailEndTheServer) {
  *hook_ = [](auto) { core::fail(core::ErrorKind::kFailed, "the device fell off"); };
  start();
  for (int i = 0; i < engine::Engine::kMaxFailedSteps; ++i) {
    EXPECT_NE(post("/v1/embeddings", R"({"input":"a"})").status, 200);
  }
  EXPECT_EQ(wait_for_end(), Outcome::kFailed);
}

// Row 45.
TEST_F(ServiceTest, ShutsDownWhenAllIsAnswered) {
  *hook_ = [this](auto) { gate_.wait(); };
  gate_.close();
  start();
  RawClient waiting = send("/v1/completions", R"({"prompt":"a","max_tokens":3,"ignore_eos":true})");
  gate_.wait_until_reached();
  service_->drain();
  for (int i = 0; i < 500 && get("/health").status == 200; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_NE(get("/health").body.find("draining"), std::string::npos);
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_EQ(get("/livez").status, 200);
  const auto late = post("/v1/completions", R"({"prompt":"a"})");
  is_error(late, 503, "", "late");
  EXPECT_NE(late.header("Retry-After"), "");
  gate_.open();
  EXPECT_EQ(json(waiting.read_answer()).at("usage").at("completion_tokens"), 3);
  EXPECT_EQ(wait_for_end(), Outcome::kStopped);
}

TEST_F(ServiceTest, WaitsNoLongerThanItWasTold) {
  options_.shutdown_time = 200ms;
  *hook_ = [this](auto) { gate_.wait(); };
  gate_.close();
  start();
  RawClient waiting = send("/v1/completions", kEndless + "}");
  RawClient stream = send("/v1/completions", kEndless + R"(,"stream":true})");
  stream.read_until("\r\n\r\n");
  gate_.wait_until_reached();
  service_->drain();
  is_error(waiting.read_answer(), 503, "", "cut off");
  EXPECT_NE(stream.read_until("[DONE]").find("shutting down"), std::string::npos);
  EXPECT_EQ(wait_for_end(), Outcome::kStopped);
}

TEST_F(ServiceTest, ARequestHasItsTime) {
  options_.request_time = 0s;
  *hook_ = [](auto) { std::this_thread::sleep_for(20ms); };
  start();
  is_error(post("/v1/completions", kEndless + "}"), 504, "", "too long");
}

// Row 41: one that only fails.
TEST_F(ServiceTest, AnEngineThatOnlyFailsEndsTheServer) {
  *hook_ = [](auto) { core::fail(core::ErrorKind::kFailed, "the device fell off"); };
  start();
  for (int i = 0; i < engine::Engine::kMaxFailedSteps; ++i) {
    const auto answer = post("/v1/completions", kEndless + "}");
    EXPECT_TRUE(answer.status == 500 || answer.status == 503) << answer.status;
  }
  EXPECT_EQ(wait_for_end(), Outcome::kFailed);
}

// Row 46.
TEST_F(ServiceTest, AHangingEngineEndsTheServer) {
  options_.step_time = 300ms;
  *hook_ = [this](auto) { gate_.wait(); };
  gate_.close();
  start();
  RawClient waiting = send("/v1/completions", kEndless + "}");
  is_error(waiting.read_answer(), 503, "", "hangs");
  EXPECT_EQ(wait_for_end(), Outcome::kHung);
  const std::lock_guard lock(log_mutex_);
  EXPECT_EQ(log_.empty() ? LogLevel::kInfo : log_.front().level, LogLevel::kError);
}

}  // namespace
}  // namespace nibble::serve
