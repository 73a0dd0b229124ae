// A request as a comparison keeps it. A RequestRecord and its line of the request log give the same sample.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::metrics::compare::samples {

/// Texts of few values, kept once each. 0 is "".
class Names {
 public:
  /// The most different texts from peers; further ones share one name.
  static constexpr std::size_t most_from_peers = 10'000;
  using Name = std::uint32_t;
  Names() = default;
  Names(const Names& other) : from_peers_(other.from_peers_) {
    for (const auto* const text : other.texts_) of(*text);
  }
  Names& operator=(const Names&) = delete;

  /// `text` is weir's own or out of its settings.
  Name of(std::string_view text);
  /// `text` is a client's or a replica's, as a model's name is.
  Name of_peer(std::string_view text);
  std::string_view text(Name name) const { return *texts_[name]; }

 private:
  std::map<std::string, Name, std::less<>> names_{{"", 0}};
  std::vector<const std::string*> texts_{&names_.begin()->first};
  std::size_t from_peers_ = 0;
};

/// A figure that is not known.
inline constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
inline constexpr std::uint32_t unknown_count = std::numeric_limits<std::uint32_t>::max();

/// 128 bits of a request's id; zeros if it has none, or one that is no 32 hex digits.
using Id = std::array<std::uint64_t, 2>;
Id id_of(std::string_view hex);

/// Times are in seconds. The figures are those of record::Figures.
struct Sample {
  std::int64_t received_us = 0;    ///< The wall clock at t0, in microseconds since 1970.
  std::int64_t dispatched_us = 0;  ///< The wall clock at tS; t0 if it was never sent.
  Id id{}, pair{};                 ///< With Role::shadow, `pair` is the primary's id.
  Names::Name pool = 0, replica = 0, config = 0, model = 0, shadow = 0, drop_reason = 0, finish_reason = 0;
  Role role = Role::primary;
  Outcome outcome = Outcome::ok;
  Api api = Api::other;
  bool stream = false, greedy = false, served = false;
  bool gaps_are_itl = false;  ///< `gaps` are between tokens, one by one. Else they are between chunks.
  /// -1 is unknown, 0 false, 1 true.
  std::int8_t same_text = -1, same_tools = -1, valid_tools = -1, primary_valid_tools = -1;
  std::uint16_t status = 0;
  std::uint32_t turn = 0;   ///< 0 is unknown.
  std::uint64_t group = 0;  ///< The conversation (`group` of the log). 0 is unknown.
  std::uint32_t prompt_tokens = unknown_count, cached_tokens = unknown_count, output_tokens = unknown_count;
  std::uint32_t reasoning_tokens = unknown_count;  ///< Some of the output tokens.
  std::uint32_t prompt_chars = unknown_count, output_chars = unknown_count, common_prefix_bytes = unknown_count;
  float ttft = unknown, ttft_client = unknown, tpot = unknown, e2e = unknown;
  float lasted = unknown;  ///< From t0 to the end for the client, whatever the outcome.
  float in_flight_mean = unknown;
  std::uint32_t in_flight_at_start = unknown_count;
  std::vector<record::GapSketch::Bin> gaps;
};

/// Makes a sample of a record. It allocates for the gaps and for names that are new.
Sample sample_of(const record::RequestRecord& record, Names& names);

/// A log may hold any number. No request lasts longer than a week, and what does is a mistake.
inline constexpr double longest_s = 7 * 86400;
/// Returns microseconds, up to those of longest_s; NaN is 0.
std::int64_t microseconds_of(double seconds);

/// Returns the earliest dispatch, in microseconds since 1970; 0 without samples.
std::int64_t first_moment(std::span<const Sample> samples);
/// Returns the latest end; 0 without samples.
std::int64_t last_moment(std::span<const Sample> samples);

// Judges samples by the thresholds of an objective, as record/request_record.hpp does records.

/// From where waiting is counted. A shadow has no client, and what a request waited in weir before it was sent belongs
/// to neither configuration. So pairs are judged from the dispatch (tS): `ttft_client` then limits ttft, and `e2e` the
/// time from the dispatch. Requests that all had clients are judged from their arrival (t0), as the metrics are.
enum class Since : std::uint8_t { arrival, dispatch };

enum class Attainment : std::uint8_t {
  met,
  missed,      ///< A threshold was missed, or the replica or weir failed the request, or a shadow was dropped.
  no_figure,   ///< Served, but no threshold applies: TTFT and TPOT need a stream with tokens.
  left_early,  ///< The client left before a threshold had passed.
  refused,     ///< The request itself was wrong (bad_request, client_error).
};

/// If the client left, it counts what had been waited by then. Only met and missed count in a side's attainment.
Attainment judge(const config::Slo& slo, const Sample& sample, Since since);

/// The objective by which a report's tables judge requests, if there is one.
struct Objective {
  std::optional<config::Slo> slo;
  Since since = Since::arrival;

  /// Returns nothing for a request that does not count in the attainment.
  std::optional<bool> met(const Sample& sample) const {
    if (!slo) return std::nullopt;
    const auto attainment = judge(*slo, sample, since);
    if (attainment != Attainment::met && attainment != Attainment::missed) return std::nullopt;
    return attainment == Attainment::met;
  }
};

/// Whether the two answers of one pair met the objective.
struct PairAttainment {
  bool a = false, b = false;
};

/// Returns nothing if the pair tells nothing: no threshold applies to either, both were refused, or a client left
/// early. What one side refused and the other served is that side's miss. Where no threshold applies to one side alone,
/// a short answer has met the objective, and an empty one has not.
std::optional<PairAttainment> judge_pair(const config::Slo& slo, const Sample& a, const Sample& b);

}  // namespace weir::metrics::compare::samples
