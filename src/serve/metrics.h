#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace nibble::serve {

/// How many values lie at or below each of some bounds.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void observe(double value, std::uint64_t times = 1);
  void append(std::string& text, std::string_view name, std::string_view labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;  // not summed up
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// What stands in /metrics as it is now.
struct Gauges {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  double kv_usage = 0;  // 0 to 1
  std::int64_t generated_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t prefix_queries = 0;  // tokens
  std::int64_t prefix_hits = 0;
  std::int64_t drafted_tokens = 0;
  std::int64_t accepted_drafts = 0;
};

/// Counters and histograms in the text format of Prometheus, by vLLM's names with the prefix
/// nibble: and with its bounds, so that dashboards need only the other prefix. On the I/O thread.
class Metrics {
 public:
  /// `context` bounds the histograms of tokens.
  Metrics(const std::string& model, std::int64_t context);

  void http_request(std::string_view handler, std::string_view method, int status);
  void rejected() { ++rejections_; }
  void accepted(std::int64_t prompt_tokens, int choices, std::int64_t max_tokens);
  void first_token(double seconds) { first_token_.observe(seconds); }
  /// Of a text that ended by itself: from the request until it was admitted, from there to its
  /// first token, and from there to its last.
  void phases(double queue, double prefill, double decode);
  void later_tokens(double seconds, std::uint64_t tokens);
  /// `reason`: stop, length, abort or error.
  void finished(std::string_view reason, double seconds, std::int64_t tokens);

  std::string text(const Gauges& gauges) const;

 private:
  void append_values(std::string& out, const Gauges& gauges) const;
  void append_histograms(std::string& out) const;

  std::string model_label_;
  std::map<std::tuple<std::string, std::string, int>, std::uint64_t> http_requests_;
  std::map<std::string, std::uint64_t, std::less<>> finished_;
  std::uint64_t rejections_ = 0;
  std::int64_t prompt_tokens_ = 0;
  Histogram first_token_;
  Histogram between_tokens_;
  Histogram whole_;
  Histogram queue_;
  Histogram prefill_;
  Histogram decode_;
  Histogram prompt_lengths_;
  Histogram generation_lengths_;
  Histogram max_tokens_;
  Histogram choices_;
};

}  // namespace nibble::serve
