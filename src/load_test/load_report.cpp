#include "load_test/load_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/json.h"
#include "report/histogram.h"
#include "report/html.h"
#include "report/text_table.h"

namespace nibble::load_test {
namespace {

constexpr double kMilli = 1000;
constexpr int kColumns = 40;  // of a histogram

double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

bool is_served(const RequestOutcome& request) {
  return request.error.empty() && !request.cancelled;
}

// Seconds for each token after the first; 0 where there is no other.
double per_token(const RequestOutcome& request) {
  return request.output_tokens > 1
             ? (request.end - request.first_token) / static_cast<double>(request.output_tokens - 1)
             : 0.0;
}

bool keeps(const RequestOutcome& request, const Goals& goals) {
  const auto within = [](double seconds, const std::optional<double>& limit) {
    return !limit || seconds * kMilli <= *limit;
  };
  return within(request.first_token, goals.ttft) && within(per_token(request), goals.tpot) &&
         within(request.end, goals.e2el);
}

struct NamedLatency {
  const char* key;
  const char* name;
  const Latency* latency;
};

std::vector<NamedLatency> latencies(const LoadFigures& figures) {
  return {{"ttft", "time to first token", &figures.ttft},
          {"tpot", "time per output token", &figures.tpot},
          {"itl", "between pieces of text", &figures.itl},
          {"e2el", "end to end", &figures.e2el}};
}

double rate(std::int64_t count, const LoadFigures& figures) {
  return figures.seconds > 0 ? static_cast<double>(count) / figures.seconds : 0.0;
}

report::Table latency_table(const LoadFigures& figures) {
  report::Table table{{"ms", "mean", "median", "p90", "p95", "p99"}, {}};
  for (const NamedLatency& each : latencies(figures)) {
    const Latency& l = *each.latency;
    std::vector<std::string> row = {each.name};
    for (const double value : {l.mean, l.median, l.p90, l.p95, l.p99}) {
      row.push_back(fmt::format("{:.2f}", value));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string summary(const LoadFigures& figures) {
  return fmt::format(
      "{} served, {} failed, {} cancelled in {:.2f} s: {:.2f} requests/s, {:.1f} output tokens/s, "
      "{:.1f} tokens/s in all, goodput {:.2f} requests/s",
      figures.completed, figures.failed, figures.cancelled, figures.seconds,
      rate(figures.completed, figures), rate(figures.output_tokens, figures),
      rate(figures.input_tokens + figures.output_tokens, figures), figures.goodput);
}

std::string chart(const std::string& title, const std::vector<double>& seconds,
                  const Latency& latency) {
  report::Histogram histogram;
  histogram.title = title;
  histogram.x_name = "ms";
  histogram.high = std::max(1e-3, kMilli * *std::max_element(seconds.begin(), seconds.end()));
  histogram.counts.assign(kColumns, 0.0);
  for (const double value : seconds) {
    const auto column = static_cast<std::size_t>(kColumns * value * kMilli / histogram.high);
    histogram.counts[std::min<std::size_t>(column, kColumns - 1)] += 1;
  }
  histogram.marks = {{latency.median, "median"}, {latency.p99, "p99"}};
  return report::to_svg(histogram);
}

}  // namespace

Latency latency_of(std::vector<double> seconds) {
  if (seconds.empty()) {
    return {};
  }
  std::sort(seconds.begin(), seconds.end());
  const auto count = static_cast<double>(seconds.size());
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / count;
  double square = 0;
  for (const double value : seconds) {
    square += (value - mean) * (value - mean);
  }
  return {kMilli * mean,
          kMilli * std::sqrt(square / count),
          kMilli * percentile(seconds, 0.5),
          kMilli * percentile(seconds, 0.9),
          kMilli * percentile(seconds, 0.95),
          kMilli * percentile(seconds, 0.99)};
}

Goals parse_goals(const std::vector<std::string>& words) {
  Goals goals;
  for (const std::string& word : words) {
    const std::size_t colon = word.find(':');
    const std::string name = word.substr(0, colon);
    auto* const goal = name == "ttft"   ? &goals.ttft
                       : name == "tpot" ? &goals.tpot
                       : name == "e2el" ? &goals.e2el
                                        : nullptr;
    double limit = 0;
    const char* const end = word.data() + word.size();
    const char* const begin = colon == std::string::npos ? end : word.data() + colon + 1;
    const auto [at, error] = std::from_chars(begin, end, limit);
    core::require(goal != nullptr && error == std::errc() && at == end && limit > 0,
                  core::ErrorKind::kUsage,
                  "goal '{}' is not ttft:MS, tpot:MS or e2el:MS with a number of milliseconds",
                  core::printable(word));
    *goal = limit;
  }
  return goals;
}

LoadFigures figures_of(const LoadResult& result, const Goals& goals) {
  LoadFigures figures;
  figures.seconds = result.seconds;
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> itl;
  std::vector<double> e2el;
  std::int64_t good = 0;
  for (const RequestOutcome& request : result.requests) {
    figures.cancelled += request.cancelled ? 1 : 0;
    figures.failed += !request.cancelled && !request.error.empty() ? 1 : 0;
    if (!is_served(request)) {
      continue;
    }
    ++figures.completed;
    figures.input_tokens += request.prompt_tokens;
    figures.output_tokens += request.output_tokens;
    good += keeps(request, goals) ? 1 : 0;
    ttft.push_back(request.first_token);
    e2el.push_back(request.end);
    itl.insert(itl.end(), request.gaps.begin(), request.gaps.end());
    if (request.output_tokens > 1) {
      tpot.push_back(per_token(request));
    }
  }
  figures.goodput = rate(good, figures);
  figures.ttft = latency_of(std::move(ttft));
  figures.tpot = latency_of(std::move(tpot));
  figures.itl = latency_of(std::move(itl));
  figures.e2el = latency_of(std::move(e2el));
  return figures;
}

core::Json to_json(const LoadFigures& figures) {
  core::Json json = {
      {"duration", figures.seconds},
      {"completed", figures.completed},
      {"failed", figures.failed},
      {"cancelled", figures.cancelled},
      {"total_input_tokens", figures.input_tokens},
      {"total_output_tokens", figures.output_tokens},
      {"request_throughput", rate(figures.completed, figures)},
      {"request_goodput", figures.goodput},
      {"output_throughput", rate(figures.output_tokens, figures)},
      {"total_token_throughput", rate(figures.input_tokens + figures.output_tokens, figures)}};
  for (const NamedLatency& each : latencies(figures)) {
    const std::string key = each.key;
    const Latency& l = *each.latency;
    json["mean_" + key + "_ms"] = l.mean;
    json["std_" + key + "_ms"] = l.deviation;
    json["median_" + key + "_ms"] = l.median;
    json["p90_" + key + "_ms"] = l.p90;
    json["p95_" + key + "_ms"] = l.p95;
    json["p99_" + key + "_ms"] = l.p99;
  }
  return json;
}

std::string to_text(const LoadFigures& figures) {
  return summary(figures) + "\n" + report::to_text(latency_table(figures));
}

std::string to_html(const LoadFigures& figures, const LoadResult& result,
                    const std::string& title) {
  std::vector<std::string> sections = {report::paragraph(summary(figures)),
                                       report::to_html(latency_table(figures))};
  std::vector<double> first;
  std::vector<double> end;
  for (const RequestOutcome& request : result.requests) {
    if (is_served(request)) {
      first.push_back(request.first_token);
      end.push_back(request.end);
    }
  }
  if (!first.empty()) {
    sections.push_back(chart("Requests by their time to the first token", first, figures.ttft));
    sections.push_back(chart("Requests by their time to the end", end, figures.e2el));
  }
  return report::page(title, sections);
}

}  // namespace nibble::load_test
