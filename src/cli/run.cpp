#include <chrono>

#include <unistd.h>

#include "cli/commands.h"
#include "cli/draft_options.h"
#include "cli/grammar_options.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/run_text_to_text.h"
#include "cli/running_options.h"
#include "cli/sampling_options.h"
#include "cli/text_input.h"
#include "cli/writing_arguments.h"
#include "core/json.h"
#include "engine/engine.h"
#include "io/text_file.h"

namespace nibble::cli {
namespace {

class Run final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    app_ = &app;
    prompt_option_ =
        add_option(app, "-p,--prompt", prompt_, "Text to continue; of an encoder-decoder: to read");
    add_option(app, "-f,--file", file_,
               "Read the prompt from a file or a pipe, or from standard input (-), as without "
               "any prompt; a line break at its end does not count")
        ->excludes(prompt_option_);
    most_option_ =
        add_option(app, "-n,--max-tokens", request_.max_tokens, "Tokens to generate at the most")
            ->capture_default_str();
    add_option(app, "--stop", request_.stop, "End before this text (may be repeated)");
    add_flag(app, "--ignore-eos", request_.ignore_end_tokens, "Go on past the model's end of text");
    add_option(app, "--context", engine_.context,
               "Tokens of prompt and completion (default: what the model was made for)");
    add_option(app, "--copies", copies_,
               "Generate the prompt this many times in one batch, with seeds from --seed up")
        ->in_range(1, 256);
    sampling_.add(app);
    draft_.add(app);
    grammar_.add(app);
    writing_.add(app);
    running_.add(app);
  }

  bool divides_work() const override { return true; }

  void run() override {
    Ranks ranks;
    const engine::RunnerOptions runner_options = ranks.options(model_, running_);
    if (ranks.follow(model_, runner_options)) {
      return;
    }
    request_.grammar = grammar_.open();
    request_.sampling = sampling_.options();
    const std::string prompt = read_prompt_of_call();
    const auto model = ranks.open(model_, runner_options.place, [&] {
      return running_.open(model_, runner_options, common_.quiet);
    });
    if (model->network.has_encoder() && model->network.has_decoder()) {
      refuse_decoder_options(*app_);
      run_text_to_text({prompt, most_option_->count() == 0 ? 0 : request_.max_tokens,
                        sampling_.said(), common_.json, common_.quiet},
                       model, runner_options, writing_);
      return;
    }
    writing_.refuse("for encoder-decoders; leave it out");
    models::use_context(model->network, engine_.context);
    request_.prompt = model->tokenizer->encode(prompt, {.add_special = true});
    engine_.max_batch = copies_;
    engine::Engine engine(model, ranks.make_runner(model, runner_options), engine_,
                          draft_.open(*model, runner_options, copies_));
    const bool stream = !common_.json && copies_ == 1;
    if (stream) {
      request_.on_piece = [](const engine::Piece& piece) { write_result(piece.text); };
    }
    std::vector<engine::Completion> completions(static_cast<std::size_t>(copies_));
    for (std::size_t i = 0; i < completions.size(); ++i) {
      engine::Request request = request_;
      request.sampling.seed += i;
      request.on_finish = [&completions, i](const engine::Completion& completion) {
        completions[i] = completion;
      };
      engine.submit(std::move(request));
    }
    if (stream) {
      write_result(prompt);
    }
    const auto start = std::chrono::steady_clock::now();
    engine.run_all();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const engine::Completion& completion : completions) {
      rethrow_failure(completion);
    }
    stream ? finish_stream(completions.front(), seconds) : print(prompt, completions, seconds);
  }

 private:
  // Nobody is asked for a prompt: at a terminal that would look like a program that hangs.
  std::string read_prompt_of_call() const {
    const bool piped = prompt_option_->count() == 0 && file_.empty();
    core::require(!piped || isatty(STDIN_FILENO) == 0, core::ErrorKind::kUsage,
                  "there is no prompt; give one with -p TEXT or -f FILE, or through a pipe: echo "
                  "TEXT | nibble run {}",
                  core::printable(model_));
    std::string prompt = prompt_;
    if (piped || !file_.empty()) {
      prompt = read_prompt(piped ? io::kStandardInput : file_);
    } else {
      require_utf8_words(prompt, "--prompt");
    }
    core::require(!prompt.empty(), core::ErrorKind::kUsage,
                  "the prompt is empty; give one with -p TEXT, -f FILE or through a pipe");
    return prompt;
  }

  void finish_stream(const engine::Completion& completion, double seconds) const {
    print_result("\n");
    if (!common_.quiet) {
      print_note("{} prompt tokens, {} generated in {:.2f} s ({:.1f} tokens/s), ended by {}\n",
                 request_.prompt.size(), completion.tokens.size(), seconds,
                 static_cast<double>(completion.tokens.size()) / seconds,
                 engine::to_string(completion.reason));
    }
  }

  void print(const std::string& prompt, const std::vector<engine::Completion>& completions,
             double seconds) const {
    if (!common_.json) {
      for (const engine::Completion& completion : completions) {
        print_result("{}{}\n---\n", prompt, completion.text);
      }
      return;
    }
    core::Json choices = core::Json::array();
    for (const engine::Completion& completion : completions) {
      choices.push_back({{"text", completion.text},
                         {"token_ids", completion.tokens},
                         {"completion_tokens", completion.tokens.size()},
                         {"finish_reason", engine::to_string(completion.reason)}});
    }
    core::Json json = choices.front();
    json["prompt"] = prompt;
    json["prompt_tokens"] = request_.prompt.size();
    json["seconds"] = seconds;
    if (completions.size() > 1) {
      json["choices"] = std::move(choices);
    }
    print_result("{}\n", json.dump(-1, ' ', false, core::Json::error_handler_t::replace));
  }

  RunningOptions running_;
  SamplingArguments sampling_;
  DraftOptions draft_;
  GrammarOptions grammar_;
  WritingArguments writing_;
  const CLI::App* app_ = nullptr;
  Option most_option_;
  Option prompt_option_;
  std::string prompt_;
  std::string file_;
  int copies_ = 1;
  engine::Request request_;
  engine::EngineOptions engine_;
};

}  // namespace

std::unique_ptr<Command> run_command() {
  return std::make_unique<Run>();
}

}  // namespace nibble::cli
