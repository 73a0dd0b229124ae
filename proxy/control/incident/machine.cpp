#include "proxy/control/incident/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

namespace weir::proxy::control::incident {
namespace {

/// Returns the text behind the colon in the first line that begins so; "" if there is none.
std::string value_in(const char* file, std::string_view name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const auto value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == line.npos ? "" : line.substr(value);
  }
  return "";
}

std::optional<double> bytes_in(const std::string& kibibytes) {
  if (kibibytes.empty()) return std::nullopt;
  return 1024 * std::strtod(kibibytes.c_str(), nullptr);
}

}  // namespace

void write_machine(metrics::wire::JsonWriter& json) {
  utsname system{};
  ::uname(&system);
  json.open('{').key("host").known_text(system.nodename);
  json.key("kernel").known_text(std::string(system.sysname) + " " + system.release + " " + system.machine);
  json.key("cpu").known_text(value_in("/proc/cpuinfo", "model name"));
  json.key("cpus").count(static_cast<std::uint64_t>(::sysconf(_SC_NPROCESSORS_ONLN)));
  json.key("memory_bytes").fixed(bytes_in(value_in("/proc/meminfo", "MemTotal:")), 0);
  json.key("memory_available_bytes").fixed(bytes_in(value_in("/proc/meminfo", "MemAvailable:")), 0);
  double loads[3]{};
  const int known = ::getloadavg(loads, 3);
  json.key("load").open('[');
  for (int i = 0; i < known; ++i) json.fixed(loads[i], 2);
  json.close(']');
  std::ifstream uptime("/proc/uptime");
  double seconds = 0;
  json.key("uptime_s").fixed(uptime >> seconds ? std::optional(seconds) : std::nullopt, 0);
  json.close('}');
}

}  // namespace weir::proxy::control::incident
