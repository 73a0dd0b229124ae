# What `cmake --install` and `cpack` put where, and what CPack needs to make a Debian package of it. The units, the user
# and the rest name the place that they are installed to, so they are written when that is known: by install_settings.cmake.
include(GNUInstallDirs)

install(TARGETS weir weir-lab)
if(WEIR_PORTABLE)
  # These have no static archive in Debian, or are needed by one that has none.
  foreach(library simdjson::simdjson prometheus-cpp::core)
    install(FILES $<TARGET_FILE:${library}> DESTINATION lib/weir RENAME $<TARGET_SONAME_FILE_NAME:${library}>)
  endforeach()
  foreach(name libstdc++.so.6 libgcc_s.so.1)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE library OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    file(REAL_PATH ${library} library)
    install(FILES ${library} DESTINATION lib/weir RENAME ${name})
  endforeach()
endif()

# The manual pages are what the built programs say: cmake --build --preset release --target manual.
set(manual ${CMAKE_BINARY_DIR}/manual)
set(WEIR_MAINTAINER "weir maintainers <maintainers@weir.invalid>" CACHE STRING "Whom the Debian package names: NAME <ADDRESS>")
add_custom_target(manual COMMAND ${CMAKE_SOURCE_DIR}/scripts/man-pages ${CMAKE_BINARY_DIR} ${manual} ${WEIR_MAINTAINER}
                  DEPENDS weir weir-lab COMMENT "Writing the manual pages" VERBATIM)
install(FILES ${manual}/weir.1.gz ${manual}/weir-lab.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
install(FILES ${manual}/weir.toml.5.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 OPTIONAL)

set(deploy ${CMAKE_SOURCE_DIR}/config/deploy)
install(FILES ${deploy}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weir)
install(FILES ${deploy}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weir-lab)
foreach(program weir weir-lab)
  install(FILES ${deploy}/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME ${program}.fish)
endforeach()
install(FILES ${deploy}/alerts.yml ${deploy}/grafana/dashboards/weir.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/config/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(CODE "set(deploy \"${deploy}\")\nset(manual \"${manual}\")\nset(scratch \"${CMAKE_BINARY_DIR}/installed\")")
install(SCRIPT ${deploy}/install_settings.cmake)

set(CPACK_GENERATOR DEB)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_CONTACT "${WEIR_MAINTAINER}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, logrotate")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "measuring reverse proxy and load balancer for inference replicas")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "weir stands in front of inference engines (vLLM, SGLang, TGI, llama.cpp) that\nspeak HTTP. It sends each request to the replica with the fewest queued tokens,\n\
measures every answer on its way (time to first token, time between tokens,\ntokens per second), shows the figures to Prometheus, mirrors requests to\n\
candidates and compares them.\n.\nThe program weir-lab simulates engines, sends load, and sums up request logs.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${deploy}/debian/conffiles ${deploy}/debian/postinst ${deploy}/debian/prerm ${deploy}/debian/postrm)
include(CPack)
