#include <ctime>
#include <iostream>

#include <unistd.h>

#include "cli/commands.h"
#include "cli/draft_options.h"
#include "cli/grammar_options.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/running_options.h"
#include "cli/sampling_options.h"
#include "cli/text_input.h"
#include "core/ordered_json.h"
#include "engine/continues_texts.h"
#include "engine/engine.h"
#include "io/text_file.h"
#include "text/chat_template.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMaxTemplateBytes = 1 << 22;

class Chat final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    add_option(app, "--system", system_, "System message");
    add_option(app, "--template", template_file_,
               "Jinja file to use instead of the model's own template");
    add_option(app, "-n,--max-tokens", max_tokens_, "Tokens of an answer at the most")
        ->capture_default_str();
    add_option(app, "--context", engine_.context, "Tokens of the whole conversation");
    sampling_arguments_.add(app);
    draft_.add(app);
    grammar_options_.add(app);
    running_.add(app);
  }

  void run() override {
    const engine::RunnerOptions runner_options = running_.runner(model_);
    grammar_ = grammar_options_.open();
    sampling_ = sampling_arguments_.options();
    const auto opened = running_.open(model_, runner_options, common_.quiet);
    models::use_context(opened->network, engine_.context);
    model_ptr_ = opened;
    engine::require_continues_texts(*model_ptr_);
    std::string source = model_ptr_->tokenizer->chat_template();
    if (!template_file_.empty()) {
      source = io::read_named_text(template_file_, kMaxTemplateBytes);
    }
    core::require(!source.empty(), core::ErrorKind::kUsage,
                  "{} has no chat template; use nibble run, or give one with --template FILE",
                  model_);
    const text::ChatTemplate chat(source);
    engine_.max_batch = 1;
    engine::Engine engine(model_ptr_, engine::make_runner(model_ptr_, runner_options), engine_,
                          draft_.open(*model_ptr_, runner_options, 1));
    const bool terminal = isatty(STDIN_FILENO) != 0 && !common_.quiet;
    if (terminal) {
      print_note(
          "Type a message and press Enter; an empty line or Ctrl-D ends the conversation.\n");
    }
    require_utf8_words(system_, "--system");
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    if (!system_.empty()) {
      messages.push_back({{"role", "system"}, {"content", system_}});
    }
    std::string line;
    while (ask(terminal, line)) {
      require_utf8_words(line, "the message");
      messages.push_back({{"role", "user"}, {"content", line}});
      const std::string answer = reply(engine, chat, messages);
      messages.push_back({{"role", "assistant"}, {"content", answer}});
    }
  }

 private:
  static bool ask(bool terminal, std::string& line) {
    if (terminal) {
      print_note("> ");
    }
    return static_cast<bool>(std::getline(std::cin, line)) && !line.empty();
  }

  std::string reply(engine::Engine& engine, const text::ChatTemplate& chat,
                    const nlohmann::ordered_json& messages) {
    const text::Tokenizer& tokenizer = *model_ptr_->tokenizer;
    text::ChatTemplate::Options options;
    options.bos_token = tokenizer.bos() ? tokenizer.piece(*tokenizer.bos()) : "";
    options.eos_token = tokenizer.eos() ? tokenizer.piece(*tokenizer.eos()) : "";
    options.now_unix_seconds = static_cast<std::int64_t>(std::time(nullptr));
    engine::Request request;
    request.prompt = tokenizer.encode(chat.render(messages, options), {.add_special = false});
    request.max_tokens = max_tokens_;
    request.sampling = sampling_;
    request.grammar = grammar_;
    request.on_piece = [](const engine::Piece& piece) { write_result(piece.text); };
    engine::Completion answer;
    request.on_finish = [&answer](const engine::Completion& completion) { answer = completion; };
    engine.submit(std::move(request));
    engine.run_all();
    rethrow_failure(answer);
    print_result("\n");
    return answer.text;
  }

  RunningOptions running_;
  SamplingArguments sampling_arguments_;
  DraftOptions draft_;
  GrammarOptions grammar_options_;
  std::shared_ptr<const text::Grammar> grammar_;  // of every answer
  std::string system_;
  std::string template_file_;
  std::int64_t max_tokens_ = 512;
  engine::SamplingOptions sampling_;
  engine::EngineOptions engine_;
  std::shared_ptr<const models::Model> model_ptr_;
};

}  // namespace

std::unique_ptr<Command> chat_command() {
  return std::make_unique<Chat>();
}

}  // namespace nibble::cli
