#pragma once

#include <string_view>
#include <vector>

namespace nibble::core {

/// Which memory nodes threads and their memory use, on machines that have several.
enum class Numa {
  kNone,        // as the system does it
  kInterleave,  // pages go round the nodes: all of them serve every read
  kIsolate,     // threads on those allowed CPUs that share a node with this thread, memory there
                // while there is some
};

/// "none", "interleave" or "isolate". Throws kUsage for anything else.
Numa parse_numa(std::string_view text);

/// Makes it so for this thread and for those that it starts. Throws kFailed when the system
/// refuses.
void apply(Numa numa);

/// Cores for so many threads to be bound to, one after another; from the front again when there are
/// more threads than cores.
std::vector<int> cores_for(int threads);

/// Lets the calling thread run on one CPU only. Throws kFailed when the system refuses.
void bind_to(int cpu);

}  // namespace nibble::core
