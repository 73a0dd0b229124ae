// Findings: something wrong that weir can name, with who it is about and since when. Rules look at the figures of one
// second and say of whom they hold; this machine makes findings of that. It reads no clock.
//
// A finding begins when its rule has held for `Rule::begins_after` without a break, and ends when the rule has been on
// the good side of its second threshold for `ends_after`, or on that side or unknown for `forgotten_after`. So for each
// rule and name, findings begin at least begins_after + ends_after apart, whatever the figures do.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/table_reader.hpp"
#include "proxy/live/now.hpp"

namespace weir::proxy::live {

enum class Severity : std::uint8_t { warning, critical };
constexpr std::string_view name_of(Severity severity) {
  return severity == Severity::critical ? "critical" : "warning";
}

/// A rule's word about one name in one second.
enum class Sign : std::uint8_t {
  bad,      ///< Beyond the first threshold.
  between,  ///< Not beyond the first, nor on the good side of the second.
  fine,
  unknown,  ///< The figure is not known.
};

struct Case {
  std::string who;
  Sign sign = Sign::fine;
  std::string text{};  ///< A sentence with the present figures; needed where the sign is bad or between.
  Severity severity = Severity::warning;
};

struct Rule {
  std::string_view what;  ///< docs/guides/alerts.md has a section of this name.
  std::string_view who;   ///< The kind of thing that it is about.
  config::About about;    ///< When it begins, but for `begins_after`.
  std::chrono::seconds begins_after;
  /// Adds a case for each name that the rule can judge. A name without one is fine.
  void (*look)(const Now& now, std::vector<Case>& cases);
};

struct Finding {
  std::string_view what;
  std::string who;
  Severity severity = Severity::warning;
  Wall since{};       ///< The rule has held since then.
  std::string text;   ///< With the figures of the last second in which they were not fine.
  Moment since_at{};  ///< The same moment as `since`.
};

class Findings {
 public:
  static constexpr std::chrono::seconds ends_after{20}, forgotten_after{120};

  explicit Findings(std::span<const Rule> rules) : rules_(rules) {}

  struct Change {
    bool begins;  ///< Or else it is over.
    Finding finding;
  };
  /// Takes the figures of one second. Returns what has begun and what is over.
  std::vector<Change> tick(const Now& now);
  /// Returns the findings that stand, the critical ones first, then those that have stood longest.
  std::vector<Finding> standing() const;

 private:
  struct State {
    Finding finding;
    bool stands = false;
    std::optional<Moment> good_since;    ///< On the good side since then.
    std::optional<Moment> unheld_since;  ///< On the good side or unknown since then.
  };
  using Who = std::pair<std::string_view, std::string>;  ///< What and who.

  bool moves(State& state, const Rule& rule, const Case& one, const Now& now);

  std::span<const Rule> rules_;
  std::map<Who, State> states_;  ///< Of what is bad, or was lately.
};

// The rules of findings: pure functions of one second's figures. docs/reference/api.md has them as a table.

std::span<const Rule> rules();

// How each replica compares with those of its kind. Pure.

/// Sets each replica's figures by those of its peers: replicas of its pool that are up and of the same `gpu`, `weight`
/// and `config`. To be compared, each needs so many observations in the last seconds.
inline constexpr double least_gaps = 20, least_ttfts = 15;
/// The gaps of a replica are known while at most this share of its streams is coalesced.
inline constexpr double most_coalesced = 0.3;
void compare_with_peers(std::vector<ReplicaNow>& replicas);

}  // namespace weir::proxy::live
