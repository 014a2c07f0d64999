# Outside headers that most sources include, parsed once: sets of them, each a target whose precompiled header others
# reuse. Every source still includes what it uses; the presets debug, asan and tsan and clang-tidy compile without these.
#   library       the standard library and fmt           library_json  and nlohmann/json
#   test          and GoogleTest                         test_json     and both
# Of a precompiled header every source compiles anew what its inline functions make of templates, used or not: 0.1 s for
# the standard library and fmt, 0.2 s for GoogleTest, 0.3 s for nlohmann/json. So a target takes a set of json only where
# most of its sources include core/json.h, and CLI11 (2 s) is in none.
# Off by CMake's own CMAKE_DISABLE_PRECOMPILE_HEADERS; on for GCC alone, with which it was measured.
set(NIBBLE_STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstddef> <cstdint> <cstring>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string>
  <string_view> <system_error> <thread> <tuple> <unordered_map> <utility> <variant> <vector>)
set(NIBBLE_PRECOMPILED_WARNINGS -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
  -Wno-error=maybe-uninitialized -Wno-error=use-after-free -Wno-error=free-nonheap-object)
set(NIBBLE_PRECOMPILES OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  set(NIBBLE_PRECOMPILES ON)
endif()

# A set is compiled with the options of the targets that reuse it, as far as they change what its headers say (not -O1 or
# -O3, and definitions only where a header asks for them); -Winvalid-pch tells where that fails.
function(nibble_add_precompiled set)
  cmake_parse_arguments(ARG "TEST" "" "HEADERS;LIBRARIES" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/precompiled_${set}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Made by CMake: a target needs a source.\n")
  add_library(nibble_precompiled_${set} OBJECT EXCLUDE_FROM_ALL ${source})
  nibble_compile_options(nibble_precompiled_${set})
  target_link_libraries(nibble_precompiled_${set} PRIVATE fmt::fmt ${ARG_LIBRARIES})
  target_precompile_headers(nibble_precompiled_${set} PRIVATE ${NIBBLE_STANDARD_HEADERS} <fmt/format.h> ${ARG_HEADERS})
  if(ARG_TEST)  # as for executables
    set_target_properties(nibble_precompiled_${set} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(nibble_precompiled_${set} PRIVATE $<$<CONFIG:Release>:-O1> ${CMAKE_CXX_COMPILE_OPTIONS_PIE})
  endif()
endfunction()

if(NIBBLE_PRECOMPILES)
  nibble_add_precompiled(library)
  nibble_add_precompiled(library_json HEADERS <nlohmann/json.hpp> LIBRARIES nlohmann_json::nlohmann_json)
  if(NIBBLE_BUILD_TESTS)
    nibble_add_precompiled(test TEST HEADERS <gtest/gtest.h> LIBRARIES GTest::gtest)
    nibble_add_precompiled(test_json TEST HEADERS <nlohmann/json.hpp> <gtest/gtest.h>
      LIBRARIES nlohmann_json::nlohmann_json GTest::gtest)
  endif()
endif()

# nibble_precompile(<target> <set>...): its C++ sources reuse the last set that is named. Sources with other processor
# options have the property SKIP_PRECOMPILE_HEADERS.
function(nibble_precompile target)
  list(POP_BACK ARGN set)
  if(NIBBLE_PRECOMPILES)
    target_precompile_headers(${target} REUSE_FROM nibble_precompiled_${set})
    # 256 MiB (kB here) before GCC first looks for what it can free: time for at most a tenth more memory.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=262144>)
    # GCC 12 inlines in another order then, and finds faults in std::string that are none (as in bug 105651).
    if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${NIBBLE_PRECOMPILED_WARNINGS}>")
    endif()
  endif()
endfunction()
