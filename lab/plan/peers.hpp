// Other routers in weir's place, as rules in simulated time: the rules by which they choose a replica, and nothing of
// their I/O. A peer knows at once which replicas are down.
//
// The rules are written after the peers' sources (2025 to 2026) and run with their defaults.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/engine/engine_model.hpp"
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
  /// all requests' times grows least (Outlook). It does not know the requests to come.
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

// When the sequences of an engine will end, if no others come: the engine model played forward without jitter.
//
// An outlook follows the continuous scheduler step by step while prompts are computed. A stretch in which sequences
// only decode is one sum, up to the next end. A sequence that waits finds what its engine will have computed by then
// for the sequence before it that begins most alike.
//
// Three things are left out: drafts; memory that several sequences share, which counts as free when the first of them
// ends; and what is overwritten between now and a sequence's admission.

/// The prompt tokens that a sequence finds computed when the engine admits the sequence.
struct Finds {
  std::uint64_t tokens = 0;                   ///< Prompt tokens that are there now.
  std::optional<engine::SequenceId> ahead{};  ///< The sequence in the engine that begins most alike,
  std::uint64_t common = 0;                   ///< for so many tokens.
};

/// Returns what a sequence would find on an engine that gets it now. Costs time linear in the engine's sequences and in
/// the prompt's blocks.
Finds finds(const engine::EngineModel& model, const engine::Sequence& sequence);

class Outlook {
 public:
  /// `finds_of(id)` says what a waiting sequence will find.
  template <class FindsOf>
  Outlook(const TimedEngine& engine, double now, const FindsOf& finds_of) : Outlook(engine, now) {
    for (const auto& standing : engine.model().standing()) {
      if (standing.admitted) {
        add_running(standing);
      } else {
        add(*standing.sequence, finds_of(standing.sequence->id));
      }
    }
  }
  /// Adds a sequence that comes now.
  void add(const engine::Sequence& sequence, const Finds& finds);
  /// Returns the sum over all sequences of the seconds from now to their ends; `never` if the engine hangs.
  double sum_of_times() const;

 private:
  struct Entry {
    engine::SequenceId id = 0;
    std::uint64_t prompt = 0, output = 0, prefilled = 0, produced = 0;
    std::uint64_t own = 0;  ///< Tokens of memory that nobody else uses.
    Finds finds{};          ///< Of a sequence that waits.
    std::optional<std::size_t> ahead{};
  };
  class Play;

  Outlook(const TimedEngine& engine, double now);
  void add_running(const engine::EngineModel::Standing& standing);

  const engine::EngineSettings& settings_;
  double pace_ = 1;
  double begins_ = 0;  ///< Seconds from now until the next step.
  std::uint64_t reserved_ = 0;
  std::vector<Entry> entries_;  ///< In the order of their admission, past and future.
  std::size_t admitted_ = 0;
};

}  // namespace weir::lab::plan
