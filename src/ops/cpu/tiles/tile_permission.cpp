#include "ops/cpu/tiles/tile_permission.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace nibble::ops::cpu {

// Programs must ask for them (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}

}  // namespace nibble::ops::cpu
