#include "proxy/control/incident/recorder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/control/incident/report.hpp"
#include "proxy/control/whole_file.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::control::incident {
namespace {

/// Its requests' ids, keys' names and settings are for operators.
constexpr mode_t for_operators = 0640;

/// Returns "", or why weir cannot write there.
std::string why_not_writable(const std::string& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) return std::strerror(errno);
  if (!S_ISDIR(found.st_mode)) return "it is no directory";
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

/// True for a file of weir's user, under a name as file_name() makes it.
bool is_report(const std::filesystem::path& path) {
  const auto name = path.filename().string();
  constexpr std::string_view moment = "00000000T000000Z";
  if (name.size() != file_begin.size() + moment.size() + file_end.size()) return false;
  if (!name.starts_with(file_begin) || !name.ends_with(file_end)) return false;
  const auto same_kind = [](char have, char like) { return like == '0' ? have >= '0' && have <= '9' : have == like; };
  if (!std::ranges::equal(std::string_view(name).substr(file_begin.size(), moment.size()), moment, same_kind))
    return false;
  struct stat found {};
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
  const auto name = file_name(live_.now().time);
  auto make = [folder, name, data = make_(incident)] {
    auto why = write_whole(folder, name, page(data), for_operators);
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

}  // namespace weir::proxy::control::incident
