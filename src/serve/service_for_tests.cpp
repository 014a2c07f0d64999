#include "serve/service_for_tests.h"

#include <filesystem>
#include <map>

namespace nibble::serve {

using namespace std::chrono_literals;

std::shared_ptr<const models::Model> ServiceTest::demo() {
  static const std::shared_ptr<const models::Model> model =
      models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo");
  return model;
}

ServiceTest::ServiceTest() {
  options_.names = {"demo", "family/demo"};
  options_.chat_template = kTemplate;
  engine_.max_batch = 4;
}

void ServiceTest::start() {
  engine::RunnerOptions runner;
  runner.cpu.threads = 1;
  service_ = std::make_unique<Service>(
      demo(),
      std::make_unique<engine::Engine>(demo(),
                                       std::make_unique<ControlledRunner>(
                                           engine::make_cpu_runner(demo(), runner), hook_, script_),
                                       engine_),
      Listener(options_.http.host, 0), options_, [this](const LogRecord& record) {
        const std::lock_guard lock(log_mutex_);
        log_.push_back(record);
      });
  port_ = service_->port();
  thread_ = std::thread([this] { outcome_ = service_->run(); });
}

void ServiceTest::TearDown() {
  gate_.open();
  if (thread_.joinable()) {
    EXPECT_TRUE(becomes_idle()) << "something still runs, or holds pages";
    EXPECT_EQ(get("/health").status, 200);
    service_->drain();
    wait_for_end();
    EXPECT_EQ(outcome_, Outcome::kStopped);
  }
}

Outcome ServiceTest::wait_for_end() {
  thread_.join();
  return outcome_;
}

RawClient ServiceTest::send(const std::string& path, const std::string& body) const {
  RawClient client(port_);
  client.send(
      fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                  "application/json\r\nContent-Length: {}\r\n\r\n{}",
                  path, body.size(), body));
  return client;
}

core::Json ServiceTest::json(const RawClient::Answer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("Content-Type"), "application/json");
  return core::parse_json(answer.body, "answer");
}

void ServiceTest::is_error(const RawClient::Answer& answer, int status, const std::string& param,
                           const std::string& what) {
  EXPECT_EQ(answer.status, status) << what.substr(0, 300) << "\n" << answer.body;
  if (answer.status == 200 || answer.body.empty()) {
    return;
  }
  const core::Json error = core::parse_json(answer.body, "answer").at("error");
  EXPECT_TRUE(error.at("message").is_string() && error.at("type").is_string());
  EXPECT_EQ(error.at("param").is_null() ? "" : error.at("param").get<std::string>(), param)
      << what.substr(0, 300) << "\n"
      << answer.body;
  EXPECT_TRUE(error.contains("code"));
  EXPECT_NE(answer.header("x-request-id"), "");
}

double ServiceTest::metric(const std::string& name) const {
  const std::string text = get("/metrics", key_header_).body;
  const std::size_t at = text.find("\n" + name + (name.back() == '}' ? " " : "{"));
  return at == std::string::npos ? -1.0 : std::stod(text.substr(text.find(' ', at + 1)));
}

bool ServiceTest::metric_becomes(const std::string& name, double value) const {
  for (int i = 0; i < 500; ++i) {
    if (metric(name) == value) {
      return true;
    }
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

bool ServiceTest::becomes_idle() const {
  return metric_becomes("nibble:num_requests_running", 0) &&
         metric_becomes("nibble:num_requests_waiting", 0) &&
         metric_becomes("nibble:kv_cache_usage_perc", 0);
}

std::string ServiceTest::logged(const std::string& field, const std::string& request) const {
  const std::lock_guard lock(log_mutex_);
  for (const LogRecord& record : log_) {
    std::map<std::string, std::string> fields(record.fields.begin(), record.fields.end());
    if (record.message == "a request failed" && fields["request"] == request) {
      return fields[field];
    }
  }
  return "";
}

std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  std::size_t at = 0;
  for (std::size_t end = body.find("\n\n"); end != std::string::npos;
       at = end + 2, end = body.find("\n\n", at)) {
    const std::string text = body.substr(at, end - at);
    if (text.rfind(':', 0) != 0) {
      EXPECT_EQ(text.substr(0, 6), "data: ");
      events.push_back(text.substr(6));
    }
  }
  EXPECT_EQ(at, body.size()) << "the last event is not whole";
  return events;
}

}  // namespace nibble::serve
