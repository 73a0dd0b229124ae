// The commands of the program that talk to a running weir. Each returns the program's exit status and prints what there
// is to say.
#pragma once

#include <string>

#include "config/settings.hpp"

namespace weir::proxy::control {

inline constexpr auto default_admin = "127.0.0.1:9091";

struct DrainOptions {
  std::string replica, admin = default_admin;
  bool wait = false, force = false;
};
int drain(const DrainOptions& options);
int undrain(const DrainOptions& options);

int status(const std::string& admin, bool json);

/// Says what a reload would do: from the settings in the file `old`, or from those of the weir at that address.
/// `settings` are those of `file`.
int show_difference(const config::Settings& settings, const std::string& file, const std::string& old);

}  // namespace weir::proxy::control
