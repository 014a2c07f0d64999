# Debian packages by CPack (tools/check_package.sh makes and checks them): nibble, and of the C library, where it is
# built, libnibble0 and libnibble-dev. Configured with -DCMAKE_INSTALL_PREFIX=/usr, the library lies in the folder of its
# architecture (/usr/lib/x86_64-linux-gnu), else in /usr/lib.
set(NIBBLE_PACKAGE_CONTACT "Nibble developers <developers@nibble.invalid>" CACHE STRING "Maintainer of the packages")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME nibble)
set(CPACK_PACKAGE_CONTACT "${NIBBLE_PACKAGE_CONTACT}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)  # xz takes minutes for the machine code of GPUs, and saves a quarter
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/finish_package.cmake)
set(CPACK_NIBBLE_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_COMPONENTS_ALL program)
set(CPACK_NIBBLE_PACKAGES nibble)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME nibble)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
# OpenBLAS is opened by who calibrates, so no linker knows of it; ca-certificates are for `nibble pull`.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS libopenblas0)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "quantize transformers and run them")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Nibble makes a trained transformer 4 bits (or 8, or 3), shows what that
costs, and runs it on ordinary processors and NVIDIA GPUs. It reads models
of Hugging Face and GGUF files, and serves them with OpenAI's API.")

if(TARGET nibble_library)
  list(APPEND CPACK_COMPONENTS_ALL library development)
  get_target_property(soversion nibble_library SOVERSION)
  list(APPEND CPACK_NIBBLE_PACKAGES libnibble${soversion} libnibble-dev)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libnibble${soversion})
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS libopenblas0)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/triggers)
  set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/without_ldconfig_scripts.cmake)
  set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The C library of nibble: open a model, let it write, embed, label and
score texts, quantize it.")
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libnibble-dev)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libnibble${soversion} (= ${PROJECT_VERSION}-1)")
  set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "What programs that use libnibble are built with: its header, and files
for pkg-config and CMake.")
endif()
include(CPack)
