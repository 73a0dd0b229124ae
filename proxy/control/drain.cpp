#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {
namespace {

constexpr std::chrono::milliseconds between_looks{200};

/// What is left on the replicas of this name; one that leaves the settings may have another beside it.
struct Left {
  bool known = false, draining = false;
  std::uint64_t in_flight = 0;
};

Left look(const Admin& admin, const std::string& name) {
  const auto answered = ask_admin(admin, "GET", "/api/replicas");
  if (answered.status != 200) throw std::runtime_error(error_message(answered));
  Left left;
  const auto listed = boost::json::parse(answered.body);
  for (const auto& one : listed.at("replicas").as_array()) {
    if (one.at("name").as_string() != name || one.at("state").as_string() != "draining") {
      left.known = left.known || one.at("name").as_string() == name;
      continue;
    }
    left.known = left.draining = true;
    left.in_flight += one.at("in_flight").to_number<std::uint64_t>();
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

int ask(const DrainOptions& options, const std::string& what) {
  const auto admin = admin_at(options.admin);
  const auto answered = ask_admin(admin, "POST", "/api/replicas/" + options.replica + "/" + what,
                                  options.force ? R"({"force":true})" : "{}");
  if (answered.status != 200) throw std::runtime_error(error_message(answered));
  if (options.wait) return wait(admin, options.replica);
  if (what == "undrain") {
    std::printf("%s takes requests\n", options.replica.c_str());
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
