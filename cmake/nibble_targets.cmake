set(NIBBLE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow)
if(NIBBLE_WERROR)
  list(APPEND NIBBLE_WARNINGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND NIBBLE_WARNINGS -Wno-restrict)  # GCC bug 105651: warns of `"text" + std::string()`
endif()
# No contraction: results must not depend on where the compiler finds a multiply-add (on 64-bit ARM it
# would find them everywhere).
set(NIBBLE_ARITHMETIC -ffp-contract=off)

# The options of this project's own sources, in each language.
function(nibble_compile_options target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${NIBBLE_WARNINGS};${NIBBLE_ARITHMETIC}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:${NIBBLE_CUDA_FLAGS}>")
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/precompiled_headers.cmake)

# nibble_add_module(<name> FLOOR <n> SOURCES ... [LINKS <module>...] [PUBLIC <target>...] [PRIVATE <target>...] [QUICK]
#   [PRECOMPILED <set>])
# One folder of src/, one static library. LINKS names modules of lower floors; PUBLIC and PRIVATE name
# outside libraries. QUICK: nothing in it takes long, so it is optimised less and compiles faster.
# PRECOMPILED: the headers that most of its sources include (precompiled_headers.cmake; library, if none is named).
function(nibble_add_module name)
  cmake_parse_arguments(ARG "QUICK" "FLOOR;PRECOMPILED" "SOURCES;LINKS;PUBLIC;PRIVATE" ${ARGN})
  set(access PUBLIC)
  if(ARG_SOURCES)
    add_library(nibble_${name} STATIC ${ARG_SOURCES})
    nibble_compile_options(nibble_${name})
    if(ARG_QUICK)
      target_compile_options(nibble_${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
    endif()
    target_link_libraries(nibble_${name} PRIVATE ${ARG_PRIVATE})
    nibble_precompile(nibble_${name} library ${ARG_PRECOMPILED})
  else()
    set(access INTERFACE)
    add_library(nibble_${name} INTERFACE)
  endif()
  target_include_directories(nibble_${name} ${access} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(nibble_${name} ${access} ${ARG_PUBLIC})
  set_property(TARGET nibble_${name} PROPERTY NIBBLE_FLOOR ${ARG_FLOOR})
  foreach(dep IN LISTS ARG_LINKS)
    get_property(dep_floor TARGET nibble_${dep} PROPERTY NIBBLE_FLOOR)
    if(NOT dep_floor LESS ARG_FLOOR)
      message(FATAL_ERROR "${name} (floor ${ARG_FLOOR}) may not link ${dep} (floor ${dep_floor})")
    endif()
    target_link_libraries(nibble_${name} ${access} nibble_${dep})
  endforeach()
endfunction()

# nibble_embed(<target> <file> <name> <namespace>): the file's bytes as a std::string_view of that name. In object files of
# their own: what CMake makes waits for all that its target links, and all sources of the target would wait with it.
function(nibble_embed target file name namespace)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUTPUT=${source} -DNAME=${name}
      -DNAMESPACE=${namespace} -P ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
    VERBATIM)
  if(NOT TARGET ${target}_embedded)
    add_library(${target}_embedded OBJECT)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_embedded>)
  endif()
  target_sources(${target}_embedded PRIVATE ${source})
endfunction()

# nibble_add_test(<name> SOURCES ... LINKS <module>... [PRIVATE <target>...] [DEFINITIONS ...] [LABELS ...] [TIMEOUT s]
#   [PRECOMPILED <set>])
# A GoogleTest program; each TEST becomes one ctest case named <name>.<suite>.<test>.
function(nibble_add_test name)
  if(NOT NIBBLE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT;PRECOMPILED" "SOURCES;LINKS;LABELS;PRIVATE;DEFINITIONS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(CMAKE_CROSSCOMPILING)  # emulation is slow
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  nibble_compile_options(${name})
  # What they test is optimised; they themselves need not be, and compile a quarter faster so.
  target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE NIBBLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ${ARG_DEFINITIONS})
  foreach(dep IN LISTS ARG_LINKS)
    target_link_libraries(${name} PRIVATE nibble_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gtest_main ${ARG_PRIVATE})
  nibble_precompile(${name} test ${ARG_PRECOMPILED})
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
