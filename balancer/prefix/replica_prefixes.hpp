// Beliefs about one replica's prefix cache, and how its reports correct them.
//
// A replica reports how many tokens of a prompt it had (`cached_tokens` of its usage). Set against what was predicted:
// - the share that came true, which fades, is the belief by which predictions are cut;
// - three large predictions in a row of which nothing came true mean an empty cache: a restart, or a flush. They mean
//   a cache that is switched off where nothing was found since the last time, or little is believed as it is.
//   Misses of one client alone say nothing while others find what is predicted: there is much that a request may name
//   by which an engine finds nothing, and a client could wipe the replica for all others.
//   A prediction that rests on prompts of which no token had come yet says nothing of the cache: see PrefixIndex;
// - predictions that fail where much was used since lower the capacity, and hits on what was thought to have left just
//   now raise it, so that an engine that keeps its cache in host memory, too, is found out by itself.
// Prompts that were sent before the replica's cache was emptied say nothing of the cache that it has now.
//
// The engine's page tells more (EngineSigns): that its process is another one, that it sleeps, and what it has found in
// its cache in all. A replica that never reports, and whose page has no such counter, keeps what it began with.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "balancer/evidence.hpp"
#include "balancer/tokens.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::balancer {

/// Tokens as the index keeps them, in four bytes.
constexpr std::uint32_t capped(Tokens tokens) {
  return static_cast<std::uint32_t>(std::min<Tokens>(tokens, std::numeric_limits<std::uint32_t>::max()));
}

class PrefixHoldings {
 public:
  using Epoch = std::uint32_t;  ///< 0 is before all use.
  static constexpr unsigned epoch_bits = 27;
  static constexpr std::size_t most_buckets = 320;
  static constexpr Tokens buckets_of_capacity = 256;
  static constexpr Tokens least_capacity = 4096;

  explicit PrefixHoldings(Tokens capacity) { set_capacity(capacity); }

  bool holds(Epoch used) const { return used >= horizon_; }
  /// True for what was held and has left for want of room.
  bool lost(Epoch used) const { return used >= first_ && used < horizon_; }
  /// True for what is held, and for what left last.
  bool remembers(Epoch used) const { return used >= ghosts_; }
  /// Uses a segment of so many tokens now, whose last use was in epoch `used`. Returns the epoch of this use.
  Epoch use(Epoch used, Tokens segment);
  /// Forgets a segment that was last used in that epoch.
  void release(Epoch used, Tokens segment);
  /// Returns how many tokens were used in that epoch or after it, and never since: the room that it takes to hold it.
  Tokens depth(Epoch used) const;
  /// Forgets everything. Costs O(1).
  void wipe();
  /// True if no epoch is left: 2^epoch_bits of them were used. Every epoch that was returned is void after a wipe(),
  /// which then begins at 1.
  bool exhausted() const { return now_ >= last_epoch; }

  /// True if nothing was used since the beginning or the last wipe.
  bool is_new() const { return buckets_.empty(); }
  Tokens held() const { return held_; }
  Tokens capacity() const { return capacity_; }
  void set_capacity(Tokens capacity);

 private:
  static constexpr Epoch last_epoch = (Epoch{1} << epoch_bits) - 16;

  struct Bucket {
    Epoch first = 0;
    std::uint32_t tokens = 0;
  };

  Bucket& bucket_of(Epoch used);
  void open_bucket();
  void evict();
  void merge();

  Tokens capacity_ = 0, held_ = 0, ghost_tokens_ = 0;
  Epoch first_ = 1;    ///< The first since the beginning or the last wipe.
  Epoch now_ = 1;      ///< The last bucket's, where there is one.
  Epoch horizon_ = 1;  ///< The first epoch of what is held.
  Epoch ghosts_ = 1;   ///< The first epoch of what is remembered.
  /// By age, the oldest first: ghosts, then what is held.
  boost::container::static_vector<Bucket, most_buckets + 1> buckets_;
};

/// Why a replica's cache is taken to be empty.
enum class PrefixWipe : std::uint8_t {
  missed,     ///< Three large predictions in a row of which nothing came true.
  down,       ///< The replica refused connections.
  restarted,  ///< Its engine has started anew, or is another one, by what the engine says of itself.
  flushed,    ///< A request through weir has emptied it (RequestFacts::empties_cache).
  asleep,     ///< Its engine says that it sleeps.
};
inline constexpr std::array<std::string_view, 5> prefix_wipe_names{"missed", "down", "restarted", "flushed", "asleep"};
static_assert(prefix_wipe_names.size() == static_cast<std::size_t>(PrefixWipe::asleep) + 1);

/// The signs, on one reading of an engine's page, of whether its prefix cache is still the one that it was.
struct EngineSigns {
  std::optional<double> started{};  ///< When its process began, in seconds of the Unix clock.
  /// Counters of its work by name, which only fall when the engine starts anew. A page may lack some.
  std::map<std::string, double, std::less<>> worked{};
  std::optional<double> looked_up{}, found{};  ///< Counters: prompt tokens that were looked up in its cache, and found.
  bool asleep = false;                         ///< It sleeps, and its cache is given away.
  bool another = false;  ///< Another engine may be behind the replica's address: nothing that was known of it counts.
};

/// The table's knowledge of a replica and a prompt, in tokens.
struct PrefixFound {
  std::uint32_t held = 0;          ///< So much of the prompt is in the cache.
  std::uint32_t remembered = 0;    ///< So much would be, if nothing had left lately. At least `held`.
  std::uint32_t answer = 0;        ///< Of `held`: the answer before, as much of it as is believed.
  std::uint32_t answer_whole = 0;  ///< The whole answer before.
  std::uint32_t depth = 0;         ///< How much was used since.
  std::uint32_t uses = 0;          ///< So many prompts have had what is held.
};

/// The expectation of a replica when it got a prompt.
struct PrefixPrediction {
  std::uint64_t tail = 0;    ///< The key of the prompt's end; 0 if nothing is known of the prompt.
  std::uint32_t cached = 0;  ///< So many of its tokens were believed to be cached.
  PrefixFound found{};
  std::uint32_t sure_anchors = 0;  ///< So many of its anchors are up to the last one that the replica had computed.
  std::uint32_t held_anchors = 0;  ///< The same up to the last one that it held.
  /// True if what was held rests on prompts of which no token had come yet.
  bool in_doubt() const { return held_anchors > sure_anchors; }
  std::uint32_t entered = 0;  ///< When it was entered, by the clock of prompts.
  Client client{};            ///< Whose prompt it is.
};

/// The usage that a replica reported at the end of an answer.
struct PrefixReport {
  std::optional<Tokens> prompt{}, cached{}, output{};
  Moment at{};  ///< When it came.
};

/// Sums of tokens since the start.
struct PrefixSums {
  Tokens looked_up = 0;        ///< The prompts of which anchors are known.
  Tokens best = 0;             ///< Held by the replica that held most and could have taken the prompt.
  Tokens predicted = 0;        ///< Believed to be held by the chosen replica.
  Tokens reported = 0;         ///< Reported by the chosen replica, where it reports.
  Tokens over = 0, under = 0;  ///< Predicted and not reported; reported and not predicted.
  Tokens judged = 0;           ///< The prompts for which the replica reported.
  std::array<std::uint64_t, prefix_wipe_names.size()> wipes{};
};

class ReplicaPrefixes {
 public:
  static constexpr Tokens unknown_capacity = 500'000;
  static constexpr Tokens large = 1024;  ///< A prediction from which three misses in a row say that the cache is empty.

  explicit ReplicaPrefixes(Tokens capacity = 0)
      : holdings_(capacity > 0 ? capacity : unknown_capacity), told_(capacity) {}

  /// The engine says that its cache has so many tokens. What was learned stays, relative to what it had said before.
  void told(Tokens capacity);
  /// The holdings were wiped, at this time by the clock of prompts.
  void wiped(PrefixWipe why, std::uint32_t now);
  /// Takes what the engine's page shows, at this time by the clock of prompts. Returns why the cache is empty, if the
  /// page shows that it is.
  std::optional<PrefixWipe> told(const EngineSigns& signs, std::uint32_t now);
  /// Returns the cached tokens of an answer with a usage of its prompt, whose report is `cached`. SGLang and many
  /// versions of vLLM leave out a count of 0: where a replica has reported hits by this API, and never a 0, no count is
  /// a 0. Returns nothing if the count is unknown.
  std::optional<Tokens> told_cached(metrics::Api api, std::optional<Tokens> cached);
  /// Judges a prediction for a prompt of so many tokens at this moment. Returns true if the cache is empty.
  bool judge(const PrefixPrediction& prediction, Tokens prompt, Tokens cached, Moment now);
  /// A prompt was answered without a report. The engine's page may tell whether the prediction came true.
  void unreported(const PrefixPrediction& prediction);

  /// Moments of long ago stay in the past, though the clock of prompts begins again at 0 after 2^32 of them.
  void keep_up(std::uint32_t now) {
    constexpr std::uint32_t longest = std::uint32_t{1} << 30;
    for (std::uint32_t* then : {&wiped_at_, &lost_at_, &found_since_})
      if (now - *then > longest) *then = now - longest;
  }

  /// True if the prompt was sent before the cache was emptied last: its answer says nothing of what is there now.
  bool is_past(const PrefixPrediction& prediction) const { return !is_since(prediction, wiped_at_); }
  /// True if what was computed for the prompt went with the cache. After misses it may have come after that.
  bool was_lost(const PrefixPrediction& prediction) const { return !is_since(prediction, lost_at_); }

  /// Counts a prompt that is sent, of which the best candidate held `most`, and this replica had `had` before that left
  /// for want of room.
  void count_sent(const PrefixPrediction& prediction, Tokens prompt, Tokens most, Tokens had) {
    sums_.looked_up += prompt;
    sums_.best += most;
    sums_.predicted += prediction.cached;
    const Tokens held = prediction.found.held;
    if (held >= prompt) return;
    const auto computed = static_cast<double>(prompt - held);
    const auto again = static_cast<double>(std::max(std::min(had, prompt), held) - held);
    const double kept = std::exp(-computed / static_cast<double>(holdings_.capacity()));
    wanted_again_ = wanted_again_ * kept + again / computed * (1 - kept);
  }
  /// Returns which share of what the replica computes it held before, 0 to 1: a mean over the last prompts that would
  /// fill its cache.
  double wanted_again() const { return wanted_again_; }

  PrefixHoldings& holdings() { return holdings_; }
  const PrefixHoldings& holdings() const { return holdings_; }
  const PrefixSums& sums() const { return sums_; }
  /// The share of what is predicted that comes true, 0 to 1.
  double believed() const { return (came_true_ + prior) / (foretold_ + prior); }

 private:
  static constexpr unsigned misses_of_empty = 3;
  static constexpr double prior = 5120;   // Tokens of predictions that came true.
  static constexpr double fades = 0.986;  // Half of a prediction's weight after 50 of them.

  static bool is_since(const PrefixPrediction& prediction, std::uint32_t then) {
    return static_cast<std::int32_t>(prediction.entered - then) > 0;
  }
  bool started_anew(const EngineSigns& signs);
  bool found_nothing(const EngineSigns& signs, std::uint32_t now);
  void learn_capacity(const PrefixPrediction& prediction, Tokens cached);

  PrefixHoldings holdings_;
  Tokens told_ = 0;
  double came_true_ = 0, foretold_ = 0;
  double came_true_before_ = 0, foretold_before_ = 0;  ///< Before the misses in a row.
  unsigned misses_ = 0;
  Evidence missing_;  ///< Whose predictions these were, and who had much of a prompt lately.
  std::uint32_t hits_by_api_ = 0, zeros_by_api_ = 0;  ///< Bits of the APIs by which such counts were reported.
  bool found_since_miss_wipe_ = true;     ///< The replica has had some of a prompt since misses wiped it last.
  std::uint32_t wiped_at_ = 0;            ///< By the clock of prompts.
  std::uint32_t lost_at_ = 0;             ///< The same, for another reason than misses.
  EngineSigns signs_;                     ///< The latest of each kind.
  std::uint32_t found_since_ = 0;         ///< Since then the engine has found nothing, by its page.
  std::optional<double> looked_up_then_;  ///< Tokens that it had looked up by then.
  unsigned unproven_ = 0;                 ///< So many large predictions since then were answered without a report,
  unsigned unproven_before_ = 0;          ///< and so many before the page that came last.
  unsigned too_deep_ = 0;                 ///< So many predictions in a row failed for lack of room.
  std::uint64_t reports_ = 0;
  double wanted_again_ = 0.2;  ///< Until something is known.
  PrefixSums sums_;
};

}  // namespace weir::balancer
