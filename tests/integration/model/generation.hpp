// Draws scripts, and makes those that fail shorter.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/integration/model/operation.hpp"

namespace weir::model {

/// How the playing of a script ended.
struct Played {
  std::string failure;    ///< "" if all held; else begins with the invariant's number: "I1: ...".
  std::size_t steps = 0;  ///< The steps played: later ones have no part in a failure.
};
using Play = std::function<Played(const Script&)>;

struct Drawn {
  Script script;
  std::string failure;  ///< "" if all held.
  Script shortest;      ///< Fails in the same invariant.
  std::string shortest_failure;
  std::size_t tries = 0;
};

/// Which failures are made shorter, and how long that may take.
struct Shortens {
  std::function<bool(const std::string& invariant)> wanted;
  std::chrono::seconds at_most;
};

/// Draws the `number`-th script of a seed, plays it and shortens it if it fails.
Drawn draw_and_play(std::uint64_t seed, std::uint64_t number, const Play& play, const Shortens& shortens);

}  // namespace weir::model
