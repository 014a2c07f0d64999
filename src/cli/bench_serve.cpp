#include <map>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/page_file.h"
#include "cli/terminal_progress.h"
#include "core/json.h"
#include "load_test/load_report.h"

namespace nibble::cli {
namespace {

class BenchServe final : public Command {
 public:
  void add_options(CLI::App& app) override {
    load_test::Workload& workload = load_.workload;
    add_option(app, "url", load_.url, "A server that speaks OpenAI's completions API")->required();
    add_option(app, "--api-key", load_.api_key, "Key of the server")->envname("NIBBLE_API_KEY");
    add_option(app, "--model", load_.model, "Model to ask for (default: the first one)");
    add_option(app, "--requests,--num-prompts", workload.requests, "Requests in all")
        ->in_range(1, 1'000'000)
        ->capture_default_str();
    add_option(app, "--concurrency,--max-concurrency", load_.concurrency,
               "Requests at a time (with --rate: no bound unless given)")
        ->in_range(1, 100'000);
    add_option(app, "--rate,--request-rate", workload.rate,
               "Requests per second, arriving by Poisson; without it a new one is sent when "
               "one ends")
        ->positive();
    app.add_option("--lengths", workload.lengths,
                   "fixed: --input-len and --output-len; atom: those of Atom's evaluation")
        ->transform(CLI::CheckedTransformer(std::map<std::string, load_test::Workload::Lengths>{
            {"fixed", load_test::Workload::Lengths::kFixed},
            {"atom", load_test::Workload::Lengths::kAtom}}))
        ->default_str("fixed");
    add_option(app, "--input-len", workload.prompt_tokens, "Tokens of a prompt")
        ->positive()
        ->capture_default_str();
    add_option(app, "--output-len", workload.output_tokens, "Tokens of an answer")
        ->positive()
        ->capture_default_str();
    add_option(app, "--longest", workload.longest,
               "Tokens of a prompt and its answer at the most (with --lengths atom)")
        ->in_range(4, 1 << 20)
        ->capture_default_str();
    add_option(app, "--cancel-share", load_.cancel_share,
               "Share of the requests that is given up at a random time")
        ->in_range(0.0, 1.0);
    add_option(app, "--temperature", load_.temperature,
               "Temperature of the requests (0: the most probable tokens)")
        ->in_range(0.0, 2.0)
        ->capture_default_str();
    add_option(app, "--seed", workload.seed, "Seed of the load")->capture_default_str();
    add_option(app, "--goodput", goals_,
               "What a good request keeps, in ms: ttft:MS, tpot:MS, e2el:MS (may be repeated)");
    add_option(app, "--html", html_, "Write the figures and charts to this page");
  }

  void run() override {
    const load_test::Goals goals = load_test::parse_goals(goals_);
    PageFile page(html_);
    if (load_.concurrency == 0 && load_.workload.rate == 0) {
      load_.concurrency = 16;
    }
    TerminalProgress progress(common_.quiet);
    progress.begin("bench-serve", load_.workload.requests);
    const load_test::LoadResult result =
        load_test::run_load(load_, [&](std::int64_t ended) { progress.update(ended, ""); });
    progress.end();
    const load_test::LoadFigures figures = load_test::figures_of(result, goals);
    if (page) {
      page.write(load_test::to_html(figures, result, "Load on " + load_.url));
    }
    if (common_.json) {
      print_result("{}\n", load_test::to_json(figures).dump());
    } else {
      write_result(load_test::to_text(figures));
    }
    for (const load_test::RequestOutcome& request : result.requests) {
      core::require(request.error.empty() || figures.completed > 0, core::ErrorKind::kFailed,
                    "no request was served; the first failed with: {}", request.error);
    }
  }

  load_test::LoadOptions load_;
  std::vector<std::string> goals_;
  std::string html_;
};

}  // namespace

std::unique_ptr<Command> bench_serve_command() {
  return std::make_unique<BenchServe>();
}

}  // namespace nibble::cli
