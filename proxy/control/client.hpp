// Asks a running weir on its admin listener, for the commands of the program. It blocks.
#pragma once

#include <stdexcept>
#include <string>

#include "config/settings.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {

struct Answered {
  unsigned status = 0;
  std::string body;
};

/// The admin listener of a weir.
struct Admin {
  config::ListenAddress address;
  std::string token{};  ///< Requests bear it; "" means none.
};

/// Reads what a command line and the environment say of it. Throws std::runtime_error with a sentence.
Admin admin_at(const AdminOptions& options);

/// No weir answers there; the sentence says so.
struct NoWeir : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws NoWeir.
Answered ask_admin(const Admin& admin, const std::string& method, const std::string& path,
                   const std::string& body = "");

/// Returns the message of an error that weir answered.
std::string error_message(const Answered& answered);

}  // namespace weir::proxy::control
