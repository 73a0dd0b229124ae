// Other routers in weir's place, as rules in simulated time: the rules by which they choose a replica, and nothing of
// their I/O. A peer knows at once which replicas are down.
//
// The rules are written after the peers' sources (2025 to 2026) and run with their defaults.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/plan/timeline.hpp"
#include "lab/plan/traffic.hpp"

namespace weir::lab::plan {

enum class Peer : std::uint8_t {
  /// sglang-router 0.3.2 `cache_aware`: where the numbers of requests differ by more than 64 and by half, the replica
  /// with the fewest; else the one that had the longest beginning of the text, if that is more than 0.3 of it; else the
  /// one whose tree is smallest. Trees lose what was used longest ago every 120 s, beyond 2^26 characters.
  cache_aware,
  /// Consistent hashing of the session with bounded load (Mirrokni, Thorup, Zadimoghaddam 2018): the next replica on
  /// the ring that has fewer than 1.25 times the mean of requests.
  bounded_hash,
  /// The replica that had the session before; a new session goes to the one with the fewest requests.
  sticky,
  /// llm-d-router of August 2026: of the replicas that are believed to have at least 0.8 of the prompt, or of all if
  /// there are none, the one with the fewest uncached tokens in flight and to come. A replica is believed to have the
  /// last blocks of 64 tokens that it was sent, as many as fit into its KV cache.
  token_load,
  /// No router: it knows all engines, their caches and the lengths of answers, and takes the engine where the sum of
  /// all requests' times grows least (outlook.hpp). It does not know the requests to come.
  oracle,
};

inline constexpr std::array<std::pair<std::string_view, Peer>, 5> peer_words{{{"cache_aware", Peer::cache_aware},
                                                                               {"bounded_hash", Peer::bounded_hash},
                                                                               {"sticky", Peer::sticky},
                                                                               {"token_load", Peer::token_load},
                                                                               {"oracle", Peer::oracle}}};

/// A router's view of the replicas when a request comes.
struct Fleet {
  double now = 0;
  std::span<const std::size_t> candidates;   ///< Replicas that are up and have not refused the request; at least one.
  std::span<const std::uint32_t> in_flight;  ///< Requests at each replica.
  /// Only the oracle looks at the engines.
  std::function<const TimedEngine&(std::size_t replica)> engine;
};

class Router {
 public:
  virtual ~Router() = default;
  /// Returns one of the candidates. `i` names the request.
  virtual std::size_t choose(std::size_t i, const TracedRequest& request, const Fleet& fleet) = 0;
  virtual void first_token(std::size_t /*i*/) {}
  /// Says that the replica's work for the request is over, also if it failed.
  virtual void ended(std::size_t /*i*/) {}
};

/// `engines` are all that there will ever be.
std::unique_ptr<Router> make_router(Peer peer, std::span<const engine::EngineSettings> engines);

}  // namespace weir::lab::plan
