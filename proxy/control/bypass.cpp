#include <cstdio>
#include <stdexcept>

#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {

int bypass(const AdminOptions& options, bool on) {
  try {
    const auto answered = ask_admin(admin_at(options), "POST", on ? "/api/bypass/on" : "/api/bypass/off", "{}");
    if (answered.status != 200) throw std::runtime_error(error_message(answered));
    std::printf(on ? "bypass is on: weir relays what comes from now on, and reads none of it\n"
                   : "bypass is off: weir reads requests and answers again from now on\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weir bypass: %s\n", error.what());
    return 1;
  }
}

}  // namespace weir::proxy::control
