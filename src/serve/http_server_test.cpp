#include <sys/resource.h>
#include <unistd.h>

#include "core/error.h"
#include "serve/http_server_for_tests.h"

// The server against clients that misbehave.
namespace nibble::serve {
namespace {

using namespace std::chrono_literals;

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  start();
  RawClient client = connect();
  for (int i = 0; i < 3; ++i) {
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi");
    const auto answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST hi");
    EXPECT_EQ(answer.header("X-Text"), "a  b") << "no header ends its line";
    EXPECT_EQ(answer.header("x-request-id").substr(0, 4), "req-");
    EXPECT_EQ(answer.header("Date").size(), 29u);
  }
  client.send(get("/echo", "Connection: close\r\n"));
  EXPECT_EQ(client.read_answer().header("Connection"), "close");
  EXPECT_TRUE(client.closed());
}

// Row 19.
TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  RawClient client = connect();
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string body = std::to_string(i);
    all += fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
                       body.size(), body);
  }
  client.send(all);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client.read_answer().body, fmt::format("POST {}", i));
  }
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  start();
  RawClient client = connect();
  client.send("HEAD /echo HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/echo"));
  const auto head = client.read_answer(false);
  EXPECT_EQ(head.header("Content-Length"), "5");
  EXPECT_EQ(client.read_answer().body, "GET ");
}

TEST_F(HttpServerTest, ContinuesWhenItIsExpected) {
  start();
  RawClient client = connect();
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: ";
  client.send(head + "100-Continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hi");
  EXPECT_EQ(client.read_answer().body, "POST hi");
  client.send(head + "cake\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 417);
}

TEST_F(HttpServerTest, RefusesBeforeTheBodyIsSent) {
  start();
  RawClient client = connect();
  client.send(
      "POST /refused HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 401);
  EXPECT_TRUE(client.closed());
  RawClient other = connect();
  other.send(get("/refused") + get("/echo"));
  EXPECT_EQ(other.read_answer().status, 401);
  EXPECT_EQ(other.read_answer().status, 200) << "a refusal without a body leaves the connection";
}

// Rows 17, 18: a refusal closes the connection, so that nothing behind it is read as a request.
TEST_F(HttpServerTest, NothingIsReadBehindAMalformedRequest) {
  start();
  for (const char* framing : {"Transfer-Encoding: xchunked", "Content-Length: -1",
                              "Content-Length: 3\r\nTransfer-Encoding: chunked"}) {
    RawClient client = connect();
    client.send(fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n{}", framing,
                            get("/echo")));
    const std::string all = client.read_all();
    EXPECT_EQ(all.substr(0, 12), "HTTP/1.1 400");
    EXPECT_EQ(all.find("HTTP/1.1", 8), std::string::npos) << all;
    EXPECT_NE(all.find("Connection: close"), std::string::npos);
    EXPECT_EQ(all.find("TIMEOUT"), std::string::npos);
  }
  EXPECT_EQ(good(), 200);
}

// Rows 15, 16: what has no end is refused early, and takes no memory.
TEST_F(HttpServerTest, RefusesWhatHasNoEnd) {
  start();
  ASSERT_EQ(good(), 200);
  const std::size_t before = resident_bytes();
  const std::string block(64 << 10, 'a');
  const auto flood = [&](std::string_view begin, std::string_view part, std::size_t bytes) {
    RawClient client = connect();
    client.send(begin);
    for (std::size_t sent = 0; sent < bytes && client.send(part); sent += part.size()) {
    }
    return client.read_answer().status;
  };
  std::string tiny;
  for (int i = 0; i < 10000; ++i) {
    tiny += "1\r\na\r\n";
  }
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  const std::size_t much = 14 << 20;
  EXPECT_EQ(flood("GET /", block, much), 414);
  EXPECT_EQ(flood(head + "X: ", block, much), 431);
  EXPECT_EQ(flood(chunked, "10000\r\n" + block + "\r\n", much), 413);
  EXPECT_EQ(flood(chunked, tiny, much), 413);
  EXPECT_EQ(flood(chunked + "1;", block, much), 400);
  EXPECT_EQ(good(), 200);
  EXPECT_LT(resident_bytes(), before + (64u << 20));
}

// Row 21: slow clients are dropped, and nobody else waits for them.
TEST_F(HttpServerTest, SlowClientsDoNotStandInTheWay) {
  HttpLimits limits;
  limits.head_time = 700ms;
  limits.body_time = 700ms;
  limits.idle_time = 700ms;
  start(limits);
  std::vector<RawClient> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(connect());
    slow.back().send(i % 3 == 0   ? "GET /ec"
                     : i % 3 == 1 ? "POST /echo HTTP/1.1\r\nHost: localhost\r\n"
                                    "Content-Length: 100\r\n\r\nab"
                                  : "");
    if (i % 10 == 0) {
      EXPECT_EQ(good(), 200);
    }
  }
  for (int i = 0; i < 100; ++i) {
    const std::string answer = slow[static_cast<std::size_t>(i)].read_all();
    EXPECT_EQ(answer.substr(0, 12), i % 3 == 2 ? "" : "HTTP/1.1 408");
    EXPECT_EQ(answer.find("TIMEOUT"), std::string::npos);
  }
  EXPECT_EQ(good(), 200);
}

// Row 22: too many connections.
// A look at all connections that lacks memory is not the last one.
TEST_F(HttpServerTest, TimesEndAfterALookThatFailed) {
  application_.failing_ticks = 2;
  HttpLimits limits;
  limits.head_time = 700ms;
  start(limits);
  RawClient slow = connect();
  slow.send("GET /ec");
  EXPECT_EQ(slow.read_all().substr(0, 12), "HTTP/1.1 408");
  EXPECT_EQ(application_.failing_ticks, 0);
}

TEST_F(HttpServerTest, MakesRoomByClosingIdleConnections) {
  HttpLimits limits;
  limits.connections = 10;
  start(limits);
  std::vector<RawClient> idle;
  for (int i = 0; i < 30; ++i) {
    idle.push_back(connect());
    idle.back().send(get("/echo"));
    EXPECT_EQ(idle.back().read_answer().status, 200);
  }
  std::vector<RawClient> busy;
  for (int i = 0; i < 10; ++i) {
    busy.push_back(connect());
    busy.back().send(get("/stream"));
    EXPECT_EQ(busy.back().read_until("\r\n\r\n").substr(0, 12), "HTTP/1.1 200");
  }
  RawClient one_more = connect();
  EXPECT_EQ(one_more.read_answer().status, 503);
  busy.clear();
  EXPECT_TRUE(application_.disconnected(10));
  EXPECT_EQ(good(), 200);
}

// Row 22: no descriptor is left for a new connection.
TEST_F(HttpServerTest, WaitsForFileDescriptors) {
  start();
  ASSERT_EQ(good(), 200);
  rlimit was{};
  getrlimit(RLIMIT_NOFILE, &was);
  std::vector<RawClient> clients;
  clients.reserve(20);
  for (int i = 0; i < 10; ++i) {
    clients.push_back(connect());
    clients.back().send(get("/echo"));
    ASSERT_EQ(clients.back().read_answer().status, 200);
  }
  RawClient last = connect();  // has its descriptor already; the server gets none
  last.send(get("/echo"));
  ASSERT_EQ(last.read_answer().status, 200);
  int highest = dup(0);
  ::close(highest);
  std::vector<int> free;
  rlimit low = was;
  low.rlim_cur = static_cast<rlim_t>(highest) + 1;
  setrlimit(RLIMIT_NOFILE, &low);
  RawClient starved = connect();  // takes the last one
  starved.send(get("/echo"));
  for (int i = 0; i < 500; ++i) {
    std::this_thread::sleep_for(10ms);
    const std::lock_guard lock(application_.mutex);
    if (!log_.empty()) {
      break;
    }
  }
  setrlimit(RLIMIT_NOFILE, &was);
  EXPECT_EQ(starved.read_answer().status, 200);
  const std::lock_guard lock(application_.mutex);
  ASSERT_FALSE(log_.empty());
  EXPECT_NE(log_.front().find("file descriptors"), std::string::npos);
}

TEST_F(HttpServerTest, StreamsInChunks) {
  start();
  RawClient client = connect();
  client.send(get("/stream"));
  const auto responder = application_.next();
  ASSERT_TRUE(responder);
  responder->send("one ");
  responder->send("two");
  responder->end();
  responder->send("late");
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.body, "one two");
  client.send(get("/echo"));
  EXPECT_EQ(client.read_answer().body, "GET ");
  RawClient old = connect();
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  const auto other = application_.next();
  other->send("all");
  other->end();
  const std::string all = old.read_all();
  EXPECT_EQ(all.substr(all.find("\r\n\r\n")), "\r\n\r\nall") << "until the end of the connection";
}

// Row 35: both ways of going away, while an answer is awaited and while it streams.
TEST_F(HttpServerTest, ADisconnectIsKnownAtOnce) {
  start();
  int count = 0;
  for (const char* path : {"/wait", "/stream"}) {
    for (const bool reset : {false, true}) {
      RawClient client = connect();
      client.send(get(path));
      const auto responder = application_.next();
      ASSERT_TRUE(responder);
      reset ? client.reset() : client.close();
      EXPECT_TRUE(application_.disconnected(++count)) << path << (reset ? " reset" : " closed");
      responder->send("x");
      responder->respond({200, {}, "late"});
    }
  }
  EXPECT_EQ(good(), 200);
  const std::lock_guard lock(application_.mutex);
  EXPECT_TRUE(application_.records.front().disconnected);
  EXPECT_EQ(application_.records.front().status, 499);
}

// Row 36: a client that will not say more is still listening.
TEST_F(HttpServerTest, AHalfClosedClientIsServed) {
  start();
  RawClient client = connect();
  client.send(get("/wait") + get("/echo"));
  client.close_writing();
  const auto responder = application_.next();
  ASSERT_TRUE(responder);
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(application_.disconnects, 0);
  responder->respond({200, {}, "here"});
  RawClient::Answer answer = client.read_answer(false);
  EXPECT_EQ(answer.status, 100);
  EXPECT_EQ(client.read_answer().body, "here");
  EXPECT_EQ(client.read_answer(false).status, 100);
  EXPECT_EQ(client.read_answer().body, "GET ");
  EXPECT_TRUE(client.closed());
  RawClient stream = connect();
  stream.send(get("/stream"));
  stream.close_writing();
  const auto sender = application_.next();
  EXPECT_NE(stream.read_until("~").find('~'), std::string::npos);
  sender->send("there");
  sender->end();
  EXPECT_NE(stream.read_all().find("there"), std::string::npos);
}

// It may have taken the first probe before it went.
TEST_F(HttpServerTest, AHalfClosedClientThatGoesIsForgotten) {
  HttpLimits limits;
  limits.heartbeat_time = 100ms;
  start(limits);
  RawClient client = connect();
  client.send(get("/wait"));
  client.close_writing();
  const auto responder = application_.next();
  ASSERT_TRUE(responder);
  EXPECT_EQ(client.read_answer(false).status, 100);
  EXPECT_EQ(application_.disconnects, 0);
  client.close();
  EXPECT_TRUE(application_.disconnected(1));
  responder->respond({200, {}, "nobody"});
}

// Row 37: a client that does not read is cut off, and the sender never waits.
TEST_F(HttpServerTest, AClientThatDoesNotReadIsCutOff) {
  start();
  RawClient client(port_, 4096);
  client.send(get("/stream"));
  const auto responder = application_.next();
  ASSERT_TRUE(responder);
  const std::size_t before = resident_bytes();
  const std::string part(64 << 10, 'a');
  for (int i = 0; i < 1000 && application_.disconnects == 0; ++i) {
    responder->send(part);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(application_.disconnected(1));
  EXPECT_LT(resident_bytes(), before + (48u << 20));
  EXPECT_EQ(good(), 200);
}

// Row 40.
TEST_F(HttpServerTest, ASilentStreamHasHeartbeats) {
  HttpLimits limits;
  limits.heartbeat_time = 200ms;
  start(limits);
  RawClient client = connect();
  client.send(get("/stream"));
  const auto responder = application_.next();
  client.read_until("\r\n\r\n");
  EXPECT_EQ(client.read_until("~\r\n"), "1\r\n~\r\n");
  EXPECT_EQ(client.read_until("~\r\n"), "1\r\n~\r\n");
  responder->end();
}

TEST_F(HttpServerTest, ALostRequestIsAnswered) {
  start();
  EXPECT_EQ(ask(port_, "GET", "/throw").status, 500);
  RawClient client = connect();
  client.send(get("/wait"));
  application_.next().reset();
  EXPECT_EQ(client.read_answer().status, 500);
  RawClient stream = connect();
  stream.send(get("/stream"));
  application_.next().reset();
  EXPECT_EQ(stream.read_all().find("0\r\n\r\n"), std::string::npos)
      << "not the end of a whole answer";
}

// Row 48.
TEST_F(HttpServerTest, APortInUseIsNamed) {
  start();
  try {
    const Listener second("127.0.0.1", static_cast<std::uint16_t>(port_));
    FAIL() << "two servers on one port";
  } catch (const core::Error& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("port {}: the address is in use", port_)),
              std::string::npos);
    EXPECT_EQ(error.kind(), core::ErrorKind::kFailed);
  }
  EXPECT_THROW(Listener("no.such.host.invalid", 0), core::Error);
}

TEST_F(HttpServerTest, StopsWithConnectionsOpen) {
  start();
  RawClient idle = connect();
  RawClient half = connect();
  half.send("GET /ec");
  RawClient waiting = connect();
  waiting.send(get("/wait"));
  const auto responder = application_.next();
  server_->stop(500ms);
  responder->respond({200, {}, "last"});
  const auto answer = waiting.read_answer();
  EXPECT_EQ(answer.body, "last");
  EXPECT_EQ(answer.header("Connection"), "close");
  thread_.join();
  thread_ = std::thread([] {});
}

}  // namespace
}  // namespace nibble::serve
