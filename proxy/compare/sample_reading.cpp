#include "proxy/compare/sample_reading.hpp"

#include <algorithm>
#include <utility>

#include "metrics/compare/log_reading.hpp"
#include "proxy/compare/log_files.hpp"

namespace weir::proxy::compare {
namespace {

using metrics::compare::Id;
using metrics::compare::LineKind;
using metrics::compare::Names;
using metrics::compare::Sample;

constexpr std::int64_t spare_us = 3'600'000'000;
constexpr std::uint64_t progress_every = 50'000;

class Reader {
 public:
  Reader(const Filter& filter, Names& names, const OnProgress& on_progress, ReadSamples& read)
      : filter_(filter), names_(names), on_progress_(on_progress), read_(read) {}

  std::optional<std::string> read(const std::string& log) {
    auto failure = for_each_line(log, [&](std::string_view line, std::uint64_t number, bool has_newline) {
      if (line.empty() || full_) return;
      if (++read_.lines % progress_every == 0) on_progress_(read_.lines);
      Sample sample;
      if (metrics::compare::read_log_line(line, names_, sample) == LineKind::request) {
        add(std::move(sample));
      } else if (has_newline && read_.unread++ == 0) {
        read_.first_unread = log + ':' + std::to_string(number);
      }
    });
    if (full_) {
      return "more than " + std::to_string(most_samples) +
             " requests match; narrow them down with --from, --to, --pool or --model";
    }
    return failure;
  }

  /// Drops the shadows' requests whose primary was not kept.
  void follow_primaries() {
    if (!about_primaries()) return;
    std::vector<Id> kept;
    for (const auto& sample : read_.samples) {
      if (sample.role == Role::primary) kept.push_back(sample.id);
    }
    std::ranges::sort(kept);
    std::erase_if(read_.samples, [&](const Sample& sample) {
      return sample.role == Role::shadow && !std::ranges::binary_search(kept, sample.pair);
    });
  }

 private:
  using Role = metrics::Role;

  bool about_primaries() const { return !filter_.pool.empty() || !filter_.model.empty() || filter_.prompt_tokens; }

  bool wanted(const Sample& sample) const {
    if (filter_.from_us && sample.dispatched_us < *filter_.from_us - spare_us) return false;
    if (filter_.to_us && sample.received_us > *filter_.to_us + spare_us) return false;
    if (sample.role == Role::shadow) return true;
    if (!filter_.pool.empty() && names_.text(sample.pool) != filter_.pool) return false;
    if (!filter_.model.empty() && names_.text(sample.model) != filter_.model) return false;
    const auto& range = filter_.prompt_tokens;
    return !range || (sample.prompt_tokens >= range->low && sample.prompt_tokens <= range->high);
  }

  void add(Sample sample) {
    read_.last_us = std::max(read_.last_us, sample.received_us);
    if (sample.role == Role::shadow && sample.drop_reason == 0) {
      const std::tuple key(sample.config, sample.replica, sample.shadow);
      const auto [first, added] = read_.first_mirrored.emplace(key, sample.dispatched_us);
      if (!added) first->second = std::min(first->second, sample.dispatched_us);
    }
    if (!wanted(sample)) return;
    if (read_.samples.size() == most_samples) {
      full_ = true;
      return;
    }
    if (!sample.served || !sample.gaps_are_itl) sample.gaps = {};
    read_.samples.push_back(std::move(sample));
  }

  const Filter& filter_;
  Names& names_;
  const OnProgress& on_progress_;
  ReadSamples& read_;
  bool full_ = false;
};

}  // namespace

std::optional<std::string> read_samples(const std::vector<std::string>& logs, const Filter& filter, Names& names,
                                        const OnProgress& on_progress, ReadSamples& read) {
  Reader reader(filter, names, on_progress, read);
  for (const auto& log : logs) {
    if (auto failure = reader.read(log)) return failure;
  }
  reader.follow_primaries();
  return std::nullopt;
}

}  // namespace weir::proxy::compare
