// The cost of a load, by prices of tokens or by the price of the replica's time.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>

#include "metrics/wire/json/writer.hpp"

namespace weir::lab::load {

/// Prices are in a currency that the user knows.
struct Prices {
  std::optional<double> in, out;   ///< For a million tokens of prompts and of answers; an absent one is 0.
  std::optional<double> per_hour;  ///< For the replica, or for all of them together.

  bool known() const { return in || out || per_hour; }
};

/// The requests and tokens that the money bought.
struct Bought {
  std::uint64_t requests = 0;  ///< Successful ones.
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  double seconds = 0;
};

struct Cost {
  double per_1000_requests = 0;
  double per_million_tokens = 0;  ///< Prompts and answers.
  double per_million_output_tokens = 0;
};

/// Returns nothing if no price is known, or nothing was bought.
std::optional<Cost> cost_of(const Prices& prices, const Bought& bought);

void print_cost(std::ostream& out, const Cost& cost);
/// Writes the members of an object.
void write_members(metrics::wire::JsonWriter& json, const Cost& cost);

}  // namespace weir::lab::load
