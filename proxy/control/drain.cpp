#include <simdjson.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {
namespace {

constexpr std::chrono::milliseconds between_looks{200};

bool takes_requests(std::string_view state) { return state == "up" || state == "starting"; }

/// What is left on the replicas of this name; one that leaves the settings may have another beside it.
struct Left {
  bool known = false, draining = false;
  std::uint64_t in_flight = 0;
};

Left look(const Admin& admin, const std::string& name) {
  const auto answered = ask_admin(admin, "GET", "/api/replicas");
  if (answered.status != 200) throw std::runtime_error(error_message(answered));
  Left left;
  simdjson::dom::parser parser;
  for (const auto one : parser.parse(answered.body)["replicas"]) {
    if (std::string_view(one["name"]) != name) continue;
    left.known = true;
    if (std::string_view(one["state"]) != "draining") continue;
    left.draining = true;
    left.in_flight += std::uint64_t(one["in_flight"]);
  }
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

/// How the replica in the settings stands; one of the same name may be leaving them.
Readiness readiness_of(const Admin& admin, const std::string& name) {
  const auto answered = ask_admin(admin, "GET", "/api/replicas");
  if (answered.status != 200) throw std::runtime_error(error_message(answered));
  Readiness last{false, "gone", "it is no longer in the settings"};
  simdjson::dom::parser parser;
  for (const auto one : parser.parse(answered.body)["replicas"]) {
    if (std::string_view(one["name"]) != name) continue;
    last.state = std::string_view(one["state"]);
    last.reason = std::string_view(one["reason"]);
    last.takes = takes_requests(last.state) && !one["address"].is_null();
    if (last.takes) break;
  }
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

void say_pardoned(const std::string& name, const Answered& answered) {
  simdjson::dom::parser parser;
  if (parser.parse(answered.body)["pardoned"]) std::printf("%s was ejected, and is back on probation\n", name.c_str());
}

void say_undrained(const std::string& name, const Answered& answered) {
  simdjson::dom::parser parser;
  const auto told = parser.parse(answered.body);
  const auto text = [&](std::string_view key) { return std::string(told[key].get_string().value()); };
  if (takes_requests(text("state")))
    std::printf("%s takes requests\n", name.c_str());
  else
    std::printf("%s drains no more, but it is %s (%s): it takes requests when that is over; --wait waits for it\n",
                name.c_str(), text("state").c_str(), text("reason").c_str());
}

int ask(const DrainOptions& options, const std::string& what) {
  const auto admin = admin_at(options.admin);
  const auto answered = ask_admin(admin, "POST", "/api/replicas/" + options.replica + "/" + what,
                                  options.force ? R"({"force":true})" : "{}");
  if (answered.status != 200) throw std::runtime_error(error_message(answered));
  if (what == "undrain") say_pardoned(options.replica, answered);
  if (what == "undrain" && options.wait) return wait_until_it_takes(admin, options);
  if (options.wait) return wait(admin, options.replica);
  if (what == "undrain") {
    say_undrained(options.replica, answered);
  } else {
    std::printf("%s drains: %llu requests are left on it\n", options.replica.c_str(),
                static_cast<unsigned long long>(look(admin, options.replica).in_flight));
  }
  return 0;
}

int ask_or_say_why_not(const DrainOptions& options, const std::string& what) {
  try {
    return ask(options, what);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weir %s: %s\n", what.c_str(), error.what());
    return 1;
  }
}

}  // namespace

int drain(const DrainOptions& options) { return ask_or_say_why_not(options, "drain"); }

int undrain(const DrainOptions& options) { return ask_or_say_why_not(options, "undrain"); }

}  // namespace weir::proxy::control
