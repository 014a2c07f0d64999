#include "cli/man_page.h"

#include <algorithm>
#include <cctype>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/exit_codes.h"
#include "cli/option_text.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kWidth = 76;  // of lines in the file: mandoc finds fault with more than 80

struct Variable {
  std::string_view name;
  std::string_view meaning;
};

constexpr Variable kVariables[] = {
    {"NIBBLE_ISA", "Instruction set of the CPU kernels, instead of the fastest that runs here"},
    {"NIBBLE_SCHEDULES", "As --schedules"},
    {"NIBBLE_API_KEY", "Key of nibble serve and nibble bench-serve"},
    {"NIBBLE_SERVE_...", "Options of nibble serve: NIBBLE_SERVE_MAX_BATCH for --max-batch"},
    {"HF_TOKEN",
     "Token for models of the hub that are private or gated (default: that of hf auth login)"},
    {"HF_HOME, HF_HUB_CACHE", "Where the hub's cache lies (default: ~/.cache/huggingface/hub)"},
    {"HF_ENDPOINT", "Address of the hub, or of a mirror (default: https://huggingface.co)"},
    {"HF_HUB_OFFLINE", "1: fetch nothing"},
    {"XDG_CACHE_HOME", "Folder of nibble/ with schedules and strategies (default: ~/.cache)"},
};

// roff reads '\' as its own, and '-' as a hyphen, which nobody can copy into a call.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// A line that begins with a dot or an apostrophe would be a request.
std::string guarded(const std::string& line) {
  return line.starts_with('.') || line.starts_with('\'') ? "\\&" + line : line;
}

std::string paragraph(std::string_view text) {
  std::string out;
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string word = escaped(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) {
      out += guarded(line) + "\n";
      line.clear();
    }
    line += (line.empty() || word.empty() ? "" : " ") + word;
  }
  return out + guarded(line) + "\n";
}

std::string verbatim(std::string_view lines) {
  std::string out = ".nf\n";
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    out += guarded(escaped(lines.substr(0, end))) + "\n";
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out + ".fi\n";
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string entry(const std::string& head, std::string_view text) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}", escaped(head), paragraph(text));
}

std::string head(const std::string& name, std::string_view summary, const ManualFacts& facts) {
  return fmt::format(".TH {} 1 {} \"{}\" \"Nibble\"\n.SH NAME\n{}", upper(escaped(name)),
                     facts.date, facts.version, paragraph(fmt::format("{} - {}", name, summary)));
}

std::string option_entry(const CLI::Option& option) {
  return entry(option.get_positional() ? name_of_argument(option) : names_and_value(option),
               full_description(option));
}

std::string sections_of(const CLI::App& app) {
  std::string out;
  for (const OptionSection& section : option_sections(app)) {
    out += fmt::format(".SH \"{}\"\n", upper(escaped(section.heading)));
    for (const CLI::Option* option : section.options) {
      out += option_entry(*option);
    }
  }
  return out;
}

std::string commands_of(const CLI::App& program) {
  std::string out = ".SH COMMANDS\n";
  for (const CLI::App* command : program.get_subcommands({})) {
    out += fmt::format(".TP\n.BR nibble\\-{} (1)\n{}", escaped(command->get_name()),
                       paragraph(command->get_description()));
  }
  return out;
}

std::string exit_status() {
  std::string out = ".SH \"EXIT STATUS\"\n";
  for (const ExitCode& exit : kExitCodes) {
    out += entry(std::to_string(exit.code), exit.meaning);
  }
  return out;
}

std::string environment() {
  std::string out = ".SH ENVIRONMENT\n";
  for (const Variable& variable : kVariables) {
    out += entry(std::string(variable.name), variable.meaning);
  }
  return out;
}

}  // namespace

std::string program_page(const CLI::App& program, const ManualFacts& facts) {
  std::string out = head("nibble", "quantize transformers and run them", facts);
  out += ".SH SYNOPSIS\n.B nibble\n.I COMMAND\n[options]\n";
  out += ".SH DESCRIPTION\n" + paragraph(program.get_description());
  return out + commands_of(program) + sections_of(program) + exit_status() + environment();
}

std::string command_page(const CLI::App& command, const ManualFacts& facts) {
  const std::string name = "nibble-" + command.get_name();
  std::string usage;
  for (const CLI::Option* option : command.get_options({})) {
    usage += option->get_positional() ? ".I " + escaped(argument_word(*option)) + "\n" : "";
  }
  std::string out = head(name, command.get_description(), facts);
  out +=
      fmt::format(".SH SYNOPSIS\n.B nibble {}\n{}[options]\n", escaped(command.get_name()), usage);
  out += sections_of(command);
  const std::string footer = command.get_footer();  // "Examples:", and a line for each
  out += ".SH EXAMPLES\n" + verbatim(std::string_view(footer).substr(footer.find('\n') + 1));
  return out + ".SH \"SEE ALSO\"\n.BR nibble (1)\n";
}

}  // namespace nibble::cli
