#include <cstdlib>
#include <ctime>
#include <mutex>

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/draft_options.h"
#include "cli/log_line.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/running_options.h"
#include "cli/settings.h"
#include "core/byte_size.h"
#include "core/freed_memory.h"
#include "engine/engine.h"
#include "hub/cache.h"
#include "io/text_file.h"
#include "serve/encoder_service.h"
#include "serve/loading_server.h"
#include "serve/service.h"
#include "text/chat_template.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMaxTemplateBytes = 1 << 22;
constexpr std::int64_t kMaxKeyFileBytes = 1 << 20;
constexpr std::int64_t kMaxDamageBytes = 1 << 20;
constexpr int kExitHurried = 130;

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Of --swap-space.
std::int64_t swap_bytes(const std::string& text) {
  return text == "0" ? 0 : core::parse_byte_size(text, "the text");
}

class Serve final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    settings_.add(app, "NIBBLE_SERVE_");
    add_network_options(app);
    add_engine_options(app);
    drafts_.add(app);
    running_.add(app);
  }

  bool divides_work() const override { return true; }

  void run() override {
    Ranks ranks;
    if (ranks.leads()) {
      check_network();
      if (settings_.print()) {
        print_result("{}\n", settings_.text("api-key"));
        return;
      }
    }
    core::keep_little_freed_memory();
    engine::RunnerOptions runner_options = ranks.options(model_, running_);
    runner_options.alike_steps = engine_.deterministic;
    if (ranks.follow(model_, runner_options)) {
      return;
    }
    engine_.kv_bytes = memory_bytes(memory_);
    if (!swap_space_.empty()) {
      engine_.swap_bytes = swap_bytes(swap_space_);
    }
    serve::Listener listener(host_, port_);
    serve::HttpOptions http;
    http.host = host_;
    auto loading = std::make_unique<serve::LoadingServer>(listener.twin(), http, log_sink());
    const auto model = ranks.open(model_, runner_options.place, [&] {
      return running_.strategy.open_silently(model_, running_.lora, runner_options);
    });
    if (const auto other = other_machine(model->compression, runner_options)) {
      log_sink()({serve::LogLevel::kWarning, *other, {}});
    }
    if (engine::is_encoder(*model)) {
      refuse_text_options();
      if (engine::complete_pooling(model->network)) {
        log_sink()({serve::LogLevel::kInfo,
                    "the model does not say how it pools; embeddings are the mean of its tokens",
                    {}});
      }
      auto encoder = engine::make_encoder(model, runner_options);
      serve::ServiceOptions options = service_options(*model);
      loading.reset();
      serve::EncoderService service(model, std::move(encoder), std::move(listener),
                                    std::move(options), log_sink());
      serve_until_told(service);
      return;
    }
    models::use_context(model->network, engine_.context);
    auto engine =
        std::make_unique<engine::Engine>(model, ranks.make_runner(model, runner_options), engine_,
                                         drafts_.open(*model, runner_options, engine_.max_batch));
    serve::ServiceOptions options = service_options(*model);
    options.facts = facts(*model);
    loading.reset();
    serve::Service service(model, std::move(engine), std::move(listener), std::move(options),
                           log_sink());
    serve_until_told(service);
  }

 private:
  template <typename AnyService>
  void serve_until_told(AnyService& service) const {
    service.stop_on_signals({SIGINT, SIGTERM});
    const bool v6 = host_.find(':') != std::string::npos;
    print_result("Listening on http://{}:{}\n", v6 ? "[" + host_ + "]" : host_, service.port());
    end(service.run());
  }

  // What an encoder, which writes no text, has no use for.
  void refuse_text_options() const {
    const bool given = !template_file_.empty() || !tool_format_.empty() || !memory_.empty() ||
                       !swap_space_.empty() || !damage_file_.empty() || engine_.context != 0 ||
                       engine_.prefill_rows != 0 || drafts_.given();
    core::require(!given, core::ErrorKind::kUsage,
                  "{} is an encoder, which writes no text: --template, --tool-format, --memory, "
                  "--swap-space, --damage, --context, --prefill-chunk and --draft are for other "
                  "models; leave them out",
                  core::printable(model_));
  }

  void add_network_options(CLI::App& app) {
    add_option(app, "--host", host_, "Address to listen on")->capture_default_str();
    add_option(app, "--port", port_, "Port to listen on (0: any that is free)")
        ->capture_default_str();
    add_option(app, "--api-key", keys_,
               "Key that clients must send (again for more; others may see the words of a "
               "call: better --api-key-file or NIBBLE_API_KEY)");
    add_option(app, "--api-key-file", key_file_, "File with such keys, one a line");
    add_flag(app, "--insecure", insecure_, "Let everybody who reaches the host use the server");
    add_option(app, "--served-model-name,--alias", names_,
               "Name of the model for clients (again for more; default: of its folder)");
    add_option(app, "--template", template_file_,
               "Jinja file to use instead of the model's own chat template");
    add_option(app, "--tool-format", tool_format_,
               "How the model writes calls of tools (default: what the chat template says)")
        ->one_of({"hermes", "llama", "none"});
    add_option(app, "--damage", damage_file_,
               "What nibble compare --json wrote of this model, to show on the page");
    add_option(app, "--max-queue", max_queue_, "Texts that wait; more get status 429")
        ->in_range(0, 1'000'000)
        ->capture_default_str();
    add_option(app, "--request-timeout", request_time_, "Seconds until a request fails")
        ->in_range(1, 86'400)
        ->capture_default_str();
    add_option(app, "--shutdown-timeout", shutdown_time_,
               "Seconds that requests under way have after SIGINT or SIGTERM")
        ->in_range(0, 86'400)
        ->capture_default_str();
    add_option(app, "--watchdog", step_time_,
               "Seconds after which a step of the engine counts as hanging, and the server "
               "ends")
        ->in_range(1, 86'400)
        ->capture_default_str();
    add_flag(app, "--log-json", log_json_, "Log lines of JSON");
  }

  void add_engine_options(CLI::App& app) {
    add_option(app, "--max-batch", engine_.max_batch, "Texts that are written together")
        ->in_range(1, 4096)
        ->capture_default_str();
    add_option(app, "--prefill-chunk", engine_.prefill_rows,
               "Prompt tokens that a step computes beside the texts that are written: fewer make "
               "steps of even length (default, and most: 512 on a CPU, 2048 on a GPU)")
        ->in_range(1, 2048);
    add_option(app, "--context", engine_.context, "Tokens of prompt and answer together");
    add_option(app, "--memory", memory_,
               "Memory for the KV cache (4GiB, 500MB; default: for --max-batch whole "
               "contexts, or what a GPU has free)")
        ->check(parsed_by(
            [](const std::string& text) { return core::parse_byte_size(text, "the text"); }));
    add_option(
        app, "--swap-space", swap_space_,
        "On a GPU: the host's memory for texts that others push out of the KV cache, so that "
        "they are not computed again (taken as needed; default: as much as the KV cache, at most a "
        "quarter of what is available, none where computing is faster; 0: none)")
        ->check(parsed_by([](const std::string& text) { return swap_bytes(text); }));
    add_flag(app, "!--no-prefix-cache", engine_.prefix_cache,
             "Do not keep what was computed of prompts for later ones");
    add_flag(app, "--deterministic", engine_.deterministic,
             "On a GPU: compute each prompt alone, so that it does not depend on load (slower)");
  }

  // Before the model is read.
  void check_network() {
    if (const char* key = std::getenv("NIBBLE_API_KEY"); key != nullptr && *key != '\0') {
      keys_.emplace_back(key);
    }
    if (!key_file_.empty()) {
      const auto more =
          serve::parse_keys(io::read_named_text(key_file_, kMaxKeyFileBytes), key_file_);
      keys_.insert(keys_.end(), more.begin(), more.end());
      struct stat status {};
      if (stat(key_file_.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
        log_sink()({serve::LogLevel::kWarning,
                    "others than its owner may read the file of the API keys",
                    {{"file", key_file_}}});
      }
    }
    for (const std::string& key : keys_) {
      core::require(!key.empty(), core::ErrorKind::kUsage, "an API key is empty");
    }
    core::require(!keys_.empty() || insecure_ || serve::is_loopback(host_), core::ErrorKind::kUsage,
                  "--host {} lets other machines in: give a key (--api-key-file FILE, or "
                  "NIBBLE_API_KEY), or --insecure to let everybody use the server",
                  core::printable(host_));
  }

  serve::ServiceOptions service_options(const models::Model& model) const {
    serve::ServiceOptions options;
    options.http.host = host_;
    options.names = names_;
    if (options.names.empty()) {
      options.names = {name_of_folder()};
    }
    options.keys = keys_;
    options.chat_template = model.tokenizer->chat_template();
    if (!template_file_.empty()) {
      options.chat_template = io::read_named_text(template_file_, kMaxTemplateBytes);
      const text::ChatTemplate checked(options.chat_template);
    }
    options.tool_format = serve::parse_tool_format(tool_format_);
    options.max_jobs = static_cast<std::size_t>(engine_.max_batch + max_queue_);
    options.request_time = std::chrono::seconds(request_time_);
    options.shutdown_time = std::chrono::seconds(shutdown_time_);
    options.step_time = std::chrono::seconds(step_time_);
    return options;
  }

  // The last part of its path, or "ORG/NAME" of a model in the hub's cache.
  std::string name_of_folder() const {
    const auto repository = hub::repository_of(model_);
    return repository ? *repository : serve::name_of_model(model_);
  }

  serve::ModelFacts facts(const models::Model& model) const {
    serve::ModelFacts facts;
    facts.recipe = model.compression.recipe;
    facts.bits_per_weight = models::block_bits_per_weight(model.network);
    facts.weight_bytes = models::total_weight_bytes(model.network);
    facts.kv_type = running_.device.kv_type;
    facts.device = running_.device.device;
    if (!damage_file_.empty()) {
      facts.damage =
          serve::parse_damage(io::read_named_text(damage_file_, kMaxDamageBytes), damage_file_);
    }
    return facts;
  }

  serve::LogSink log_sink() const {
    const auto mutex = std::make_shared<std::mutex>();
    return [mutex, json = log_json_, quiet = common_.quiet](const serve::LogRecord& record) {
      if (!quiet || record.level == serve::LogLevel::kError) {
        const std::lock_guard lock(*mutex);
        write_note(log_line(record, utc_time(), json));
      }
    };
  }

  // Where the engine may not come back, nothing is waited for.
  static void end(serve::Outcome outcome) {
    switch (outcome) {
      case serve::Outcome::kStopped:
        return;
      case serve::Outcome::kHurried:
        std::_Exit(kExitHurried);
      case serve::Outcome::kHung:
        print_note("nibble: error: the engine hangs; start the server again\n");
        std::_Exit(static_cast<int>(core::ErrorKind::kFailed));
      case serve::Outcome::kFailed:
        core::fail(core::ErrorKind::kFailed, "the engine failed; the log says why");
    }
  }

  Settings settings_;
  RunningOptions running_;
  DraftOptions drafts_;
  engine::EngineOptions engine_;
  std::string host_ = "127.0.0.1";
  std::uint16_t port_ = 8080;
  std::vector<std::string> keys_;
  std::string key_file_;
  bool insecure_ = false;
  std::vector<std::string> names_;
  std::string template_file_;
  std::string tool_format_;
  std::string damage_file_;
  std::string memory_;
  std::string swap_space_;
  std::int64_t max_queue_ = 256;
  int request_time_ = 600;
  int shutdown_time_ = 30;
  int step_time_ = 300;
  bool log_json_ = false;
};

}  // namespace

std::unique_ptr<Command> serve_command() {
  return std::make_unique<Serve>();
}

}  // namespace nibble::cli
