// Faults of answers, whatever their times; misses of an objective; and calls of tools.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "config/settings.hpp"
#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/statistics/intervals.hpp"

namespace weir::metrics::compare::pairs {

enum class Fault : std::uint8_t {
  failed,       ///< An error, a broken connection, a time-out, or a refusal where the other side answered.
  empty,        ///< A whole answer without a token.
  length,       ///< A whole answer that ends at its limit of tokens.
  tools,        ///< No valid call, of the pairs in which an answer calls a tool.
  slo,          ///< A miss of the objective.
  calls,        ///< An answer that calls a tool. No fault: it tells whether answers are the same, as the next does.
  other_calls,  ///< A call that is another than the primary's.
};
inline constexpr std::size_t fault_count = 7;
inline constexpr std::size_t judged_faults = 5;  ///< The first of them: `calls` and `other_calls` have no verdict.
inline constexpr std::array<std::string_view, fault_count> fault_names{"failed", "empty", "length",     "tools",
                                                                       "slo",    "calls", "other_calls"};
constexpr std::string_view name_of(Fault fault) { return fault_names[static_cast<std::size_t>(fault)]; }

/// Whether each side has a fault; nothing where the answers do not tell.
struct Had {
  bool a = false, b = false;
};
using FaultsOfPair = std::array<std::optional<Had>, fault_count>;
FaultsOfPair faults_of(const Pair& pair, bool control, const samples::Names& names,
                       const std::optional<config::Slo>& slo);

/// The same of one request, of which no other tells: tools and refusals are not known.
std::array<std::optional<bool>, fault_count> faults_of(const samples::Sample& sample, const samples::Names& names,
                                                       const std::optional<config::Slo>& slo);

/// True if the answer ends with a call. OpenAI says tool_calls, or function_call of old; Anthropic says tool_use.
inline bool calls_tools(const samples::Sample& sample, const samples::Names& names) {
  static constexpr std::array<std::string_view, 3> reasons{"tool_calls", "function_call", "tool_use"};
  return std::ranges::find(reasons, names.text(sample.finish_reason)) != reasons.end();
}

/// Whether each side calls tools, and with valid arguments; -1 is unknown, also where no answer calls any.
struct ValidTools {
  std::int8_t a = -1, b = -1;
  bool known() const { return a >= 0 && b >= 0; }
};

/// A shadow's sample tells of its primary, too.
inline ValidTools valid_tools(const Pair& pair) {
  const auto of = [](const samples::Sample& side, const samples::Sample& other) {
    return side.role == Role::shadow ? side.valid_tools : other.primary_valid_tools;
  };
  return {of(*pair.a, *pair.b), of(*pair.b, *pair.a)};
}

// The answers of one side, in order of the requests they are to.

/// Returns what two answers to one request have in common: the primary's id. Zeros are no id.
inline const samples::Id& key_of(const samples::Sample& sample) {
  return sample.role == Role::primary ? sample.id : sample.pair;
}

/// Answers are added, then settled, then read. The samples outlive them.
class Answers {
 public:
  void add(const samples::Sample& sample) {
    if (const samples::Id& key = key_of(sample); key != samples::Id{}) entries_.push_back({key, &sample});
  }

  /// Sorts by key and keeps the first answer of each. Returns how many others there were.
  std::uint64_t settle() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& x, const Entry& y) {
      if (x.key != y.key) return x.key < y.key;
      return std::tie(x.sample->received_us, x.sample->id) < std::tie(y.sample->received_us, y.sample->id);
    });
    const auto same_key = [](const Entry& x, const Entry& y) { return x.key == y.key; };
    const auto last = std::unique(entries_.begin(), entries_.end(), same_key);
    const auto repeated = static_cast<std::uint64_t>(entries_.end() - last);
    entries_.erase(last, entries_.end());
    return repeated;
  }

  /// Returns nullptr if there is none.
  const samples::Sample* find(const samples::Id& key) const {
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), key,
                                     [](const Entry& entry, const samples::Id& id) { return entry.key < id; });
    return at != entries_.end() && at->key == key ? at->sample : nullptr;
  }

  template <class Visit>
  void each(Visit visit) const {
    for (const Entry& entry : entries_) visit(*entry.sample);
  }

  /// Calls one of the three for each key that both, only this or only `other` have, in order of the keys.
  template <class Both, class OnlyThis, class OnlyOther>
  void join(const Answers& other, Both both, OnlyThis only_this, OnlyOther only_other) const {
    auto x = entries_.begin(), y = other.entries_.begin();
    while (x != entries_.end() || y != other.entries_.end()) {
      if (y == other.entries_.end() || (x != entries_.end() && x->key < y->key)) {
        only_this(*x++->sample);
      } else if (x == entries_.end() || y->key < x->key) {
        only_other(*y++->sample);
      } else {
        both(*x++->sample, *y++->sample);
      }
    }
  }

 private:
  struct Entry {
    samples::Id key;  ///< Kept here as well, because sorting by what lies all over the memory is slow.
    const samples::Sample* sample;
  };
  std::vector<Entry> entries_;
};

// Whether two sides still give the same answers to greedy requests.
//
// Even one configuration does not repeat itself exactly: batches change the order of sums. So a control, a second
// shadow with the primary's configuration, shows how soon answers part by themselves. Of each request that the primary,
// the control and the candidate answered, the question is who leaves the primary's text first. The length of the answer
// and how easily the prompt goes astray cancel, because both were given the same; so the number of times that the
// candidate was first, over that of the control, estimates the ratio of their hazards without bias.

enum class Alike : std::uint8_t { same, differs, unknown };
inline constexpr std::array<std::string_view, 3> alike_names{"same", "differs", "unknown"};
constexpr std::string_view name_of(Alike alike) { return alike_names[static_cast<std::size_t>(alike)]; }

/// How one side's greedy answers leave the primary's text.
struct Leaving {
  std::uint64_t requests = 0;  ///< Answers that differ from the primary's.
  std::uint64_t at_start = 0;  ///< Those that differ within the first 64 bytes.
  double tokens = 0;           ///< Tokens that were the primary's, before that or to the end.

  std::optional<double> per_thousand_tokens() const;
};

struct Sameness {
  /// Greedy requests that both sides answered and whose text could be compared with the primary's. A prompt that comes
  /// again is not counted again, because a side's cache may repeat its answer as well.
  std::uint64_t compared = 0;
  std::uint64_t repeated = 0;  ///< Those that came again.
  /// Without a control the primary itself stands for a, and leaves nothing.
  bool control = false;
  std::uint64_t first_a = 0, first_b = 0;  ///< The side left the primary's text alone, or at an earlier checkpoint.
  std::uint64_t at_start_a = 0, at_start_b = 0;  ///< That side alone differs within the first 64 bytes.
  Leaving a, b;
  std::unordered_set<std::uint64_t> prompts;  ///< Those that came, up to most_prompts.
  static constexpr std::size_t most_prompts = 100'000;

  /// Adds pairs, which are in order of time.
  void add(std::span<const Pair> pairs, bool with_control);
  /// first_b over first_a.
  std::optional<double> hazard_ratio() const;
  /// Evidence of three claims: b leaves first more often than a; less than 1.5 times as often and 0.5 % of the
  /// requests; and b differs from its start more often than a. Without a control there is none.
  double differs() const;
  double alike() const;
  double from_start() const;
};

// Whether two answers to one request say the same.

/// Pairs by a property that each of the two answers has or has not.
struct TwoByTwo {
  std::uint64_t both = 0, only_a = 0, only_b = 0, neither = 0;
  void add(bool a, bool b) { ++(a ? (b ? both : only_a) : (b ? only_b : neither)); }
  void add(const TwoByTwo& others) {
    both += others.both;
    only_a += others.only_a;
    only_b += others.only_b;
    neither += others.neither;
  }
  std::uint64_t count() const { return both + only_a + only_b + neither; }
};

/// So many of those that could be compared are the same.
struct Same {
  std::uint64_t same = 0, compared = 0;
  void add(bool equal) {
    ++compared;
    same += equal;
  }
};

/// How a shadow's text is like that of its primary. Equal text means something for greedy requests alone, and only they
/// are counted.
struct TextLikeness {
  Same text;
  std::optional<double> common_prefix_bytes{};  ///< The median.
};

struct Divergence {
  Same status, finish_reason, prompt_tokens;
  Same tools;           ///< Both call the same tools with the same arguments; only where one calls any.
  TwoByTwo tool_calls;  ///< Answers that end with a call of tools.
  /// Answers whose calls all have arguments that are JSON, of the pairs in which one calls any.
  TwoByTwo valid_tools;
  /// The likeness of each side that is a shadow. A control's says how far the primary's own configuration differs from
  /// itself.
  TextLikeness text_a, text_b;
  double prompt_tokens_differ = 0;  ///< The sum of differences in prompt tokens, over a's prompt tokens.
};

Divergence divergence_of(std::span<const Pair> pairs, const samples::Names& names);

}  // namespace weir::metrics::compare::pairs
