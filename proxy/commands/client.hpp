// Asks a running weir on its admin listener, for the commands of the program.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

#include "config/settings.hpp"
#include "proxy/commands/commands.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::commands {

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

/// Tells that no weir answers there.
struct NoWeir : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The outcome of a question to the admin listener.
struct AdminReply {
  Answered answered;
  std::string why_none{};  ///< A sentence, if there is no answer: "no weir answers at ...".
};

/// Asks without blocking, on the thread of the caller's executor. `limit` is for all of it.
net::Awaitable<AdminReply> answer_of(const Admin& admin, std::string method, std::string path, std::string body,
                                     std::chrono::steady_clock::duration limit);

/// Asks, and blocks until there is an answer, for 30 s at most. Throws NoWeir.
Answered ask_admin(const Admin& admin, const std::string& method, const std::string& path,
                   const std::string& body = "");

/// Returns the message of an error that weir answered.
std::string error_message(const Answered& answered);

/// Returns the body of an answer of status 200. Throws std::runtime_error with weir's own sentence for any other.
std::string body_of(const Answered& answered);

/// Runs a command of the program and returns its exit status. Says on standard error why one throws.
int run_command(const std::string& name, const std::function<int()>& command);

}  // namespace weir::proxy::commands
