#include <algorithm>
#include <iterator>

#include "engine/engine.h"
#include "engine/engine_sequence.h"

// Which pages of computed tokens serve other requests.
namespace nibble::engine {

using std::ssize;

// Whether what was computed of a text stands for the same text of a prompt, and the other way
// round.
bool Engine::texts_are_alike() const {
  return runner_->rows_are_independent() && runner_->prompts_are_alike();
}

// Takes over whole pages that were computed before. The last token is always computed: its logits
// are wanted.
void Engine::find_prefix(Sequence& sequence) {
  const Request& request = sequence.generation.request();
  sequence.prefix = pages_.root(request.cache_salt);
  if (!options_.prefix_cache || request.prompt_log_probabilities) {
    return;
  }
  const std::span<const std::int32_t> tokens = sequence.generation.tokens();
  sequence.pages.reserve(static_cast<std::size_t>(ops::pages_for(ssize(tokens))));
  const std::int64_t prompt =
      runner_->prompts_are_alike() ? ssize(tokens) : sequence.generation.prompt_length();
  while (sequence.computed + kPageTokens < ssize(tokens) &&
         sequence.computed + kPageTokens <= prompt) {
    const auto found =
        pages_.find(sequence.prefix,
                    PagePool::PageTokens(tokens.subspan(static_cast<std::size_t>(sequence.computed),
                                                        static_cast<std::size_t>(kPageTokens))));
    if (!found) {
      return;
    }
    sequence.pages.push_back(found->page);
    sequence.prefix = found->prefix;
    sequence.computed += kPageTokens;
    ++sequence.published;
  }
}

// Of the first `known` tokens, whose keys and values have been computed.
void Engine::publish(Sequence& sequence, std::int64_t known) {
  if (!options_.prefix_cache) {
    return;
  }
  const Generation& generation = sequence.generation;
  const std::int64_t whole =
      texts_are_alike() ? known : std::min(known, generation.prompt_length());
  for (; (sequence.published + 1) * kPageTokens <= whole; ++sequence.published) {
    const auto tokens =
        generation.tokens().subspan(static_cast<std::size_t>(sequence.published * kPageTokens),
                                    static_cast<std::size_t>(kPageTokens));
    sequence.prefix = pages_.publish(sequence.prefix, PagePool::PageTokens(tokens),
                                     sequence.pages[static_cast<std::size_t>(sequence.published)]);
  }
}

}  // namespace nibble::engine
