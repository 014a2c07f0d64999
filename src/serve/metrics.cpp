#include "serve/metrics.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

namespace nibble::serve {
namespace {

std::vector<double> first_token_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
}

std::vector<double> token_time_bounds() {
  return {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
          0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
}

std::vector<double> request_time_bounds() {
  return {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
          30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
}

// 1, 2, 5, 10, 20, 50 ... up to the context.
std::vector<double> token_bounds(std::int64_t context) {
  std::vector<double> bounds;
  for (std::int64_t ten = 1; ten <= context; ten *= 10) {
    for (const std::int64_t step : {1, 2, 5}) {
      if (ten * step <= context) {
        bounds.push_back(static_cast<double>(ten * step));
      }
    }
  }
  return bounds;
}

// For the value of a label.
std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') {
      text += '\\';
    }
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

void append_head(std::string& text, std::string_view name, std::string_view type,
                 std::string_view help) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void append_value(std::string& text, std::string_view name, std::string_view type,
                  std::string_view help, std::string_view labels, double value) {
  append_head(text, name, type, help);
  text += fmt::format("{}{{{}}} {}\n", name, labels, value);
}

void append_histogram(std::string& text, std::string_view name, std::string_view help,
                      std::string_view labels, const Histogram& histogram) {
  append_head(text, name, "histogram", help);
  histogram.append(text, name, labels);
}

double resident_memory() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double open_files() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    ++count;
  }
  return count;
}

double start_time() {
  static const double start =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return start;
}

}  // namespace

void Histogram::observe(double value, std::uint64_t times) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)] += times;
  count_ += times;
  sum_ += value * static_cast<double>(times);
}

void Histogram::append(std::string& text, std::string_view name, std::string_view labels) const {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i];
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], below);
  }
  text += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name,
                      labels, count_, name, labels, sum_, name, labels, count_);
}

Metrics::Metrics(const std::string& model, std::int64_t context)
    : model_label_(fmt::format("model_name=\"{}\"", escaped(model))),
      first_token_(first_token_bounds()),
      between_tokens_(token_time_bounds()),
      whole_(request_time_bounds()),
      queue_(request_time_bounds()),
      prefill_(request_time_bounds()),
      decode_(request_time_bounds()),
      prompt_lengths_(token_bounds(context)),
      generation_lengths_(token_bounds(context)),
      max_tokens_(token_bounds(context)),
      choices_({1, 2, 5, 10, 20}) {
  for (const char* reason : {"stop", "length", "abort", "error"}) {
    finished_[reason] = 0;
  }
  start_time();
}

void Metrics::http_request(std::string_view handler, std::string_view method, int status) {
  ++http_requests_[{std::string(handler), std::string(method), status}];
}

void Metrics::accepted(std::int64_t prompt_tokens, int choices, std::int64_t max_tokens) {
  prompt_tokens_ += prompt_tokens;
  prompt_lengths_.observe(static_cast<double>(prompt_tokens));
  choices_.observe(choices);
  max_tokens_.observe(static_cast<double>(max_tokens));
}

void Metrics::phases(double queue, double prefill, double decode) {
  queue_.observe(queue);
  prefill_.observe(prefill);
  decode_.observe(decode);
}

void Metrics::later_tokens(double seconds, std::uint64_t tokens) {
  if (tokens > 0) {
    between_tokens_.observe(seconds / static_cast<double>(tokens), tokens);
  }
}

void Metrics::finished(std::string_view reason, double seconds, std::int64_t tokens) {
  const auto at = finished_.find(reason);
  if (at != finished_.end()) {
    ++at->second;
  }
  whole_.observe(seconds);
  generation_lengths_.observe(static_cast<double>(tokens));
}

void Metrics::append_values(std::string& out, const Gauges& gauges) const {
  struct Row {
    std::string_view name;
    std::string_view type;
    std::string_view help;
    double value;
  };
  const auto number = [](auto count) { return static_cast<double>(count); };
  const Row rows[] = {
      {"num_requests_running", "gauge", "Sequences that are computed.", number(gauges.running)},
      {"num_requests_waiting", "gauge", "Sequences that wait for room.", number(gauges.waiting)},
      {"kv_cache_usage_perc", "gauge", "Used share of the KV cache, 0 to 1.", gauges.kv_usage},
      {"prompt_tokens_total", "counter", "Tokens of prompts.", number(prompt_tokens_)},
      {"generation_tokens_total", "counter", "Tokens that were written.",
       number(gauges.generated_tokens)},
      {"num_preemptions_total", "counter", "Sequences that gave their room up and came back later.",
       number(gauges.preemptions)},
      {"prefix_cache_queries_total", "counter",
       "Prompt tokens that were looked for in the prefix cache.", number(gauges.prefix_queries)},
      {"prefix_cache_hits_total", "counter", "Prompt tokens that were found in the prefix cache.",
       number(gauges.prefix_hits)},
      {"spec_decode_num_draft_tokens_total", "counter",
       "Tokens that were guessed, to be checked together.", number(gauges.drafted_tokens)},
      {"spec_decode_num_accepted_tokens_total", "counter", "Guessed tokens that were right.",
       number(gauges.accepted_drafts)},
      {"admission_rejections_total", "counter", "Requests refused because the queue was full.",
       number(rejections_)},
  };
  for (const Row& row : rows) {
    append_value(out, fmt::format("nibble:{}", row.name), row.type, row.help, model_label_,
                 row.value);
  }
}

void Metrics::append_histograms(std::string& out) const {
  struct Row {
    std::string_view name;
    std::string_view help;
    const Histogram& histogram;
  };
  const Row rows[] = {
      {"time_to_first_token_seconds", "From the request to its first text.", first_token_},
      {"inter_token_latency_seconds", "From one token to the next.", between_tokens_},
      {"e2e_request_latency_seconds", "From the request to its end.", whole_},
      {"request_queue_time_seconds", "From the request until it was admitted.", queue_},
      {"request_prefill_time_seconds", "From the admission to the first token.", prefill_},
      {"request_decode_time_seconds", "From the first token to the last.", decode_},
      {"request_prompt_tokens", "Tokens of a prompt.", prompt_lengths_},
      {"request_generation_tokens", "Tokens of an answer.", generation_lengths_},
      {"request_params_max_tokens", "Tokens that were asked for.", max_tokens_},
      {"request_params_n", "Choices that were asked for.", choices_},
  };
  for (const Row& row : rows) {
    append_histogram(out, fmt::format("nibble:{}", row.name), row.help, model_label_,
                     row.histogram);
  }
}

std::string Metrics::text(const Gauges& gauges) const {
  std::string out;
  append_values(out, gauges);
  append_head(out, "nibble:request_success_total", "counter", "Sequences by why they ended.");
  for (const auto& [reason, count] : finished_) {
    out += fmt::format("nibble:request_success_total{{{},finished_reason=\"{}\"}} {}\n",
                       model_label_, reason, count);
  }
  append_histograms(out);
  append_head(out, "http_requests_total", "counter", "HTTP requests.");
  for (const auto& [key, count] : http_requests_) {
    const auto& [handler, method, status] = key;
    out += fmt::format("http_requests_total{{handler=\"{}\",method=\"{}\",status=\"{}\"}} {}\n",
                       escaped(handler), escaped(method), status, count);
  }
  append_value(out, "process_resident_memory_bytes", "gauge", "Resident memory.", "",
               resident_memory());
  append_value(out, "process_open_fds", "gauge", "Open file descriptors.", "", open_files());
  append_value(out, "process_start_time_seconds", "gauge", "Unix time of the start.", "",
               start_time());
  return out;
}

}  // namespace nibble::serve
