#include "metrics/series/process_series.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

namespace weir::metrics::series {
namespace {

namespace fs = std::filesystem;

/// The fields of proc_pid_stat(5) that weir reads.
struct ProcessStat {
  double start_ticks = 0, virtual_bytes = 0, resident_pages = 0;
};

std::optional<ProcessStat> process_stat() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // Field 2 is the program's name in parentheses. The name may hold spaces and parentheses itself.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  ProcessStat stat;
  fields >> stat.start_ticks >> stat.virtual_bytes >> stat.resident_pages;
  return fields ? std::optional{stat} : std::nullopt;
}

std::optional<double> boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  }
  return std::nullopt;
}

/// The start time is computed once: the kernel derives its boot time anew at each read, so a second look may differ by
/// a second.
std::optional<double> start_time() {
  static const std::optional<double> seconds = []() -> std::optional<double> {
    const auto stat = process_stat();
    const auto boot = boot_time();
    if (!stat || !boot) return std::nullopt;
    return *boot + stat->start_ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }();
  return seconds;
}

std::optional<double> open_descriptors() {
  std::error_code ec;
  const fs::directory_iterator entries("/proc/self/fd", ec);
  if (ec) return std::nullopt;
  return static_cast<double>(std::distance(begin(entries), end(entries)) - 1);  // One is subtracted for the descriptor
                                                                                // that lists them.
}

std::optional<double> max_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

std::optional<double> cpu_seconds() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  const auto in_seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return in_seconds(usage.ru_utime) + in_seconds(usage.ru_stime);
}

}  // namespace

std::vector<ProcessFigure> process_figures() {
  std::vector<ProcessFigure> figures;
  const auto add = [&](const SeriesText& text, SeriesType type, std::optional<double> value) {
    if (value) figures.push_back({text, type, *value});
  };
  using enum SeriesType;
  const auto stat = process_stat();
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  add({"process_cpu_seconds_total", "User and system CPU time spent in seconds."}, counter, cpu_seconds());
  add({"process_max_fds", "Maximum number of open file descriptors."}, gauge, max_descriptors());
  add({"process_open_fds", "Number of open file descriptors."}, gauge, open_descriptors());
  if (stat) {
    add({"process_resident_memory_bytes", "Resident memory size in bytes."}, gauge, stat->resident_pages * page);
    add({"process_virtual_memory_bytes", "Virtual memory size in bytes."}, gauge, stat->virtual_bytes);
  }
  add({"process_start_time_seconds", "Start time of the process since unix epoch in seconds."}, gauge, start_time());
  return figures;
}

}  // namespace weir::metrics::series
