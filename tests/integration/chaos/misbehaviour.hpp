// How a machine of a chaos run treats a request: well, mostly, or in any of the ways in which replicas fail.
//
// The treatment follows from the seed, the request's name and the machine's. So does what the answer says, and no two
// answers say the same: a client can tell from what it got whether it is whole and from one machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/integration/peers/scripted_replica.hpp"
#include "tests/integration/peers/streams.hpp"

namespace weir::chaos {

/// A request whose name ends so has an answer that no system's buffers hold for a client.
inline constexpr std::string_view long_answer = "-long";

/// A well answer of `machine` to the request `id`.
integration::StreamScript script_for(std::uint64_t seed, const std::string& id, const std::string& machine);

class Misbehaving {
 public:
  Misbehaving(std::uint64_t seed, std::string machine) : seed_(seed), machine_(std::move(machine)) {}

  /// While false, every request is treated well.
  void misbehaves(bool does) { misbehaves_ = does; }
  void is_healthy(bool is) { healthy_ = is; }

  /// Treats a request whose head has been read.
  void at_head(integration::Exchange& exchange);
  /// Treats a request that is there, or a probe of /flip.
  void answer(integration::Exchange& exchange);

 private:
  const std::uint64_t seed_;
  const std::string machine_;
  std::atomic<bool> misbehaves_{true}, healthy_{true};
};

}  // namespace weir::chaos
