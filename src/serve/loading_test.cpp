#include <optional>

#include "serve/loading_server.h"
#include "serve/service_for_tests.h"

// A port that is open before there is a model.
namespace nibble::serve {
namespace {

using core::Json;

Json body_of(const RawClient::Answer& answer) {
  return core::parse_json(answer.body, "answer");
}

TEST(Loading, SaysSo) {
  const Listener listener("127.0.0.1", 0);
  const LoadingServer loading(listener.twin(), {}, [](const LogRecord&) {});
  for (const char* path : {"/health", "/readyz"}) {
    const auto answer = ask(listener.port(), "GET", path);
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(body_of(answer).at("status"), "loading");
  }
  EXPECT_EQ(ask(listener.port(), "GET", "/livez").status, 200);
  for (const char* path : {"/v1/models", "/metrics", "/", "/nothing"}) {
    const auto answer = ask(listener.port(), "GET", path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.header("Retry-After"), "1") << path;
    EXPECT_TRUE(body_of(answer).at("error").at("message").is_string());
  }
  const auto post = ask(listener.port(), "POST", "/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(post.status, 503);
  EXPECT_EQ(post.header("Retry-After"), "1");
}

// Who connects while one server follows the other is served by the second.
TEST(Loading, ThePortStaysOpenUntilTheModelIsThere) {
  Listener listener("127.0.0.1", 0);
  std::optional<LoadingServer> loading;
  loading.emplace(listener.twin(), HttpOptions{}, [](const LogRecord&) {});
  EXPECT_EQ(ask(listener.port(), "GET", "/livez").status, 200);
  RawClient idle(listener.port());
  idle.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(idle.read_answer().status, 200);
  loading.reset();
  EXPECT_EQ(idle.read_all(), "") << "closed";
  RawClient between(listener.port());
  between.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::uint16_t port = listener.port();
  {
    const LoadingServer next(std::move(listener), {}, [](const LogRecord&) {});
    EXPECT_EQ(between.read_answer().status, 503);
  }
  Listener again("127.0.0.1", port);  // nobody holds it any more
  EXPECT_EQ(again.port(), port);
}

}  // namespace
}  // namespace nibble::serve
