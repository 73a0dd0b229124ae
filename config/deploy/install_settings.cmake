# Installs what names the place of other files, or goes to a place that depends on the prefix. CMAKE_INSTALL_PREFIX is
# known here, `cmake --install --prefix` included; DESTDIR comes in front of every path.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(etc /etc)
  set(zsh ${CMAKE_INSTALL_PREFIX}/share/zsh/vendor-completions)
else()
  set(etc ${CMAKE_INSTALL_PREFIX}/etc)
  set(zsh ${CMAKE_INSTALL_PREFIX}/share/zsh/site-functions)
endif()

file(INSTALL DESTINATION ${zsh} TYPE FILE FILES ${deploy}/completion.zsh RENAME _weir)
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/sysusers.d TYPE FILE FILES ${deploy}/sysusers.conf RENAME weir.conf)
file(INSTALL DESTINATION ${etc}/logrotate.d TYPE FILE FILES ${deploy}/logrotate RENAME weir)
# A file that is there is someone's settings. In a package dpkg takes care of that.
if(NOT EXISTS $ENV{DESTDIR}${etc}/weir/weir.toml)
  file(INSTALL DESTINATION ${etc}/weir TYPE FILE FILES ${deploy}/weir.toml)
endif()

# The units: as they are in config/deploy, with the place of the program and of the settings, and with the user that
# sysusers.d makes in place of one that exists only while weir runs.
foreach(unit weir.service weir.socket shared-socket.conf)
  file(READ ${deploy}/${unit} text)
  string(REPLACE "/usr/local/bin/" "${CMAKE_INSTALL_PREFIX}/bin/" text "${text}")
  string(REPLACE "/etc/weir/weir.toml" "${etc}/weir/weir.toml" text "${text}")
  string(REPLACE "DynamicUser=yes" "User=weir\nGroup=weir" text "${text}")
  string(REGEX REPLACE "(Description=weir[^\n]*)" "\\1\nDocumentation=man:weir(1) man:weir.toml(5)" text "${text}")
  # The lines at the top say how to install the file by hand.
  string(REGEX REPLACE "^(#[^\n]*\n)+" "" text "${text}")
  file(WRITE ${scratch}/${unit} "${text}")
endforeach()
set(units ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
file(INSTALL DESTINATION ${units} TYPE FILE FILES ${scratch}/weir.service ${scratch}/weir.socket)
file(INSTALL DESTINATION ${units} TYPE FILE FILES ${scratch}/weir.service RENAME weir@.service)
file(INSTALL DESTINATION ${units}/weir@.service.d TYPE FILE FILES ${scratch}/shared-socket.conf)

set(doc ${CMAKE_INSTALL_PREFIX}/share/doc/weir)
file(INSTALL DESTINATION ${doc} TYPE FILE FILES ${deploy}/debian/copyright)
foreach(name changelog.gz changelog.Debian.gz)
  if(EXISTS ${manual}/${name})
    file(INSTALL DESTINATION ${doc} TYPE FILE FILES ${manual}/${name})
  endif()
endforeach()
