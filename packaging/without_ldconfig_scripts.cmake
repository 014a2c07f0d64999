# Run by CPack on the finished packages: takes out the scripts that call ldconfig, which CPack adds to packages of
# libraries. Debian wants the trigger (packaging/triggers) instead.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  if(NOT package MATCHES "/libnibble[0-9]+_[^/]*\\.deb$")
    continue()
  endif()
  set(root ${package}.content)
  execute_process(COMMAND dpkg-deb --raw-extract ${package} ${root} COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE ${root}/DEBIAN/postinst ${root}/DEBIAN/postrm)
  execute_process(COMMAND dpkg-deb --root-owner-group --build ${root} ${package} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${root})
endforeach()
