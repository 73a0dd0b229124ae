#include "proxy/serve/announcement.hpp"

#include <algorithm>
#include <string_view>

#include "config/address.hpp"
#include "config/policy_words.hpp"
#include "config/quantity.hpp"
#include "config/url.hpp"

namespace weir::proxy::serve {
namespace {

std::string counted(std::size_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

std::string models_of(const config::Pool& pool) {
  if (pool.models.empty()) return "any model";
  std::string names;
  for (const auto& model : pool.models) names += (names.empty() ? "" : ", ") + model;
  return (pool.models.size() == 1 ? "model " : "models ") + names;
}

void add_replicas(std::vector<std::string>& lines, const std::vector<config::Replica>& replicas,
                  const std::string& of) {
  for (const auto& replica : replicas)
    lines.push_back("replica '" + replica.name + "' of " + of + ": " + config::to_text(replica.url) + ", config '" +
                    replica.config + "'");
}

std::string what_it_shows(const config::Shadow& shadow, const config::Settings& settings) {
  if (shadow.sample)
    return "a sample of " + config::format_number(*shadow.sample * 100) +
           " %; its load differs from its primaries', so its latencies carry no verdict (only a twin's do)";
  if (shadow.control) return "the control of the twins of '" + shadow.twin + "'";
  const auto control = std::ranges::find_if(settings.shadows, [&shadow](const auto& one) {
    return one.control && one.of == shadow.of && one.twin == shadow.twin;
  });
  return "a twin of '" + shadow.twin + "'; its latencies can carry a verdict, against " +
         (control != settings.shadows.end() ? "the control '" + control->name + "'" : "'" + shadow.twin + "'");
}

std::string request_log(const std::string& file) {
  if (file.empty()) return "the request log is off";
  return "request log: " + (file == "-" ? std::string("standard output") : file);
}

/// A Unix-domain socket has no url to which a path could be added.
std::string page_of(const config::ListenAddress& address, const char* path) {
  return config::url_of(address) + (address.unix_path.empty() ? path : "");
}

std::string url_for_clients(const config::ListenAddress& address, const config::Settings& settings) {
  const auto url = config::url_of(address);
  return settings.server.tls && address.unix_path.empty() ? "https" + url.substr(url.find(':')) : url;
}

}  // namespace

std::vector<std::string> start_lines(const config::Settings& settings, const std::string& version, unsigned loops) {
  std::vector<std::string> lines{"weir " + version + " starts with " + counted(loops, "loop")};
  for (const auto& pool : settings.pools) {
    lines.push_back("pool '" + pool.name + "': " + models_of(pool) + ", " + std::string(name_of(pool.policy)) + ", " +
                    counted(pool.replicas.size(), "replica"));
    add_replicas(lines, pool.replicas, "pool '" + pool.name + "'");
  }
  for (const auto& line : shadow_lines(settings)) lines.push_back(line);
  for (const auto& shadow : settings.shadows) add_replicas(lines, shadow.replicas, "shadow '" + shadow.name + "'");
  lines.push_back(request_log(settings.log.requests));
  return lines;
}

std::vector<std::string> shadow_lines(const config::Settings& settings) {
  std::vector<std::string> lines;
  for (const auto& shadow : settings.shadows)
    lines.push_back("shadow '" + shadow.name + "' of pool '" + shadow.of + "': " + what_it_shows(shadow, settings));
  return lines;
}

std::vector<std::string> listening_lines(const config::Settings& settings) {
  std::vector<std::string> lines;
  for (const auto& address : settings.server.listen)
    lines.push_back("serving on " + url_for_clients(address, settings));
  if (settings.metrics.listen) lines.push_back("metrics on " + page_of(*settings.metrics.listen, "/metrics"));
  if (settings.admin.listen) lines.push_back("admin on " + page_of(*settings.admin.listen, "/api/live"));
  return lines;
}

}  // namespace weir::proxy::serve
