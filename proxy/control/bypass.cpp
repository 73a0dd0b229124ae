#include <cstdio>

#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {

int bypass(const AdminOptions& options, bool on) {
  return run_command("bypass", [&] {
    body_of(ask_admin(admin_at(options), "POST", on ? "/api/bypass/on" : "/api/bypass/off", "{}"));
    std::printf(on ? "bypass is on: weir relays what comes from now on, and reads none of it\n"
                   : "bypass is off: weir reads requests and answers again from now on\n");
    return 0;
  });
}

}  // namespace weir::proxy::control
