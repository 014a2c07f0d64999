#pragma once

namespace nibble::ops::cpu {

/// Whether Linux gives this program tile registers; asked once. On a CPU that has them.
bool may_use_tiles();

}  // namespace nibble::ops::cpu
