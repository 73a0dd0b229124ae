#include "proxy/admin/report.hpp"

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/text.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/admin/api.hpp"
#include "proxy/admin/live_api.hpp"
#include "proxy/events/events.hpp"
#include "proxy/live/page/files.hpp"
#include "proxy/rollout/rollout_file.hpp"

namespace weir::proxy::admin {
namespace {

/// Returns the events of the last seconds.
std::string events_json(const live::Live& live, std::chrono::seconds last) {
  auto since = events::ring().since(0);
  const auto begin = live.now().time - last;
  std::erase_if(since.events, [&](const events::Event& event) { return event.time < begin; });
  return live::events_json(since, live.started());
}

}  // namespace

std::string report_data(live::Live& live, const config::Settings& settings, std::chrono::seconds last,
                        std::string_view because) {
  const auto document = live.document();
  if (!document) return "";
  auto listed = settings_answer(settings).body;
  while (listed.ends_with('\n')) listed.pop_back();
  metrics::wire::JsonWriter json;
  json.open('{').key("schema").count(live::schema);
  live::write_time(json.key("made"), std::chrono::system_clock::now());
  json.key("because").text(because).key("last_s").count(static_cast<std::uint64_t>(last.count()));
  json.key("live").raw(document->json());
  json.key("window").raw(whole_window_json(live, static_cast<std::size_t>(last.count())));
  json.key("events").raw(events_json(live, last)).key("settings").raw(listed);
  write_machine(json.key("machine"));
  return json.close('}').written();
}

std::string report_page(std::string_view data) {
  std::string page(live::page::before_saved());
  // A name may hold "</script>". In JSON a '<' stands only in strings, where it may be an escape.
  for (const char letter : data) letter == '<' ? page.append("\\u003c") : page.append(1, letter);
  for (const auto part : live::page::behind_saved()) page.append(part);
  return page;
}

namespace {

struct Wanted {
  std::chrono::seconds last = longest_report;
  bool json = false;
};

/// Returns what is wanted, or a sentence that says why it cannot be.
std::optional<std::string> take(std::string_view query, Wanted& wanted) {
  const auto parameters = parameters_of(query);
  if (!parameters) return std::string(not_a_query);
  for (const auto& [name, value] : *parameters) {
    if (name == "last") {
      const auto last = config::parse_duration(value);
      if (!last || *last < std::chrono::seconds(10) || *last > longest_report)
        return "last must be a time from 10s to 15m, such as 5m: the live view keeps no more";
      wanted.last = std::chrono::ceil<std::chrono::seconds>(*last);
    } else if (name == "format") {
      if (value != "html" && value != "json") return std::string("format must be html or json");
      wanted.json = value == "json";
    } else {
      return unknown_parameter(name, {"last", "format"});
    }
  }
  return std::nullopt;
}

}  // namespace

ApiAnswer report_answer(std::string_view query, live::Live& live, const config::Settings& settings) {
  Wanted wanted;
  if (const auto why_not = take(query, wanted)) return bad_query(*why_not);
  auto data = report_data(live, settings, wanted.last, "an operator asked for it");
  if (data.empty()) return not_yet();
  if (wanted.json) return {200, std::move(data) + "\n"};
  return {200, report_page(data), "text/html; charset=utf-8"};
}

std::string report_file_name(std::chrono::system_clock::time_point time) {
  auto moment = metrics::timestamp(std::chrono::floor<std::chrono::microseconds>(time), 0);
  std::erase_if(moment, [](char letter) { return letter == '-' || letter == ':'; });
  return std::string(file_begin).append(moment).append(file_end);
}

namespace {

/// Its requests' ids, keys' names and settings are for operators.
constexpr mode_t for_operators = 0640;

/// Returns "", or why weir cannot write there.
std::string why_not_writable(const std::string& folder) {
  struct stat found{};
  if (::stat(folder.c_str(), &found) != 0) return std::strerror(errno);
  if (!S_ISDIR(found.st_mode)) return "it is no directory";
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

/// True for a file of weir's user, under a name as report_file_name() makes it.
bool is_report(const std::filesystem::path& path) {
  const auto name = path.filename().string();
  constexpr std::string_view moment = "00000000T000000Z";
  if (name.size() != file_begin.size() + moment.size() + file_end.size()) return false;
  if (!name.starts_with(file_begin) || !name.ends_with(file_end)) return false;
  const auto same_kind = [](char have, char like) { return like == '0' ? have >= '0' && have <= '9' : have == like; };
  if (!std::ranges::equal(std::string_view(name).substr(file_begin.size(), moment.size()), moment, same_kind))
    return false;
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == ::geteuid();
}

}  // namespace

std::string incident_in(const live::Now& now) {
  if (!now.weir.why_not_ready.empty()) return "weir is not ready: " + now.weir.why_not_ready;
  const auto out = std::ranges::find_if(now.pools, [](const auto& pool) { return pool.replicas > 0 && pool.up == 0; });
  return out == now.pools.end() ? "" : "no replica of pool '" + out->name + "' is up";
}

bool WhenToRecord::is_due(bool well, bool draining, metrics::Moment now) {
  if (well) was_well_ = true;
  if (well || draining || !was_well_) return false;
  was_well_ = false;
  if (last_ && now - *last_ < at_most_every) return false;
  last_ = now;
  return true;
}

void remove_old_reports(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> reports;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (is_report(entry.path())) reports.push_back(entry.path());
  if (reports.size() <= most_reports) return;
  std::ranges::sort(reports);  // Their names are moments.
  for (const auto& old : std::span(reports).first(reports.size() - most_reports)) std::filesystem::remove(old, error);
}

void Recorder::tick(const std::string& folder, metrics::Moment now) {
  if (folder != folder_) {
    folder_ = folder;
    if (const auto why = folder.empty() ? "" : why_not_writable(folder); !why.empty())
      events::warn(events::What::weir, "",
                   "no report can be written into '{}' ([admin] reports): {}; make it a directory that weir's user may "
                   "write",
                   folder, why);
  }
  if (live_.serial() == std::exchange(serial_, live_.serial())) return;
  const auto incident = incident_in(live_.now());
  const bool due = when_.is_due(incident.empty(), live_.now().weir.draining, now);
  if (due && !folder.empty()) write(folder, incident);
}

void Recorder::write(const std::string& folder, const std::string& incident) {
  const auto name = report_file_name(live_.now().time);
  auto make = [folder, name, data = make_(incident)] {
    auto why = rollout::write_whole(folder, name, report_page(data), for_operators);
    remove_old_reports(folder);
    return why;
  };
  slow_.make(std::move(make), [incident, file = folder + "/" + name](const std::shared_ptr<std::string>& why) {
    if (why && why->empty())
      events::info(events::What::weir, "", "{}: the last minutes are in the report '{}'", incident, file);
    else
      events::error(events::What::weir, "", "{}: the report '{}' could not be written: {}", incident, file,
                    why ? *why : "an internal error");
  });
}

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

}  // namespace weir::proxy::admin
