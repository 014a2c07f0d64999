# The CUDA back end: built where a toolkit is found that knows all its architectures.
#   NIBBLE_WITH_CUDA           AUTO (found: built), ON (must be found), OFF
#   NIBBLE_CUDA_ARCHITECTURES  machine code for these, and PTX of the newest of them without a letter: the driver
#                              compiles that for devices of other kinds. Code for 80 runs on 86 and 89 too.
#   NIBBLE_CUDA_LINE_INFO      ON: kernels carry their source lines, which profilers and compute-sanitizer show. Programs are three times as large.
set(NIBBLE_WITH_CUDA AUTO CACHE STRING "Build the CUDA back end: AUTO, ON or OFF")
set(NIBBLE_CUDA_ARCHITECTURES "80;90a" CACHE STRING "CUDA architectures; the preset cuda has all")
option(NIBBLE_CUDA_LINE_INFO "Keep the source lines of kernels, for profilers")
set(NIBBLE_CUDA_OLDEST 12.8)  # the first toolkit with sm_120

set(NIBBLE_HAS_CUDA OFF)
if(NIBBLE_WITH_CUDA AND NOT CMAKE_CROSSCOMPILING)
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # the flags below name them: CMake 3.25 does not know 90a
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
    # Of cuBLAS and cuSOLVER the headers are enough: the libraries are opened when they are wanted.
    find_path(NIBBLE_CUBLAS_HEADERS cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_path(NIBBLE_CUSOLVER_HEADERS cusolverDn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(CUDAToolkit_FOUND AND NIBBLE_CUBLAS_HEADERS AND NIBBLE_CUSOLVER_HEADERS
        AND NOT CUDAToolkit_VERSION VERSION_LESS NIBBLE_CUDA_OLDEST)
      set(NIBBLE_HAS_CUDA ON)
    endif()
  endif()
endif()
if(NOT NIBBLE_HAS_CUDA AND NIBBLE_WITH_CUDA AND NOT NIBBLE_WITH_CUDA STREQUAL "AUTO")
  message(FATAL_ERROR "NIBBLE_WITH_CUDA is ON, but there is no CUDA toolkit of version ${NIBBLE_CUDA_OLDEST} or later (compiler, runtime, headers of cuBLAS and cuSOLVER)")
endif()

if(NIBBLE_HAS_CUDA)
  message(STATUS "CUDA back end: toolkit ${CUDAToolkit_VERSION}, architectures ${NIBBLE_CUDA_ARCHITECTURES}")
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 speaks C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  foreach(architecture IN LISTS NIBBLE_CUDA_ARCHITECTURES)
    list(APPEND NIBBLE_CUDA_FLAGS "SHELL:-gencode arch=compute_${architecture},code=sm_${architecture}")
    if(architecture MATCHES "^[0-9]+$")
      set(newest ${architecture})
    endif()
  endforeach()
  if(newest)
    list(APPEND NIBBLE_CUDA_FLAGS "SHELL:-gencode arch=compute_${newest},code=compute_${newest}")
  endif()
  # -Wpedantic warns of what nvcc itself writes between the two compilations.
  list(JOIN NIBBLE_WARNINGS "," host_warnings)
  string(REPLACE ",-Wpedantic" "" host_warnings "${host_warnings}")
  list(APPEND NIBBLE_CUDA_FLAGS "SHELL:-Xcompiler ${host_warnings},-ffp-contract=off" --expt-relaxed-constexpr)
  if(NIBBLE_CUDA_LINE_INFO)
    list(APPEND NIBBLE_CUDA_FLAGS -lineinfo)
  endif()
  # Drivers of CUDA 12 may not read this compression.
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND NIBBLE_CUDA_FLAGS --compress-mode=size)
  endif()
  if(NIBBLE_WERROR)
    list(APPEND NIBBLE_CUDA_FLAGS "SHELL:-Werror all-warnings")
  endif()
else()
  message(STATUS "CUDA back end: not built (NIBBLE_WITH_CUDA=${NIBBLE_WITH_CUDA})")
endif()
