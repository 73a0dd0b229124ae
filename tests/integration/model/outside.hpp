// The things that last from one sequence to the next, because its start takes time, and what a run adds up.
#pragma once

#include <array>
#include <cstddef>
#include <map>

#include "tests/integration/model/operation.hpp"
#include "tests/integration/peers/dns_server.hpp"
#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/still_streams.hpp"

namespace weir::model {

struct Outside {
  integration::DnsServer dns;
  /// The pool "simulated" has them, for requests whose length tells how long they take, and for processes to stop.
  std::array<integration::SimulatedReplica, 2> processes{
      integration::SimulatedReplica({"--model", "s", "--step-ms", "5"}),
      integration::SimulatedReplica({"--model", "s", "--step-ms", "5"})};
  integration::StillReplica still;  ///< The pool "flooded" has it.

  struct Times {
    std::size_t ran = 0, with_effect = 0;
  };
  std::map<Verb, Times> verbs;
  std::size_t told_to_return = 0, served_then = 0;  ///< Clients that were told when to come back, and did.
};

}  // namespace weir::model
