// Joins the two sides of a comparison: the answers to one request, or the requests of two configurations that share a
// pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/side_choice.hpp"
#include "metrics/compare/statistics/intervals.hpp"

namespace weir::metrics::compare::pairs {

inline constexpr std::int64_t never_warm = std::numeric_limits<std::int64_t>::max();

/// Returns what the KV cache of a replica holds, by its name and its configuration; nothing if that is not known.
using KvTokens = std::function<std::optional<std::uint64_t>(samples::Names::Name replica, samples::Names::Name config)>;

/// When one side's shadows are warm.
struct Warm {
  std::int64_t from_us = never_warm;
  std::int64_t first_us = never_warm;  ///< The first request of the last of them to begin.
  std::uint64_t kv_tokens = 0;         ///< The tokens that they have to prefill; 0 if unknown, or without a warm-up.
  std::uint64_t prefilled = 0;         ///< The tokens that they have prefilled so far, or by `from_us`.

  bool lacks_tokens() const { return prefilled < kv_tokens; }
};

/// The prompt tokens that shadows were sent, by time, also outside the requests that a comparison looks at. The memory
/// is a number for each minute and each hour of each shadow.
class Mirrored {
 public:
  /// Takes note of a shadow's request that was sent. The order of the samples does not matter.
  void add(const samples::Sample& sample);
  /// The shadow was switched on at this moment: what it was sent before does not warm it.
  void begin_anew(samples::Names::Name shadow, std::int64_t us);
  /// A request of such a moment was never sent. The answer is the same for all moments of an hour.
  void leave_out(const std::function<bool(std::int64_t us)>& is_out);
  /// True for a shadow's request that was sent before the shadow was last switched on: it tells of another candidate.
  bool is_outdated(const samples::Sample& sample) const;

  /// Says when one side's shadows are warm: so many seconds after the first request of the last of them to begin, and
  /// not before the end of the minute in which they had prefilled what their replicas hold together. A replica of which
  /// that is not known is left out of both sums. With 0 seconds every request counts. Of the side's shadows those in
  /// `deciding` count; if it is empty, all do.
  Warm warm(const sides::Selection& side, const std::set<samples::Names::Name>& deciding, double seconds,
            const KvTokens& kv_tokens) const;

 private:
  using Key = std::tuple<samples::Names::Name, samples::Names::Name, samples::Names::Name>;
  struct Shadow {
    std::int64_t first_us = never_warm;
    std::map<std::int64_t, std::int64_t> first_of;    ///< The first dispatch of each hour since 1970.
    std::map<std::int64_t, std::uint64_t> prefilled;  ///< Tokens, by the minute of their dispatch since 1970.
  };
  static bool holds(const sides::Selection& side, const Key& key);

  std::map<samples::Names::Name, std::int64_t> since_;  ///< When a shadow began anew.
  std::map<Key, Shadow> shadows_;                       ///< The key is configuration, replica and [[shadow]].
};

struct WarmUp {
  double seconds = 600;                ///< After a shadow's first request. With 0 every pair counts.
  const Mirrored* mirrored = nullptr;  ///< Null if the samples hold all that the shadows were sent.
  KvTokens kv_tokens{};                ///< Null if nothing is known.
};

enum class Mode : std::uint8_t {
  mirrored,  ///< A primary and a shadow of it.
  control,   ///< Both sides are shadows of the same primary; a runs the primary's own configuration.
  split,     ///< The sides had different requests of one pool.
};
inline constexpr std::array<std::string_view, 3> mode_names{"mirrored", "control", "split"};
constexpr std::string_view name_of(Mode mode) { return mode_names[static_cast<std::size_t>(mode)]; }

/// Two answers to one request.
struct Pair {
  const samples::Sample* a = nullptr;
  const samples::Sample* b = nullptr;
  std::int64_t at_us = 0;                    ///< Its primary was dispatched at this moment.
  const samples::Sample* primary = nullptr;  ///< One of the two, or that of two shadows; null if its line is not there.

  /// Where the primary's line is not there, a's stands for it.
  const samples::Sample& primary_or_a() const { return primary ? *primary : *a; }
};

/// A request that only one side has: the other was not mirrored, or its line is lost.
struct Single {
  const samples::Sample* sample = nullptr;
  std::int64_t at_us = 0;
  const samples::Sample* primary = nullptr;  ///< As in Pair.
};

/// The pointers are into the samples. All lists are in order of time.
struct Pairing {
  Mode mode = Mode::split;
  std::vector<Pair> pairs;             ///< Empty in a split.
  std::vector<Single> only_a, only_b;  ///< In a split, all requests of each side.
  std::uint64_t repeated = 0;          ///< Further answers of one side to the same request; the first one counts.
  /// No pair counts before this moment: the shadows were cold. A split has none.
  std::optional<std::int64_t> warm_us{};
  Warm warm_a{}, warm_b{};  ///< The same of each side that is a shadow.
};

/// Holds any moment.
inline constexpr statistics::Window any_time{std::numeric_limits<std::int64_t>::min(),
                                             std::numeric_limits<std::int64_t>::max()};

/// Joins samples by the primary's id. With a control among the shadows (a shadow that `a` holds as well), b is compared
/// with the control. When a side is warm depends on the shadows that have pairs in the window `asked` for. A candidate
/// and a control that began within a minute of each other are cold alike, and every pair of theirs counts. It takes
/// time n log n. The result does not depend on the order of the samples.
Pairing pair_up(std::span<const samples::Sample> samples, const sides::Selection& a, const sides::Selection& b,
                const WarmUp& warm_up, const statistics::Window& asked = any_time);

/// True if the side was sent the request and answered it as far as its client stayed. `other` is the pair's other
/// answer: what both refuse is answered too.
bool finished(const samples::Sample& side, const samples::Sample& other);

/// True if each replica of one side had the requests of one replica of the other, so that their load was the same. One
/// pair in a hundred may differ.
bool twins(std::span<const Pair> pairs);

// The quantities of a request that are compared, and how long it stood still.

enum class Quantity : std::uint8_t { ttft, tpot, e2e, output_tokens };
inline constexpr std::size_t quantity_count = 4;
inline constexpr std::array<Quantity, quantity_count> quantities{Quantity::ttft, Quantity::tpot, Quantity::e2e,
                                                                 Quantity::output_tokens};

/// Returns a sample's quantity, in seconds or tokens; nothing if it has none.
///
/// All but TTFT are known at an answer's end alone, so the answer has to be whole. TPOT is that of an answer of at
/// least 16 tokens, and E2E that of an answer that was not streamed. An answer without any token counts as one token
/// long.
std::optional<double> value_of(Quantity quantity, const samples::Sample& sample);

/// Returns the seconds for which a request stood still, up to ten: what its wait for the first token, or for an answer
/// that is not streamed, has above the longest usual one, also if the client left before it came; and gaps between its
/// tokens that are longer than 250 ms and than ten times the median of its own gaps. Gaps are right to 0.8 %.
double stalled_s(const samples::Sample& sample, double longest_ttft_s, double longest_e2e_s);

}  // namespace weir::metrics::compare::pairs
