#include "proxy/compare/sample_reading.hpp"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "metrics/compare/samples/log_reading.hpp"

namespace weir::proxy::compare {
namespace {

using metrics::compare::samples::Id;
using metrics::compare::samples::LineKind;
using metrics::compare::samples::Names;
using metrics::compare::samples::Sample;

constexpr std::int64_t spare_us = 3'600'000'000;
constexpr std::uint64_t progress_every = 50'000;

/// The ids of the requests that count, and the log in which each stands.
class Seen {
 public:
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

  /// Returns the log in which the request stood before, or `nowhere` if it is new. A request without an id is always
  /// new.
  std::size_t before(const Sample& sample, std::size_t log) {
    if (sample.id == Id{}) return nowhere;
    const auto [found, added] = ids_.emplace(sample.id, static_cast<std::uint32_t>(log));
    return added ? nowhere : found->second;
  }
  std::size_t log_of(const Id& id) const {
    const auto found = ids_.find(id);
    return found == ids_.end() ? nowhere : found->second;
  }

 private:
  struct Hash {
    std::size_t operator()(const Id& id) const { return id[0] * 0x9e37'79b9'7f4a'7c15 ^ id[1]; }
  };
  std::unordered_map<Id, std::uint32_t, Hash> ids_;
};

/// Finds out which logs belong together.
class Runs {
 public:
  explicit Runs(std::size_t logs) : parent_(logs) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }

  void join(std::size_t x, std::size_t y) {
    if (x == Seen::nowhere || y == Seen::nowhere) return;
    parent_[run_of(x)] = run_of(y);
  }
  std::size_t run_of(std::size_t log) const {
    while (parent_[log] != log) log = parent_[log];
    return log;
  }

 private:
  std::vector<std::size_t> parent_;
};

/// True if one log goes on where the other ends, as a log does that was rotated: with the same sides, and after a short
/// pause. Long requests stand in the later log, though they arrived in the time of the earlier.
bool goes_on(const ReadLog& one, const ReadLog& other) {
  constexpr std::int64_t most_us = 600'000'000;
  const ReadLog &earlier = one.first_us <= other.first_us ? one : other, &later = &earlier == &one ? other : one;
  const std::int64_t pause = later.first_us - earlier.last_us;
  const bool common = std::ranges::any_of(one.sides, [&](const auto& side) { return other.sides.contains(side); });
  const std::int64_t shorter = std::min(one.last_us - one.first_us, other.last_us - other.first_us);
  return common && pause <= most_us && -pause <= std::min(most_us, shorter / 2);
}

void tell_runs(ReadSamples& read, const Seen& seen, Runs& runs) {
  for (const auto& sample : read.samples) {
    if (const auto log = seen.log_of(sample.id); log != Seen::nowhere) {
      read.logs[log].sides.emplace(sample.config, sample.replica, sample.shadow, sample.role);
      if (sample.role == metrics::Role::shadow) runs.join(log, seen.log_of(sample.pair));
    }
  }
  for (std::size_t i = 0; i < read.logs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (goes_on(read.logs[i], read.logs[j])) runs.join(i, j);
    }
  }
  for (std::size_t i = 0; i < read.logs.size(); ++i) read.logs[i].run = runs.run_of(i);
  std::erase_if(read.logs, [](const ReadLog& log) { return log.requests == 0; });
}

/// The first request of an hour, and where it stands.
struct Place {
  std::int64_t us = 0;
  std::size_t log = 0;
  std::uint64_t line = 0;
};
using Places = std::map<std::int64_t, Place>;  ///< By the hour since 1970.

/// Leaves out the requests of another time than the bulk's of any log.
void leave_out_strays(ReadSamples& read, const std::vector<ReadTimes>& times, const Places& places) {
  std::vector<Stretch> taken, within;
  for (const auto& one : times) taken.push_back(one.taken());
  for (const auto& one : times) within.push_back(one.within(taken));
  Stretch all;
  for (const auto& one : within) {
    all.first_us = std::min(all.first_us, one.first_us);
    all.last_us = std::max(all.last_us, one.last_us);
    all.requests += one.requests;
  }
  read.strays = read.requests - all.requests;
  if (read.strays == 0) return;
  const auto is_stray = [&](std::int64_t us) {
    return std::ranges::none_of(taken, [us](const Stretch& one) { return one.holds(us); });
  };
  for (const auto& [hour, place] : places) {
    if (!is_stray(place.us)) continue;
    read.first_stray = read.logs[place.log].path + ':' + std::to_string(place.line) + " (" +
                       metrics::compare::samples::format_rfc3339(place.us) + ')';
    break;
  }
  std::erase_if(read.samples, [&](const Sample& sample) { return is_stray(sample.received_us); });
  read.mirrored.leave_out(is_stray);
  read.requests = all.requests;
  read.first_us = all.first_us;
  read.last_us = all.last_us;
  for (std::size_t i = 0; i < within.size(); ++i) {
    read.logs[i].requests = within[i].requests;
    read.logs[i].first_us = within[i].first_us;
    read.logs[i].last_us = within[i].last_us;
  }
}

bool was_mirrored(const Sample& sample) { return sample.role == metrics::Role::shadow && sample.drop_reason == 0; }

}  // namespace

bool ReadLog::has(const metrics::compare::sides::Selection& side) const {
  return std::ranges::any_of(sides, [&](const auto& one) {
    Sample sample;
    std::tie(sample.config, sample.replica, sample.shadow, sample.role) = one;
    return side.holds(sample);
  });
}

bool Selecting::wanted(const Sample& sample) const {
  if (filter_.from_us && sample.dispatched_us < *filter_.from_us - spare_us) return false;
  if (filter_.to_us && sample.received_us > *filter_.to_us + spare_us) return false;
  if (sample.role == metrics::Role::shadow) return true;
  if (!filter_.pool.empty() && names_.text(sample.pool) != filter_.pool) return false;
  if (!filter_.model.empty() && names_.text(sample.model) != filter_.model) return false;
  const auto& range = filter_.prompt_tokens;
  return !range || (sample.prompt_tokens >= range->low && sample.prompt_tokens <= range->high);
}

bool Selecting::add(Sample sample) {
  read_.first_us = read_.requests == 0 ? sample.received_us : std::min(read_.first_us, sample.received_us);
  read_.last_us = read_.requests == 0 ? sample.received_us : std::max(read_.last_us, sample.received_us);
  ++read_.requests;
  if (!wanted(sample)) return true;
  if (read_.samples.size() == most_samples) return false;
  read_.samples.push_back(std::move(sample));
  return true;
}

void Selecting::follow_primaries() {
  if (!about_primaries()) return;
  std::vector<Id> kept;
  for (const auto& sample : read_.samples) {
    if (sample.role == metrics::Role::primary) kept.push_back(sample.id);
  }
  std::ranges::sort(kept);
  std::erase_if(read_.samples, [&](const Sample& sample) {
    return sample.role == metrics::Role::shadow && !std::ranges::binary_search(kept, sample.pair);
  });
}

std::optional<std::string> read_samples(const std::vector<std::string>& logs, const Filter& filter, Names& names,
                                        const OnProgress& on_progress, ReadSamples& read) {
  Selecting selecting(filter, names, read);
  Seen seen;
  Runs runs(logs.size());
  read.logs.resize(logs.size());
  std::vector<ReadTimes> times(logs.size());
  Places places;
  bool full = false;
  for (std::size_t at = 0; at < logs.size(); ++at) {
    ReadLog& log = read.logs[at];
    log.path = logs[at];
    auto failure = for_each_line(log.path, [&](std::string_view line, std::uint64_t number, bool has_newline) {
      if (line.empty() || full) return;
      if (++read.lines % progress_every == 0) on_progress(read.lines);
      Sample sample;
      const auto kind = metrics::compare::samples::read_log_line(line, names, sample);
      if (kind == LineKind::warm_up) {
        ++read.warm_up;
      } else if (kind == LineKind::request) {
        log.first_us = log.requests == 0 ? sample.received_us : std::min(log.first_us, sample.received_us);
        log.last_us = log.requests == 0 ? sample.received_us : std::max(log.last_us, sample.received_us);
        ++log.requests;
        if (was_mirrored(sample) || selecting.wanted(sample)) {
          if (const std::size_t before = seen.before(sample, at); before != Seen::nowhere) {
            runs.join(before, at);
            if (read.repeated++ == 0) read.first_repeated = log.path + ':' + std::to_string(number);
            return;
          }
        }
        times[at].add(sample.received_us);
        places.try_emplace(hour_of(sample.received_us), Place{sample.received_us, at, number});
        read.mirrored.add(sample);
        full = !selecting.add(std::move(sample));
      } else if (has_newline && read.unread++ == 0) {
        read.first_unread = log.path + ':' + std::to_string(number);
      }
    });
    if (full) {
      return "more than " + std::to_string(most_samples) +
             " requests match; narrow them down with --from, --to, --pool or --model";
    }
    if (failure) return failure;
  }
  leave_out_strays(read, times, places);
  selecting.follow_primaries();
  tell_runs(read, seen, runs);
  return std::nullopt;
}

namespace {

constexpr std::size_t buffer_size = 1024 * 1024;
constexpr std::size_t longest = metrics::compare::samples::longest_line;
static_assert(buffer_size > longest + 1);

struct Close {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using File = std::unique_ptr<std::remove_pointer_t<gzFile>, Close>;

File open(const std::string& path) {
  errno = 0;
  if (path != "-") return File(gzopen(path.c_str(), "rb"));
  const int input = dup(STDIN_FILENO);
  if (input < 0) return nullptr;
  File file(gzdopen(input, "rb"));
  if (!file) close(input);
  return file;
}

/// Cuts what was read into lines.
class Lines {
 public:
  explicit Lines(const OnLine& on_line) : on_line_(on_line) {}

  /// Takes the lines off the front of the buffer; returns how many bytes remain of an unfinished one.
  std::size_t take(char* buffer, std::size_t size) {
    std::string_view rest(buffer, size);
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      give(rest.substr(0, end), true);
      rest.remove_prefix(end + 1);
    }
    // The rest of a line that is too long is dropped as it comes.
    if (rest.size() > longest) {
      if (!cut_) give_cut(rest);
      cut_ = true;
      return 0;
    }
    if (cut_) return 0;
    std::memmove(buffer, rest.data(), rest.size());
    return rest.size();
  }

  void end(std::string_view rest) {
    if (!cut_ && !rest.empty()) give(rest, false);
  }

 private:
  void give_cut(std::string_view line) { on_line_(line.substr(0, longest + 1), ++number_, true); }

  void give(std::string_view line, bool has_newline) {
    if (cut_) {
      cut_ = false;  // The line has been given.
    } else if (line.size() > longest) {
      give_cut(line);
    } else {
      on_line_(line, ++number_, has_newline);
    }
  }

  const OnLine& on_line_;
  std::uint64_t number_ = 0;
  bool cut_ = false;
};

}  // namespace

std::optional<std::string> for_each_line(const std::string& path, const OnLine& on_line) {
  const auto name = path == "-" ? std::string("standard input") : path;
  const auto file = open(path);
  if (!file) return name + ": cannot be opened: " + std::strerror(errno ? errno : ENOMEM);
  gzbuffer(file.get(), 256 * 1024);
  std::vector<char> buffer(buffer_size + metrics::compare::samples::line_padding);
  Lines lines(on_line);
  std::size_t held = 0;
  for (;;) {
    const int read = gzread(file.get(), buffer.data() + held, static_cast<unsigned>(buffer_size - held));
    if (read <= 0) break;
    held = lines.take(buffer.data(), held + static_cast<std::size_t>(read));
  }
  int error = Z_OK;
  const char* const why = gzerror(file.get(), &error);
  lines.end(std::string_view(buffer.data(), held));
  if (error == Z_OK || error == Z_STREAM_END) return std::nullopt;
  if (error == Z_BUF_ERROR) return name + ": ends within its compressed data; is it still being written?";
  return name + ": cannot be read: " + (error == Z_ERRNO ? std::strerror(errno) : why);
}

namespace {

constexpr std::int64_t hour_us = 3'600'000'000;
constexpr std::uint64_t most_strays = 10, in_so_many = 1000;
constexpr std::int64_t far = 10;

void add_to(Stretch& stretch, const Stretch& other) {
  stretch.first_us = std::min(stretch.first_us, other.first_us);
  stretch.last_us = std::max(stretch.last_us, other.last_us);
  stretch.requests += other.requests;
}

}  // namespace

std::int64_t hour_of(std::int64_t us) { return us >= 0 ? us / hour_us : -((hour_us - 1 - us) / hour_us); }

void ReadTimes::add(std::int64_t us) { add_to(hours_[hour_of(us)], {us, us, 1}); }

Stretch ReadTimes::taken() const {
  if (hours_.empty()) return {};
  std::uint64_t all = 0;
  for (const auto& [hour, stretch] : hours_) all += stretch.requests;
  /// The hour of the request of this rank.
  const auto hour_at = [&](std::uint64_t rank) {
    for (const auto& [hour, stretch] : hours_) {
      if (rank < stretch.requests) return hour;
      rank -= stretch.requests;
    }
    return hours_.rbegin()->first;
  };
  const auto low = hour_at(all / 4), high = hour_at(all - 1 - all / 4);
  const auto reach = far * std::max<std::int64_t>(1, 2 * (high - low));
  std::uint64_t before = 0, behind = 0;
  for (const auto& [hour, stretch] : hours_) {
    if (hour < low - reach) before += stretch.requests;
    if (hour > high + reach) behind += stretch.requests;
  }
  const auto most = std::max(most_strays, all / in_so_many);
  Stretch taken{hours_.begin()->first * hour_us, (hours_.rbegin()->first + 1) * hour_us - 1, all};
  if (before > 0 && before <= most) {
    taken.first_us = (low - reach) * hour_us;
    taken.requests -= before;
  }
  if (behind > 0 && behind <= most) {
    taken.last_us = (high + reach + 1) * hour_us - 1;
    taken.requests -= behind;
  }
  return taken;
}

Stretch ReadTimes::within(std::span<const Stretch> taken) const {
  Stretch found;
  for (const auto& [hour, stretch] : hours_)
    if (std::ranges::any_of(taken, [&](const Stretch& one) { return one.holds(stretch.first_us); }))
      add_to(found, stretch);
  return found;
}

}  // namespace weir::proxy::compare
