#include "text/regex/regex.h"

#include <algorithm>
#include <ctime>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "characters/utf8.h"
#include "core/error.h"
#include "text/regex/regex_syntax.h"

namespace nibble::text {
namespace {

constexpr std::size_t kMaxPatternBytes = std::size_t{64} * 1024;
constexpr std::size_t kBaseSteps = 1'000'000;  // of the matcher in one call
constexpr std::size_t kStepsPerByte = 4;
constexpr std::uint32_t kHeapLimitKiB = 64 * 1024;
constexpr std::size_t kJitStackStart = std::size_t{32} * 1024;
constexpr std::size_t kJitStackMax = std::size_t{1024} * 1024;
constexpr std::size_t kCallsPerClockReading = 64;
constexpr double kBaseSeconds = 1;
constexpr double kSecondsPerMiB = 2;

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  const int length = pcre2_get_error_message(code, buffer, sizeof(buffer));
  return length < 0 ? "unknown error" : std::string(reinterpret_cast<const char*>(buffer));
}

struct FreeCode {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct FreeCompileContext {
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct FreeJitStack {
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

template <typename T, typename Free>
std::unique_ptr<T, Free> owned(T* pointer) {
  core::require(pointer != nullptr, core::ErrorKind::kOutOfMemory,
                "tokenizer: no memory for a regular expression");
  return std::unique_ptr<T, Free>(pointer);
}

}  // namespace

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
};

Regex::Regex(std::string_view pattern, std::string_view what) : what_(what) {
  core::require(pattern.size() <= kMaxPatternBytes, core::ErrorKind::kInvalidModel,
                "{}: a pattern of {} bytes, more than {}", what, pattern.size(), kMaxPatternBytes);
  const std::string translated = to_pcre2_syntax(pattern, what);
  const auto context =
      owned<pcre2_compile_context, FreeCompileContext>(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  constexpr std::uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                   translated.size(), kOptions, &error, &offset, context.get());
  if (code == nullptr && error == PCRE2_ERROR_HEAP_FAILED) {
    throw std::bad_alloc();
  }
  core::require(code != nullptr, core::ErrorKind::kInvalidModel,
                "{}: the pattern '{}' is invalid: {}", what, core::printable(pattern),
                core::lazily([&] { return pcre2_message(error); }));
  auto compiled = std::make_unique<Compiled>();
  compiled->code.reset(code);
  compiled->jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  compiled_ = std::move(compiled);
}

Regex::~Regex() = default;

struct RegexSearch::State {
  std::unique_ptr<pcre2_match_data, FreeMatchData> data;
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context;
  std::unique_ptr<pcre2_jit_stack, FreeJitStack> jit_stack;
};

double PatternBudget::limit() const {
  return kBaseSeconds + kSecondsPerMiB * static_cast<double>(bytes_) / (1024.0 * 1024.0);
}

RegexSearch::RegexSearch(const Regex& regex, PatternBudget& budget)
    : regex_(regex),
      budget_(budget),
      state_(std::make_unique<State>()),
      charged_until_(thread_seconds()) {
  state_->data = owned<pcre2_match_data, FreeMatchData>(
      pcre2_match_data_create_from_pattern(regex.compiled_->code.get(), nullptr));
  state_->context =
      owned<pcre2_match_context, FreeMatchContext>(pcre2_match_context_create(nullptr));
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKiB);
  if (regex.compiled_->jit) {
    state_->jit_stack = owned<pcre2_jit_stack, FreeJitStack>(
        pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
    pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->jit_stack.get());
  }
}

RegexSearch::~RegexSearch() {
  budget_.spend(thread_seconds() - charged_until_);
}

void RegexSearch::start(std::string_view text) {
  text_ = text;
  at_ = 0;
  last_match_end_.reset();
  const std::size_t steps = kBaseSteps + kStepsPerByte * text.size();
  pcre2_set_match_limit(state_->context.get(),
                        static_cast<std::uint32_t>(std::min<std::size_t>(steps, UINT32_MAX)));
}

std::optional<Span> RegexSearch::next() {
  while (at_ <= text_.size()) {
    Span found;
    if (!find_from(at_, found)) {
      at_ = text_.size() + 1;
      break;
    }
    if (found.size() > 0 || last_match_end_ != found.end) {
      at_ = found.end;
      last_match_end_ = found.end;
      return found;
    }
    at_ += at_ < text_.size() ? characters::utf8_bytes(text_[at_]) : 1;
  }
  return std::nullopt;
}

// Tries some places after the others, so that the budget is looked at in between: one call over a
// long text can take minutes. PCRE2 remembers within a call how far a run of characters reached; so
// where a call looks far ahead, but not for each place again, the next one tries more places.
bool RegexSearch::find_from(std::size_t at, Span& found) {
  constexpr std::size_t kFirstPlaces = 64;
  constexpr double kSecondsPerPlace = 1e-7;
  constexpr double kSecondsPerByteAhead = 2e-8;
  for (std::size_t places = kFirstPlaces;;) {
    const std::size_t last = std::min(text_.size(), at + places - 1);
    const int result = match_within(at, last);
    if (++unread_ >= kCallsPerClockReading) {
      charge();
    }
    if (result == PCRE2_ERROR_NOMEMORY) {
      throw std::bad_alloc();
    }
    if (result != PCRE2_ERROR_NOMATCH) {
      core::require(result >= 0, core::ErrorKind::kFailed,
                    "{}: the pattern gave up on this text: {}", regex_.what_,
                    core::lazily([&] { return pcre2_message(result); }));
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state_->data.get());
      found = {bounds[0], bounds[1]};
      return true;
    }
    if (last == text_.size()) {
      return false;
    }
    const double seconds = charge();
    const bool looks_ahead = seconds > kSecondsPerPlace * static_cast<double>(places);
    const bool looks_once = seconds < kSecondsPerByteAhead * static_cast<double>(text_.size() - at);
    places *= looks_ahead && looks_once ? 2 : 1;
    at = last + 1;
    while (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xc0) == 0x80) {
      ++at;  // a match starts with a character
    }
  }
}

// The result of PCRE2 for matches that start at `at`, or behind it up to `last_start`.
int RegexSearch::match_within(std::size_t at, std::size_t last_start) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  pcre2_code* code = regex_.compiled_->code.get();
  pcre2_set_offset_limit(state_->context.get(), last_start);
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (regex_.compiled_->jit) {
    result = pcre2_jit_match(code, subject, text_.size(), at, 0, state_->data.get(),
                             state_->context.get());
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code, subject, text_.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         state_->data.get(), state_->context.get());
    unread_ = kCallsPerClockReading;  // without its compiler it is slow
  }
  return result;
}

// Pays for the time since the last payment; throws when the budget is spent.
double RegexSearch::charge() {
  const double now = thread_seconds();
  const double seconds = now - std::exchange(charged_until_, now);
  unread_ = 0;
  budget_.spend(seconds);
  core::require(budget_.spent() <= budget_.limit(), core::ErrorKind::kFailed,
                "{}: the patterns take too long on this text (over {:.0f} s)", regex_.what_,
                budget_.limit());
  return seconds;
}

}  // namespace nibble::text
