#include "load_test/load_run.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "load_test/http_client.h"
#include "load_test/sse_reader.h"

namespace nibble::load_test {
namespace {

using Clock = std::chrono::steady_clock;
using core::Json;

// A text of which prompts are cut: the same words in a changing order.
std::string sample_text(std::uint64_t seed) {
  constexpr const char* kWords[] = {"the",   "memory", "of",    "a",     "river", "moves", "water",
                                    "and",   "stone",  "to",    "every", "place", "where", "people",
                                    "build", "small",  "boats", "from",  "old",   "wood",  "in"};
  core::Random random(seed);
  std::string text;
  for (int i = 0; i < 4000; ++i) {
    text += kWords[random.below(std::ssize(kWords))];
    text += i % 13 == 12 ? ". " : " ";
  }
  return text;
}

// "http://host:port" of what the user gave.
std::string base_of(std::string url) {
  while (url.ends_with('/')) {
    url.pop_back();
  }
  if (url.ends_with("/v1")) {
    url.resize(url.size() - 3);
  }
  return url.find("://") == std::string::npos ? "http://" + url : url;
}

class LoadRun {
 public:
  LoadRun(const LoadOptions& options, const std::function<void(std::int64_t)>& progress)
      : options_(options),
        progress_(progress),
        client_(options.api_key),
        base_(base_of(options.url)),
        random_(options.workload.seed + 1) {}

  LoadResult run() {
    prepare();
    const std::vector<PlannedRequest> planned = plan(options_.workload);
    result_.requests.resize(planned.size());
    const bool open = options_.workload.rate > 0;
    const std::int64_t most = open && options_.concurrency == 0
                                  ? std::numeric_limits<std::int64_t>::max()
                                  : std::max<std::int64_t>(1, options_.concurrency);
    start_ = Clock::now();
    for (std::size_t next = 0; next < planned.size() || client_.running() > 0;) {
      const bool room = static_cast<std::int64_t>(client_.running()) < most;
      if (next < planned.size() && room && planned[next].arrival <= now()) {
        send(planned[next], result_.requests[next]);
        ++next;
        continue;
      }
      const bool waits = next < planned.size() && room;
      client_.poll(waits ? std::clamp(planned[next].arrival - now(), 0.0, 0.1) : 0.1);
    }
    result_.seconds = now();
    return std::move(result_);
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // Asks for the model's name, and for token ids to make prompts of.
  void prepare() {
    if (options_.model.empty()) {
      const Json models = Json::parse(client_.fetch(base_ + "/v1/models"), nullptr, false);
      core::require(models.is_object() && models.contains("data") && models["data"].is_array() &&
                        !models["data"].empty() && models["data"][0].contains("id"),
                    core::ErrorKind::kFailed, "{}/v1/models names no model", base_);
      options_.model = models["data"][0]["id"].get<std::string>();
    }
    const Json answer = tokenize(sample_text(options_.workload.seed));
    core::require(answer.is_object() && answer.contains("tokens") && answer["tokens"].is_array() &&
                      answer["tokens"].size() > 64,
                  core::ErrorKind::kFailed, "{}/tokenize gives no tokens", base_);
    ids_ = answer["tokens"].get<std::vector<std::int64_t>>();
  }

  // The text's field is called prompt by some servers, content by others.
  Json tokenize(const std::string& text) {
    const std::string url = base_ + "/tokenize";
    std::string answer;
    try {
      answer = client_.fetch(url, Json{{"model", options_.model}, {"prompt", text}}.dump());
    } catch (const core::Error&) {
      answer = client_.fetch(url, Json{{"content", text}}.dump());
    }
    return Json::parse(answer, nullptr, false);
  }

  // Ids from a random place of the text on, around its end.
  std::vector<std::int64_t> prompt(std::int64_t tokens) {
    auto at = static_cast<std::size_t>(random_.below(std::ssize(ids_)));
    std::vector<std::int64_t> ids;
    while (std::ssize(ids) < tokens) {
      ids.push_back(ids_[at]);
      at = (at + 1) % ids_.size();
    }
    return ids;
  }

  void send(const PlannedRequest& planned, RequestOutcome& outcome) {
    const Json body = {{"model", options_.model},
                       {"prompt", prompt(planned.prompt_tokens)},
                       {"max_tokens", planned.output_tokens},
                       {"temperature", options_.temperature},
                       {"ignore_eos", true},
                       {"stream", true},
                       {"stream_options", {{"include_usage", true}}}};
    const bool gives_up = random_.uniform() < options_.cancel_share;
    const double last_event =
        gives_up
            ? static_cast<double>(random_.below(std::max<std::int64_t>(1, planned.output_tokens)))
            : std::numeric_limits<double>::infinity();
    outcome.sent = now();
    struct Stream {
      SseReader reader;
      std::string first_bytes;  // of an answer that is not a stream
      double last = 0;
      std::int64_t events = 0;
      bool done = false;
    };
    auto stream = std::make_shared<Stream>(Stream{SseReader(nullptr), {}, 0, 0, false});
    Stream* const seen = stream.get();  // the reader lives in it
    stream->reader = SseReader([this, seen, &outcome](std::string_view data) {
      try {  // called from within libcurl
        take(data, *seen, outcome);
      } catch (const Json::exception&) {
        outcome.error = fmt::format("an event is not understood: {}", core::printable(data));
      }
    });
    client_.start({base_ + "/v1/completions", body.dump(),
                   [stream, last_event, &outcome](std::string_view bytes) {
                     if (stream->first_bytes.size() < 300) {
                       stream->first_bytes += bytes.substr(0, 300);
                     }
                     stream->reader.push(bytes);
                     outcome.cancelled = static_cast<double>(stream->events) > last_event;
                     return !outcome.cancelled;
                   },
                   [this, stream, &outcome](const TransferResult& result) {
                     outcome.end = now() - outcome.sent;
                     if (!result.error.empty()) {
                       outcome.error = result.error;
                     } else if (result.status != 200) {
                       outcome.error = fmt::format("status {}: {}", result.status,
                                                   core::printable(stream->first_bytes, 200));
                     } else if (outcome.error.empty() && !outcome.cancelled && !stream->done) {
                       outcome.error = "the stream ended without [DONE]";
                     }
                     progress_(++ended_);
                   }});
  }

  template <typename Stream>
  void take(std::string_view data, Stream& stream, RequestOutcome& outcome) {
    if (data == "[DONE]") {
      stream.done = true;
      return;
    }
    const Json chunk = Json::parse(data, nullptr, false);
    if (!chunk.is_object() || chunk.contains("error")) {
      outcome.error = fmt::format("an event says {}", core::printable(data, 200));
      return;
    }
    if (chunk.contains("usage") && chunk["usage"].is_object()) {
      outcome.prompt_tokens = chunk["usage"].value("prompt_tokens", std::int64_t{0});
      outcome.output_tokens = chunk["usage"].value("completion_tokens", std::int64_t{0});
    }
    if (!chunk.contains("choices") || !chunk["choices"].is_array() || chunk["choices"].empty() ||
        chunk["choices"][0].value("text", std::string()).empty()) {
      return;
    }
    const double time = now() - outcome.sent;
    if (stream.events++ == 0) {
      outcome.first_token = time;
    } else {
      outcome.gaps.push_back(time - stream.last);
    }
    stream.last = time;
  }

  LoadOptions options_;
  const std::function<void(std::int64_t)>& progress_;
  HttpClient client_;
  std::string base_;
  core::Random random_;
  std::vector<std::int64_t> ids_;
  Clock::time_point start_;
  std::int64_t ended_ = 0;
  LoadResult result_;
};

}  // namespace

LoadResult run_load(const LoadOptions& options, const std::function<void(std::int64_t)>& progress) {
  return LoadRun(options, progress).run();
}

}  // namespace nibble::load_test
