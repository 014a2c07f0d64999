#include "core/freed_memory.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

namespace nibble::core {

void keep_little_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_TRIM_THRESHOLD, 128 << 10);
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
#endif
}

void release_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace nibble::core
