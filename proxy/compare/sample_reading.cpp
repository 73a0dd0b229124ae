#include "proxy/compare/sample_reading.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "metrics/compare/samples/log_reading.hpp"
#include "proxy/compare/log_files.hpp"

namespace weir::proxy::compare {
namespace {

using metrics::compare::samples::Id;
using metrics::compare::samples::LineKind;
using metrics::compare::samples::Names;
using metrics::compare::samples::Sample;

constexpr std::int64_t spare_us = 3'600'000'000;
constexpr std::uint64_t progress_every = 50'000;

/// The ids of the requests that count.
class Seen {
 public:
  /// Returns whether it had been seen. A request without an id is always new.
  bool before(const Sample& sample) {
    if (sample.id == Id{}) return false;
    return !ids_.insert(sample.id).second;
  }

 private:
  struct Hash {
    std::size_t operator()(const Id& id) const { return id[0] * 0x9e37'79b9'7f4a'7c15 ^ id[1]; }
  };
  std::unordered_set<Id, Hash> ids_;
};

bool was_mirrored(const Sample& sample) { return sample.role == metrics::Role::shadow && sample.drop_reason == 0; }

}  // namespace

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
  read_.last_us = std::max(read_.last_us, sample.received_us);
  if (!wanted(sample)) return true;
  if (read_.samples.size() == most_samples) return false;
  if (!sample.served || !sample.gaps_are_itl) sample.gaps = {};
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
  bool full = false;
  for (const auto& log : logs) {
    auto failure = for_each_line(log, [&](std::string_view line, std::uint64_t number, bool has_newline) {
      if (line.empty() || full) return;
      if (++read.lines % progress_every == 0) on_progress(read.lines);
      Sample sample;
      if (metrics::compare::samples::read_log_line(line, names, sample) == LineKind::request) {
        if ((was_mirrored(sample) || selecting.wanted(sample)) && seen.before(sample)) {
          if (read.repeated++ == 0) read.first_repeated = log + ':' + std::to_string(number);
          return;
        }
        read.mirrored.add(sample);
        full = !selecting.add(std::move(sample));
      } else if (has_newline && read.unread++ == 0) {
        read.first_unread = log + ':' + std::to_string(number);
      }
    });
    if (full) {
      return "more than " + std::to_string(most_samples) +
             " requests match; narrow them down with --from, --to, --pool or --model";
    }
    if (failure) return failure;
  }
  selecting.follow_primaries();
  return std::nullopt;
}

}  // namespace weir::proxy::compare
