// The requests that wait for a replica, and whose turn it is.
//
// The queue is fair by key with deficit round robin (Shreedhar and Varghese, 1995) in tokens: each key has a flow,
// flows take turns, and in its turn a flow may send what it has credit for. A request costs what is to be computed of
// its prompt and a share of its expected output, and at least `least_cost`, so that nobody waits for a hundred short
// ones. A turn earns `quantum` tokens: 2048, what an unknown prompt is charged, so that a usual request goes in one
// turn and one of 100,000 tokens waits for 49. A key with a share of s earns s quanta a turn. Credit is kept only for
// what waits, and short requests cannot spend credit that was saved for a longer one. Between the push of a request of
// a key with share s and its grant, what any other key with share r gets costs at most
//
//   r / s x what the requests that wait under the request's own key cost, itself included
//   + 2 r quanta + the most costly request,
//
// and in one turn that is at most r quantum / least_cost + 1 requests. What the queue holds of a key when it is full
// does not depend on its share.
//
// Requests that a replica refused as full are a flow of their own, before all turns, in their order.
//
// A request that fits nowhere blocks no other key. In a flow the oldest request that fits goes first; the search ends
// after the oldest `looked_at`, so that a long flow of requests that fit nowhere does not hold the pool's mutex. A
// request that is passed over is noted, since when: see passed().
//
// Keys beyond the first 4096 that wait at the same time share one flow.
//
// push and leave cost O(log n) for n requests; next, push_out and ahead_of go through the flows. next gives a few
// turns a flow, however costly a request is: the rounds in which no request could go are given at once. A Pool
// owns the queue and calls it under its mutex. No clock is read.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "balancer/models.hpp"
#include "balancer/placement.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

/// A request with what its pool estimated when it came.
struct WaitingRequest : PlacementRequest {
  ModelId model = 0;
  Tokens prompt = 0;  ///< As estimated when it came.
  Tokens cached = 0;  ///< Held by the replica that held most of the prompt then. At most the prompt.
  Tokens uncached() const { return prompt - cached; }
  Tokens output_cost = 0;  ///< The expected output counts so much beside the prompt.
  bool prompt_known = true;
  Tokens context = 0;   ///< See Demand.
  Tokens sequence = 0;  ///< See Demand.
  Moment since{};
};

struct QueueFigures {
  std::size_t waiting = 0;
  Tokens waiting_tokens = 0;
  std::size_t waiting_bytes = 0;
  double oldest_seconds = 0;
};

class WaitingQueue {
 public:
  static constexpr Tokens quantum = 2048;
  static constexpr Tokens least_cost = 512;
  static constexpr std::size_t most_keys = 4096;
  static constexpr std::size_t looked_at = 64;

  using Fits = std::function<bool(const WaitingRequest&)>;

  /// Returns the cost of a request to its key.
  static Tokens cost(const WaitingRequest& request);

  WaitingQueue() = default;
  WaitingQueue(const WaitingQueue&) = delete;
  WaitingQueue& operator=(const WaitingQueue&) = delete;

  /// The share of the newest request of a key holds for all of them.
  WaitTicket push(WaitingRequest request);
  /// Takes out a request, wherever it stands. Nothing, if it does not wait.
  std::optional<WaitingRequest> leave(WaitTicket ticket);

  struct Turn {
    WaitTicket ticket;
    const WaitingRequest& request;  ///< Valid until the request is taken out.
  };
  /// Gives turns until a request that fits has its turn, and returns that. Nothing, and no turn given, if none fits.
  /// The turn lasts until the request is taken: the next call returns it again as long as it fits, unless a request
  /// that a replica refused has come.
  std::optional<Turn> next(const Fits& fits, Moment now);
  /// Takes out a request in its turn, as next() has told it.
  WaitingRequest take_in_turn(WaitTicket ticket, Moment now);
  /// Takes out a request before its turn; its flow pays for it.
  WaitingRequest take(WaitTicket ticket);

  enum class Bound : std::uint8_t { requests, bytes };
  /// Takes out the newest request of the key that has most of what is bounded, of equal keys the one with the newest
  /// request. Requests that a replica refused as full go last. There is at least one request.
  std::pair<WaitTicket, WaitingRequest> push_out(Bound bound);

  /// The requests that had their turn while they fitted nowhere and another was taken in their place, and since when.
  /// The longest passed comes first.
  const std::set<std::pair<Moment, WaitTicket>>& passed() const { return passed_; }

  const WaitingRequest* find(WaitTicket ticket) const;
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  Tokens tokens() const { return tokens_; }
  QueueFigures figures(Moment now) const;
  /// Returns the shortest prompt that waits. There is at least one.
  Tokens shortest() const { return *prompts_.begin(); }
  /// Returns about the prompt tokens that are to go until the newest request of that key has its turn, itself included.
  /// Each other key counts by its mean request. Costs some nanoseconds for each key that waits.
  Tokens ahead_of(std::uint64_t key) const;

 private:
  struct Flow;
  struct Entry {
    WaitTicket ticket = 0;
    Flow* flow = nullptr;
    WaitingRequest request;
    std::optional<Moment> passed{};
  };

  struct Flow {
    std::uint64_t key = 0;
    double share = 1;
    std::map<WaitTicket, Entry*> entries;  ///< In the order in which they came.
    Tokens tokens = 0;                     ///< The sum of the prompts.
    Tokens cost = 0;
    std::size_t bytes = 0;
    std::int64_t credit = 0;
    Entry* fitting = nullptr;  ///< As of the look `looked`.
    std::uint64_t looked = 0;

    /// Returns how much of a share of 1 it takes to pay for all that waits.
    double cost_by_share() const { return static_cast<double>(cost) / share; }
    /// Returns what it earns in a turn.
    std::int64_t earns() const;
    /// Returns how many turns it has to earn in before it can pay so much.
    std::int64_t turns_to(std::int64_t price) const;
    /// Returns the request that the flow spends its credit on: its oldest, if none fits.
    Entry& wanted() const { return fitting != nullptr ? *fitting : *entries.begin()->second; }
  };
  using Flows = std::list<Flow>;

  static std::int64_t cost(const Entry& entry);
  Flow& flow_for(const WaitingRequest& request);
  void look(Flow& flow, const Fits& fits);
  void give_rounds_in_vain(Moment now);
  void end_turn();
  void pass_over(Entry& entry, Moment now);
  WaitingRequest take_out(Entry& entry);

  std::map<WaitTicket, Entry> entries_;
  std::multiset<Tokens> prompts_;                             ///< What is to be computed of each.
  Flow front_of_queue_;                                       ///< The requests that a replica refused.
  Flows turns_;                                               ///< Each has a request. The flow in front has the turn.
  std::unordered_map<std::uint64_t, Flows::iterator> flows_;  ///< Those of turns_, by key.
  bool in_turn_ = false;                                      ///< The flow in front has earned its quantum.
  std::set<std::pair<Moment, WaitTicket>> passed_;
  Tokens tokens_ = 0;
  std::size_t bytes_ = 0;
  WaitTicket tickets_ = 0;
  std::uint64_t looks_ = 0;
};

}  // namespace weir::balancer
