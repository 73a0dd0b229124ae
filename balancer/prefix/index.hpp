// The index of a pool tells which replicas hold the beginning of a prompt.
//
// The table has a line for each anchor of the prompts that were sent (PromptPrefix), with the epoch in which each
// replica used it last. A prompt is entered when it is sent, so that siblings find it at once; its new lines are in
// doubt until its first token, and leave with the last of the prompts that have them if no token comes. A line is
// found by its key among the four of its set; of these the one goes first that was used longest ago. What a replica
// holds of all that it used is its PrefixHoldings' to say. The table has a fixed size, about `bytes_per_replica` for
// each replica's place, and is made with the first prompt. Nothing sweeps it, and wiping a replica costs O(1).
//
// A prompt whose end is known from a request before has the tokens that its replica counted; in between, tokens are
// spread over positions. An answer belongs to what its replica holds: the next turn of a conversation brings it along.
// How much of the answers is found again (templates drop reasoning, for one) is learned from what replicas report.
//
// A held prefix shortens the time to first token, and has no weight of its own: a weight between hits and load, or a
// switch between them, is wrong for some load. Nor are lifetimes guessed, or events of engines' caches read: these
// would take each model's tokenizer and template, and a lost event would leave a wrong picture for good.
//
// A Pool owns it and calls it under its mutex. A call costs about 10 ns an anchor and 1 ns a replica and anchor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "balancer/prefix/replica_prefixes.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::balancer {

class PrefixIndex {
 public:
  using PromptPrefix = metrics::wire::PromptPrefix;

  static constexpr std::size_t bytes_per_replica = std::size_t{1} << 20;
  /// Fewer cached tokens count as none: they save less than half a step of an engine, not worth a busier replica.
  static constexpr Tokens least_cached = 128;

  /// The replica has its place now, and its engine a cache of this capacity, as it is told; 0: nobody has told. If
  /// another replica had the place before, the cache is taken to be empty. Room is made for `places` replicas; where
  /// the table is made anew for that, it costs some milliseconds.
  void place(const ReplicaKey& replica, Tokens capacity, std::size_t places = 0);
  /// The replica's cache is empty now. Nothing happens if nothing is believed to be in it.
  void wipe(ReplicaIndex replica, PrefixWipe why);
  /// The engine's page has been read.
  void told(ReplicaIndex replica, const EngineSigns& signs) {
    if (const auto why = replicas_[replica].told(signs, clock_)) wipe(replica, *why);
  }

  /// Returns the tokens of a prompt that was estimated at `estimate`, by those of its beginnings whose tokens are
  /// known.
  Tokens refine(const PromptPrefix& prefix, Tokens estimate);
  /// Looks what each replica holds of a prompt of so many tokens. Returns that, by their places, until the next look.
  std::span<const PrefixFound> look(const PromptPrefix& prefix, Tokens prompt);
  /// Returns how many tokens the replica will not have to compute of the prompt of the latest look, as far as it is to
  /// be believed: below the prompt, and 0 or at least `least_cached`.
  Tokens cached(ReplicaIndex replica, Tokens prompt) const;

  /// Returns the surcharge, in tokens to compute, for serving the prompt of the latest look at `replica`, which holds
  /// `cached` of it, while `best` holds `most`. It is negative where others will reuse what is computed.
  double waste(ReplicaIndex best, ReplicaIndex replica, Tokens most, Tokens cached) const;

  /// The replica gets a client's prompt of so many tokens, and holds it from now on. The best candidate held `most` of
  /// it. Returns what is expected of the replica.
  PrefixPrediction sent(const PromptPrefix& prefix, ReplicaIndex replica, Tokens prompt, Tokens most = 0,
                        Client client = {});
  /// The replica has answered a prompt that was estimated at so many tokens. Nothing for what it did not report.
  void answered(const PrefixPrediction& prediction, ReplicaIndex replica, Tokens prompt, const PrefixReport& report);
  /// The replica has computed a prompt that was sent: its first token came, or an answer without one.
  void computed(const PromptPrefix& prefix, const PrefixPrediction& prediction, ReplicaIndex replica);
  /// The replica gave no token of a prompt that was sent: it is taken to have computed nothing. What it had computed
  /// before stays, and so does what other prompts have that are under way.
  void failed(const PromptPrefix& prefix, const PrefixPrediction& prediction, ReplicaIndex replica);
  /// Forgets what all replicas hold, and gives the table's memory back. What was learned of the replicas stays.
  void forget_prompts();
  /// Returns the cached tokens of an answer: see ReplicaPrefixes.
  std::optional<Tokens> told_cached(ReplicaIndex replica, metrics::Api api, std::optional<Tokens> cached) {
    return replicas_[replica].told_cached(api, cached);
  }

  const ReplicaPrefixes& of(ReplicaIndex replica) const { return replicas_[replica]; }
  std::size_t bytes() const;

 private:
  using Epoch = PrefixHoldings::Epoch;
  static constexpr std::size_t ways = 4, no_line = ~std::size_t{0};

  /// A replica's last use of a line. The line is in doubt from the first prompt that has it until the replica has
  /// computed one of them.
  struct Use {
    Epoch epoch : PrefixHoldings::epoch_bits = 0;
    std::uint32_t doubts : 5 = 0;  // So many such prompts are under way; 0 for a line that was computed.
  };
  static_assert(sizeof(Use) == 4);
  struct Line {
    std::uint64_t key = 0;     // 0 is an empty line.
    std::uint32_t tokens = 0;  // Up to the anchor.
    std::uint32_t used = 0;    // By the clock of prompts.
  };
  struct Detail {
    std::uint64_t segment : 24 = 0;  // The tokens since the anchor before, and of the answer.
    std::uint64_t uses : 19 = 0;     // So many prompts had it.
    std::uint64_t answer : 20 = 0;   // The tokens of the answer that followed.
    std::uint64_t exact : 1 = 0;     // The tokens are a replica's count.
  };
  /// Zeros that take no memory before they are touched: the table has room for a megabyte a replica.
  template <class T>
  class Zeroed {
   public:
    explicit Zeroed(std::size_t size) : size_(size), data_(static_cast<T*>(std::calloc(size, sizeof(T)))) {
      if (!data_ && size > 0) std::abort();
    }
    T& operator[](std::size_t i) { return data_.get()[i]; }
    const T& operator[](std::size_t i) const { return data_.get()[i]; }
    std::size_t size() const { return size_; }

   private:
    struct Free {
      void operator()(T* data) const { std::free(data); }
    };
    std::size_t size_;
    std::unique_ptr<T, Free> data_;
  };
  struct Table {
    explicit Table(std::size_t places);
    std::size_t set_of(std::uint64_t key) const;
    std::size_t find(std::uint64_t key) const;
    Use& use(std::size_t line, ReplicaIndex replica) { return uses[line * places + replica]; }
    std::size_t lines() const { return heads.size(); }

    std::size_t places = 0;
    Zeroed<Line> heads;
    Zeroed<Detail> details;
    Zeroed<Use> uses;
  };

  void set_places(std::size_t replicas);
  void find_lines(const PromptPrefix& prefix);
  void spread_tokens(const PromptPrefix& prefix, Tokens prompt);
  std::size_t claim(std::uint64_t key);
  void release(std::size_t line);
  static void count_use(Detail& detail);
  std::size_t find(std::uint64_t key) const { return table_ ? table_->find(key) : no_line; }
  Tokens answer_after(std::size_t anchor) const;
  Tokens believed(Tokens answer) const { return static_cast<Tokens>(answers_believed_ * static_cast<double>(answer)); }

  void forget(ReplicaIndex replica);

  std::vector<ReplicaPrefixes> replicas_;
  std::vector<Serial> serials_;
  std::unique_ptr<Table> table_;
  std::uint32_t clock_ = 0;
  double answers_believed_ = 1;

  /// Whose lines and findings stand below, and at which change of the table, of holdings or of beliefs.
  struct Looked {
    const PromptPrefix* prefix = nullptr;
    std::uint64_t tail = 0;  // Another prompt may have come to the same address.
    std::uint64_t lines = 0, found = 0;
    Tokens prompt = 0;
  };
  std::uint64_t changes_ = 1;
  Looked looked_;
  // The results of the latest look.
  std::vector<std::size_t> lines_;
  std::vector<Tokens> tokens_;
  std::vector<PrefixFound> found_;
};

}  // namespace weir::balancer
