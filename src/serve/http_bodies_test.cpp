#include "serve/byte_budget.h"
#include "serve/http_server_for_tests.h"

// Bodies that are large: of answers that clients take slowly or not at all, and of requests.
namespace nibble::serve {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPart = 64 << 10;

// So many parts of one letter each; counts what it has made.
class CountedSource final : public BodySource {
 public:
  CountedSource(std::size_t parts, std::size_t held, std::shared_ptr<std::atomic<std::size_t>> made)
      : parts_(parts), held_(held), made_(std::move(made)) {}

  bool append(std::string& part) override {
    const std::size_t number = (*made_)++;
    part.append(kPart, static_cast<char>('a' + number % 26));
    return number + 1 < parts_;
  }
  std::size_t held_bytes() const override { return held_; }

 private:
  std::size_t parts_;
  std::size_t held_;
  std::shared_ptr<std::atomic<std::size_t>> made_;
};

std::string body_of_parts(std::size_t parts) {
  std::string body = "begin ";
  for (std::size_t i = 0; i < parts; ++i) {
    body.append(kPart, static_cast<char>('a' + i % 26));
  }
  return body;
}

class HttpBodiesTest : public HttpServerTest {
 protected:
  void make(std::size_t parts, std::size_t held = 0) {
    application_.make_source = [this, parts, held] {
      return std::make_shared<CountedSource>(parts, held, made_);
    };
  }

  std::shared_ptr<std::atomic<std::size_t>> made_ = std::make_shared<std::atomic<std::size_t>>(0);
};

TEST_F(HttpBodiesTest, AreMadeAsTheClientTakesThem) {
  constexpr std::size_t kParts = 400;  // 25 MiB
  make(kParts);
  start();
  RawClient client(port_, 4096);
  client.send(get("/parts"));
  for (int i = 0; i < 200 && *made_ < 2; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(*made_, 40u) << "what the kernel's buffers hold";
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.header("Transfer-Encoding"), "chunked");
  EXPECT_TRUE(answer.body == body_of_parts(kParts));
  EXPECT_EQ(*made_, kParts);
  client.send(get("/echo"));
  EXPECT_EQ(client.read_answer().body, "GET ") << "the connection goes on";
}

TEST_F(HttpBodiesTest, ThatAreOnePartHaveALength) {
  make(1);
  start();
  const auto answer = ask(port_, "GET", "/parts");
  EXPECT_EQ(answer.header("Content-Length"), std::to_string(6 + kPart));
  EXPECT_EQ(answer.header("Transfer-Encoding"), "");
  EXPECT_TRUE(answer.body == body_of_parts(1));
}

// It knows no chunks.
TEST_F(HttpBodiesTest, EndWithTheConnectionForAnOldClient) {
  make(5);
  start();
  RawClient client = connect();
  client.send("GET /parts HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string all = client.read_all();
  const std::size_t end = all.find("\r\n\r\n");
  EXPECT_EQ(all.find("Transfer-Encoding"), std::string::npos);
  EXPECT_NE(all.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(all.substr(end + 4) == body_of_parts(5));
}

TEST_F(HttpBodiesTest, OfPipelinedRequestsComeInOrder) {
  make(3);
  start();
  RawClient client = connect();
  client.send(get("/parts") + get("/echo"));
  EXPECT_TRUE(client.read_answer().body == body_of_parts(3));
  EXPECT_EQ(client.read_answer().body, "GET ");
}

// A source that fails after its beginning: the client must see that the answer is not whole.
TEST_F(HttpBodiesTest, ThatFailAreNotEnded) {
  class Failing final : public BodySource {
    bool append(std::string& part) override {
      part += "x";
      if (++parts_ == 3) {
        throw std::runtime_error("no more");
      }
      return true;
    }
    std::size_t held_bytes() const override { return 0; }
    int parts_ = 0;
  };
  application_.make_source = [] { return std::make_shared<Failing>(); };
  start();
  RawClient client = connect();
  client.send(get("/parts"));
  EXPECT_EQ(client.read_all().find("0\r\n\r\n"), std::string::npos);
  EXPECT_EQ(good(), 200);
}

TEST_F(HttpBodiesTest, ThatAreReadTooSlowlyAreCutOff) {
  HttpLimits limits;
  limits.pace_time = 300ms;
  limits.pace_bytes = 256 << 10;
  make(10'000);
  start(limits);
  RawClient slow(port_, 4096);
  slow.send(get("/parts"));
  RawClient fast(port_);
  fast.send(get("/parts"));
  std::size_t read = 0;
  for (int i = 0; i < 30; ++i) {  // for a second, 3 MiB at the most
    read += fast.read_some(100 << 10);
    slow.read_some(10);
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_GE(read, 1000u << 10);
  EXPECT_GT(fast.read_some(100 << 10), 0u);
  slow.read_all();
  const std::lock_guard lock(application_.mutex);
  ASSERT_EQ(application_.records.size(), 1u) << "one was cut off";
  EXPECT_TRUE(application_.records.front().disconnected);
  EXPECT_TRUE(application_.records.front().large);
  EXPECT_NE(log_.front().find("too slowly"), std::string::npos);
}

// Many answers that nobody takes: the slowest go, until the rest is within its bound.
TEST_F(HttpBodiesTest, ThatWaitAreBoundedInAll) {
  HttpLimits limits;
  limits.unwritten_bytes = 10 << 20;
  make(10'000, 4 << 20);  // each keeps 4 MiB
  start(limits);
  std::vector<RawClient> lazy;
  for (int i = 0; i < 5; ++i) {
    lazy.emplace_back(port_, 4096);
    lazy.back().send(get("/parts"));
  }
  RawClient reader = connect();
  reader.send(get("/parts"));
  for (int i = 0; i < 200; ++i) {
    ASSERT_GT(reader.read_some(256 << 10), 0u) << "the one that reads is not cut off";
    std::this_thread::sleep_for(10ms);
  }
  const std::lock_guard lock(application_.mutex);
  EXPECT_EQ(application_.records.size(), 4u) << "6 answers of 4 MiB, of which 2 fit";
}

// ---- of requests

TEST_F(HttpBodiesTest, OfOneClientAreBounded) {
  HttpLimits limits;
  limits.client_bytes = 1 << 20;
  start(limits);
  RawClient client = connect();
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n");
  client.send(std::string(2'000'000, 'a'));
  const auto refusal = client.read_answer();
  EXPECT_EQ(refusal.status, 429);
  EXPECT_EQ(refusal.header("Retry-After"), "1");
  EXPECT_EQ(good(), 200) << "what was refused counts no more";
}

// Until the work on a body is done, and not longer.
TEST_F(HttpBodiesTest, ThatWaitForWorkCount) {
  HttpLimits limits;
  limits.client_bytes = 1000;
  start(limits);
  RawClient waiting = connect();
  waiting.send("POST /keep HTTP/1.1\r\nHost: localhost\r\nContent-Length: 800\r\n\r\n" +
               std::string(800, 'a'));
  for (int i = 0; i < 500; ++i) {
    const std::lock_guard lock(application_.mutex);
    if (!application_.kept.empty()) {
      break;
    }
    std::this_thread::sleep_for(10ms);
  }
  const std::string more(300, 'b');
  EXPECT_EQ(ask(port_, "POST", "/echo", more).status, 429);
  {
    const std::lock_guard lock(application_.mutex);
    application_.kept.clear();
  }
  EXPECT_EQ(ask(port_, "POST", "/echo", more).status, 200);
}

TEST(ByteBudget, BoundsEachClientAndAll) {
  using Verdict = ByteBudget::Verdict;
  const auto budget = std::make_shared<ByteBudget>(10, 15);
  EXPECT_EQ(budget->take("a", 10), Verdict::kTaken);
  EXPECT_EQ(budget->take("a", 1), Verdict::kClientHasTooMany);
  EXPECT_EQ(budget->take("b", 6), Verdict::kTooManyInAll);
  {
    ByteShare share(budget, "b");
    EXPECT_EQ(share.add(3), Verdict::kTaken);
    EXPECT_EQ(share.add(2), Verdict::kTaken);
    EXPECT_EQ(share.add(1), Verdict::kTooManyInAll);
    EXPECT_EQ(budget->taken(), 15u);
  }
  EXPECT_EQ(budget->taken(), 10u);
  budget->give_back("a", 10);
  EXPECT_EQ(budget->take("b", 10), Verdict::kTaken);
}

}  // namespace
}  // namespace nibble::serve
