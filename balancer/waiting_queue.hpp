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
// A request that fits nowhere blocks no other. In a flow the oldest that fits goes first. To find it without a look at
// all, the requests of a flow stand in groups: those of one group may go to the same replicas and are of about the same
// size (by a factor of two). Where a prompt fits, a shorter one of its group does. So two of each group are looked at:
// the oldest, and the shortest if that does not fit. The shortest may then go before an older one that fits, too, and
// is less than twice as long. A request that is passed over like that is noted, since when: see passed().
//
// Keys beyond the first 4096 that wait at the same time share one flow.
//
// push, leave and what is pushed out cost O(log n) for n requests. next looks at each group once and gives no more than
// three turns a flow, however costly a request is: the rounds in which nobody could go are given at once. A Pool owns
// the queue and calls it under its mutex. No clock is read.
//
// Only push and regroup allocate. Where memory fails, they throw std::bad_alloc and have changed nothing. An entry is a
// member of its lists by hooks of its own, so that whatever takes requests out neither allocates nor fails.
#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "balancer/model_list.hpp"
#include "balancer/placement.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::balancer {

struct WaitingRequest {
  std::uint64_t key = 0;
  Caller caller;
  ModelId model = 0;
  double share = 1;        ///< The key's. What its newest request says holds for all of them.
  Tokens prompt = 0;       ///< As estimated when it came.
  Tokens cached = 0;       ///< Held by the replica that held most of the prompt then. At most the prompt.
  ReplicaIndex home = 0;   ///< That replica.
  Tokens uncached() const { return prompt - cached; }
  Tokens output_cost = 0;  ///< The expected output counts so much beside the prompt.
  bool prompt_known = true;
  Tokens context = 0;   ///< See Demand.
  Tokens sequence = 0;  ///< See Demand.
  /// Requests of one fit find the same replicas long enough for them, and in whose lists their model is.
  struct Fit {
    std::size_t context = 0, sequence = 0, listed = 0;
    std::uint64_t tie = 0;  ///< The home that they wait for, or the name of the state there; 1 if they seek it.
    // clang-tidy takes the 0 of a comparison that it rewrites for a pointer.
    auto operator<=>(const Fit&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  Fit fit{};
  std::size_t bytes = 0;
  std::uint64_t lot = 0;  ///< See PlacementRequest.
  Ties ties{};
  bool front_of_queue = false;
  Moment since{}, deadline{};
  std::vector<Serial> tried;  ///< The replicas that had it, in order.
  std::shared_ptr<const metrics::wire::RequestFacts> facts;
  std::shared_ptr<const metrics::wire::PromptPrefix> prefix;  ///< Null: nothing is known of what replicas hold.
  std::shared_ptr<void> waiter;
};

class WaitingQueue {
 public:
  static constexpr Tokens quantum = 2048;
  static constexpr Tokens least_cost = 512;
  static constexpr std::size_t most_keys = 4096;

  using Fits = std::function<bool(const WaitingRequest&)>;

  /// Returns the cost of a request to its key.
  static Tokens cost(const WaitingRequest& request);

  WaitingQueue() = default;
  WaitingQueue(const WaitingQueue&) = delete;
  WaitingQueue& operator=(const WaitingQueue&) = delete;
  ~WaitingQueue();

  WaitTicket push(WaitingRequest request);
  /// Takes out a request, wherever it stands. Nothing, if it does not wait.
  std::optional<WaitingRequest> leave(WaitTicket ticket) noexcept;

  /// Has the fits of all requests told anew, because replicas have changed. Throws what `fit_of` throws, too, and has
  /// changed nothing then.
  void regroup(const std::function<WaitingRequest::Fit(const WaitingRequest&)>& fit_of);

  struct Turn {
    WaitTicket ticket;
    const WaitingRequest& request;  ///< Valid until the request is taken out.
  };
  /// Gives turns until a request that fits has its turn, and returns that. Nothing, and no turn given, if none fits.
  /// The turn lasts until the request is taken: the next call returns it again as long as it fits, unless a request
  /// that a replica refused has come. Throws what `fits` throws; nothing has changed then.
  std::optional<Turn> next(const Fits& fits, Moment now);
  /// Takes out a request in its turn, as next() has told it.
  WaitingRequest take_in_turn(WaitTicket ticket, Moment now) noexcept;
  /// Takes out a request before its turn; its flow pays for it.
  WaitingRequest take(WaitTicket ticket) noexcept;

  enum class Bound : std::uint8_t { requests, bytes };
  /// Takes out the newest request of the key that has most of what is bounded, of equal keys the one with the newest
  /// request. Requests that a replica refused as full go last. There is at least one request.
  std::pair<WaitTicket, WaitingRequest> push_out(Bound bound) noexcept;

  /// A request that had its turn while it fitted nowhere and another was taken in its place, and since when.
  struct Passed : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    WaitTicket ticket = 0;
    Moment since{};
  };
  using PassedList = boost::intrusive::list<Passed, boost::intrusive::constant_time_size<false>>;
  /// The longest passed comes first.
  const PassedList& passed() const { return passed_; }

  const WaitingRequest* find(WaitTicket ticket) const;
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  Tokens tokens() const { return tokens_; }
  std::size_t bytes() const { return bytes_; }
  std::optional<Moment> oldest() const;
  /// Returns how many turns all calls of next have given one by one.
  std::uint64_t turns_given() const { return turns_given_; }
  /// Returns the shortest prompt that waits. There is at least one.
  Tokens shortest() const;
  /// Returns about the prompt tokens that are to go until the newest request of that key has its turn, itself included.
  /// Of each other key it takes the mean request. Costs some nanoseconds for each key that waits.
  Tokens ahead_of(std::uint64_t key) const;

 private:
  struct Entry;
  struct Flow;

  template <class Tag>
  using ListHook =
      boost::intrusive::list_base_hook<boost::intrusive::tag<Tag>,
                                       boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  template <class Tag>
  using TreeHook =
      boost::intrusive::set_base_hook<boost::intrusive::tag<Tag>,
                                      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  template <class Member, class Tag>
  using List = boost::intrusive::list<Member, boost::intrusive::base_hook<ListHook<Tag>>,
                                      boost::intrusive::constant_time_size<false>>;
  /// In the order of Key()(member).
  template <class Member, class Tag, class Key>
  using Tree = boost::intrusive::set<Member, boost::intrusive::base_hook<TreeHook<Tag>>,
                                     boost::intrusive::key_of_value<Key>,
                                     boost::intrusive::constant_time_size<false>>;

  struct Ticket {
    using type = WaitTicket;
    type operator()(const Entry& entry) const;
  };
  struct Size {
    using type = std::pair<Tokens, WaitTicket>;
    type operator()(const Entry& entry) const;
  };
  struct Key {
    using type = std::uint64_t;
    type operator()(const Flow& flow) const;
  };
  /// Flows in this order: the last one's newest request is pushed out.
  using Length = std::pair<std::size_t, WaitTicket>;
  struct Requests {
    using type = Length;
    type operator()(const Flow& flow) const;
  };
  struct Bytes {
    using type = Length;
    type operator()(const Flow& flow) const;
  };
  struct InFlow {};
  struct InGroup {};
  struct InGroupBySize {};
  struct InTurns {};

  using GroupKey =
      std::tuple<std::vector<Serial>, WaitingRequest::Fit, int, int, ReplicaIndex, std::uint64_t>;
  struct Group {
    Tree<Entry, InGroup, Ticket> by_age;
    Tree<Entry, InGroupBySize, Size> by_prompt;
  };
  using Groups = std::map<GroupKey, Group>;

  struct Entry : ListHook<InFlow>, TreeHook<Ticket>, TreeHook<Size>, TreeHook<InGroup>, TreeHook<InGroupBySize> {
    WaitingRequest request;
    WaitTicket ticket = 0;
    Flow* flow = nullptr;
    Groups::iterator group, next_group;  ///< The latter only within regroup().
    Passed passed;
  };

  struct Flow : ListHook<InTurns>, TreeHook<Key>, TreeHook<Requests>, TreeHook<Bytes> {
    std::uint64_t key = 0;
    double share = 1;
    List<Entry, InFlow> entries;  ///< In the order in which they came.
    Groups groups;
    std::size_t requests = 0;
    Tokens tokens = 0;  ///< The sum of the prompts.
    Tokens cost = 0;
    std::size_t bytes = 0;
    std::int64_t credit = 0;
    /// Returns how much of a share of 1 it takes to pay for all that waits.
    double cost_by_share() const { return static_cast<double>(cost) / share; }
    /// Returns what it earns in a turn.
    std::int64_t earns() const { return std::max<std::int64_t>(1, std::llround(share * double{quantum})); }
    /// Returns how many turns it has to earn in before it can pay so much.
    std::int64_t turns_to(std::int64_t price) const {
      return credit >= price ? 0 : (price - credit + earns() - 1) / earns();
    }
    Entry* fitting = nullptr;  ///< As of the look `looked`.
    std::uint64_t looked = 0;
  };

  static std::int64_t cost(const Entry& entry);
  static GroupKey group_of(const WaitingRequest& request, const WaitingRequest::Fit& fit);
  const Flow* find_flow(std::uint64_t key) const;
  Entry& entry_of(WaitTicket ticket);
  void look(Flow& flow, const Fits& fits);
  void measure(Flow& flow) noexcept;
  void forget_measure(Flow& flow) noexcept;
  static void add_to_group(Entry& entry) noexcept;
  static Entry& wanted_of(Flow& flow) noexcept;
  void give_rounds_in_vain(Moment now) noexcept;
  void end_turn() noexcept;
  void pass_over(Entry& entry, Moment now) noexcept;
  WaitingRequest take_out(Entry& entry) noexcept;
  void drop(Flow& flow) noexcept;

  Tree<Entry, Ticket, Ticket> entries_;  ///< The queue owns them.
  Tree<Entry, Size, Size> by_prompt_;
  Tree<Flow, Key, Key> flows_;  ///< The queue owns them. Each has a request.
  std::size_t size_ = 0, keys_ = 0;
  Flow beyond_, front_of_queue_;  ///< For keys beyond most_keys; for requests that a replica refused.
  List<Flow, InTurns> turns_;     ///< The flow in front has the turn. front_of_queue_ is not among them.
  bool in_turn_ = false;          ///< The flow in front has earned its quantum.
  Tree<Flow, Requests, Requests> by_requests_;  ///< The flows among turns_.
  Tree<Flow, Bytes, Bytes> by_bytes_;
  PassedList passed_;
  Tokens tokens_ = 0;
  std::size_t bytes_ = 0;
  WaitTicket tickets_ = 0;
  std::uint64_t looks_ = 0, turns_given_ = 0;
};

}  // namespace weir::balancer
