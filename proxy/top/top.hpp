// The command `weir top`: GET /api/live of a running weir, on a terminal, once a second.
#pragma once

#include "proxy/commands/commands.hpp"

namespace weir::proxy::top {

struct TopOptions {
  commands::AdminOptions admin{};
  bool once = false;
  bool json = false;  ///< With `once`: the JSON itself.
};

/// Returns the program's exit status. Where standard output is no terminal it prints once.
int top(const TopOptions& options);
/// `weir status`: as `weir top --once`.
int status(const TopOptions& options);

}  // namespace weir::proxy::top
