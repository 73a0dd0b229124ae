// weir drain, undrain and bypass.
#include <simdjson.h>

#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "config/controls.hpp"
#include "proxy/commands/client.hpp"
#include "proxy/commands/commands.hpp"

namespace weir::proxy::commands {
namespace {

constexpr std::chrono::milliseconds between_looks{200};

bool takes_requests(std::string_view state) { return state == "up" || state == "starting"; }

/// Calls look(replica) for the rows of /api/live of this name; one that leaves the settings may have a namesake there.
template <class Look>
void each_row(const Admin& admin, const std::string& name, const Look& look) {
  const auto answer = body_of(ask_admin(admin, "GET", "/api/live"));
  simdjson::dom::parser parser;
  for (const auto [row, one] : simdjson::dom::object(parser.parse(answer)["replicas"]))
    if (row == name || row.starts_with(name + " (leaving")) look(one);
}

/// The requests left on the replicas of a name.
struct Left {
  bool known = false, draining = false;
  std::uint64_t in_flight = 0;
};

Left look(const Admin& admin, const std::string& name) {
  Left left;
  each_row(admin, name, [&](const auto& one) {
    left.known = true;
    if (std::string_view(one["state"]) != "draining") return;
    left.draining = true;
    left.in_flight += std::uint64_t(one["in_flight"]);
  });
  return left;
}

int wait(const Admin& admin, const std::string& name) {
  for (;; std::this_thread::sleep_for(between_looks)) {
    const auto left = look(admin, name);
    if (!left.draining) {
      std::fprintf(stderr, left.known ? "%s drains no more: somebody has ended it\n" : "%s is gone\n", name.c_str());
      return left.known ? 1 : 0;
    }
    if (left.in_flight > 0) continue;
    std::printf("%s is drained: nothing is left on it\n", name.c_str());
    return 0;
  }
}

struct Readiness {
  bool takes = false;
  std::string state, reason;
};

/// Returns how the replica in the settings stands; a namesake may be leaving them.
Readiness readiness_of(const Admin& admin, const std::string& name) {
  Readiness last{false, "gone", "it is no longer in the settings"};
  each_row(admin, name, [&](const auto& one) {
    if (last.takes) return;
    last.state = config::printable(std::string_view(one["state"]));
    last.reason = config::printable(std::string_view(one["reason"]));
    last.takes = takes_requests(last.state) && !one["address"].is_null();
  });
  return last;
}

int wait_until_it_takes(const Admin& admin, const DrainOptions& options) {
  const auto until = std::chrono::steady_clock::now() + options.wait_at_most;
  for (;; std::this_thread::sleep_for(between_looks)) {
    const auto now = readiness_of(admin, options.replica);
    if (now.takes) {
      std::printf("%s takes requests\n", options.replica.c_str());
      return 0;
    }
    if (std::chrono::steady_clock::now() < until) continue;
    std::fprintf(stderr, "%s takes no requests after %g s: it is %s (%s)\n", options.replica.c_str(),
                 options.wait_at_most.count(), now.state.c_str(), now.reason.c_str());
    return 1;
  }
}

/// Says what has become of a replica that drains no more; with --wait its state is waited for.
void say_undrained(const DrainOptions& options, const std::string& answer) {
  const auto* const name = options.replica.c_str();
  simdjson::dom::parser parser;
  const auto told = parser.parse(answer);
  if (told["pardoned"]) std::printf("%s was ejected, and is back on probation\n", name);
  if (options.wait) return;
  const auto state = config::printable(told["state"].get_string().value()),
             reason = config::printable(told["reason"].get_string().value());
  if (takes_requests(state))
    std::printf("%s takes requests\n", name);
  else
    std::printf("%s drains no more, but it is %s (%s): it takes requests when that is over; --wait waits for it\n",
                name, state.c_str(), reason.c_str());
}

/// Returns weir's answer.
std::string ask(const Admin& admin, const DrainOptions& options, const std::string& what) {
  return body_of(ask_admin(admin, "POST", "/api/replicas/" + options.replica + "/" + what,
                           options.force ? R"({"force":true})" : "{}"));
}

}  // namespace

int drain(const DrainOptions& options) {
  return run_command("drain", [&] {
    const auto admin = admin_at(options.admin);
    ask(admin, options, "drain");
    if (options.wait) return wait(admin, options.replica);
    std::printf("%s drains: %llu requests are left on it\n", options.replica.c_str(),
                static_cast<unsigned long long>(look(admin, options.replica).in_flight));
    return 0;
  });
}

int undrain(const DrainOptions& options) {
  return run_command("undrain", [&] {
    const auto admin = admin_at(options.admin);
    say_undrained(options, ask(admin, options, "undrain"));
    return options.wait ? wait_until_it_takes(admin, options) : 0;
  });
}

int bypass(const AdminOptions& options, bool on) {
  return run_command("bypass", [&] {
    body_of(ask_admin(admin_at(options), "POST", on ? "/api/bypass/on" : "/api/bypass/off", "{}"));
    std::printf(on ? "bypass is on: weir relays what comes from now on, and reads none of it\n"
                   : "bypass is off: weir reads requests and answers again from now on\n");
    return 0;
  });
}

}  // namespace weir::proxy::commands
