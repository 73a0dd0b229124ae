// Asks a running weir on its admin listener, for the commands of the program. It blocks.
#pragma once

#include <string>

#include "config/settings.hpp"

namespace weir::proxy::control {

struct Answered {
  unsigned status = 0;
  std::string body;
};

/// Where the admin listener of a weir is, as a command line names it: an address, or a url with one.
/// Throws std::runtime_error with a sentence.
config::ListenAddress admin_address(const std::string& text);

/// Throws std::runtime_error with a sentence if no weir answers there.
Answered ask_admin(const config::ListenAddress& admin, const std::string& method, const std::string& path,
                   const std::string& body = "");

/// Returns the message of an error that weir answered.
std::string error_message(const Answered& answered);

}  // namespace weir::proxy::control
