// Joins the two sides of a comparison: the answers to one request, or the requests of two configurations that share a
// pool.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/compare/pairs/warm_up.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/selection.hpp"
#include "metrics/compare/statistics/window.hpp"

namespace weir::metrics::compare::pairs {

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

}  // namespace weir::metrics::compare::pairs
