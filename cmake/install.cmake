# What `cmake --install BUILD --prefix PREFIX` puts into a prefix, in three components:
#   program      nibble, its documentation, licence and examples
#   library      the C library, where it is built (target nibble_library)
#   development  its header, pkg-config file, and what find_package(nibble) reads
# Nothing that is installed looks for a file of the source or build tree.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_custom_target(installed DEPENDS nibble)  # what is installed, without tests

install(TARGETS nibble EXPORT nibble_targets RUNTIME COMPONENT program)
set_target_properties(nibble PROPERTIES EXPORT_NAME program)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program
  PATTERN "__pycache__" EXCLUDE PATTERN "*_test.py" EXCLUDE)

# Made with the program (src/cli/CMakeLists.txt).
install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/manual/bash/nibble
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/manual/zsh/_nibble
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/manual/fish/nibble.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)

# The place of the program in its unit is known when the prefix is.
install(CODE "set(bindir \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
configure_file(\"${PROJECT_SOURCE_DIR}/packaging/nibble@.service.in\" \"${PROJECT_BINARY_DIR}/nibble@.service\" @ONLY)"
  COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/nibble@.service DESTINATION lib/systemd/system COMPONENT program)

if(TARGET nibble_library)
  add_dependencies(installed nibble_library)
  set_target_properties(nibble_library PROPERTIES EXPORT_NAME nibble)
  install(TARGETS nibble_library EXPORT nibble_targets
    LIBRARY COMPONENT library NAMELINK_COMPONENT development
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/nibble DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    COMPONENT development FILES_MATCHING PATTERN "*.h")
  file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/nibble.pc.in ${PROJECT_BINARY_DIR}/nibble.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/nibble.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/nibble)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/nibble-config.cmake.in
  ${PROJECT_BINARY_DIR}/nibble-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nibble-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/nibble-config.cmake ${PROJECT_BINARY_DIR}/nibble-config-version.cmake
  DESTINATION ${package} COMPONENT development)
install(EXPORT nibble_targets NAMESPACE nibble:: DESTINATION ${package} FILE nibble-targets.cmake COMPONENT development)

include(${PROJECT_SOURCE_DIR}/cmake/install_package.cmake)
