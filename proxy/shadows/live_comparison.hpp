// Comparisons of a running weir: switches and gates of shadows, figures, the comparing thread.
//
// How each shadow that is on differs from its control or its primary, for /metrics: as /api/compare says it. What the
// next requests will push out of the history is added to the minutes of these comparisons, so that they are of all
// requests since their beginning. The control thread uses it; the comparing is done on the thread of slow answers.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "balancer/rollout/follower.hpp"
#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/moment.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/now.hpp"
#include "proxy/shadows/history.hpp"

namespace weir::proxy::shadows {

/// Makes the calling thread as nice as this, and not the process: on Linux a thread has a niceness of its own.
inline void be_nice(int niceness) { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness); }

/// Makes answers that take long on a thread of its own, one after the other. The control thread uses it.
class SlowAnswers {
 public:
  /// So many may wait; each holds a copy of all samples.
  static constexpr std::size_t most = 4;
  /// The thread yields to the stream loops.
  static constexpr int niceness = 10;

  explicit SlowAnswers(boost::asio::io_context& context) : context_(context) {
    boost::asio::post(thread_, [] { be_nice(niceness); });
  }

  std::size_t under_way() const { return under_way_; }
  bool is_full() const { return under_way_ >= most; }

  /// Calls `to_make` on the thread, and completes on the context with what it returned: void(std::shared_ptr<Answer>).
  /// Completes with null where it threw.
  template <class Make, class Token>
  auto make(Make to_make, Token&& token) {
    using Answer = std::invoke_result_t<Make&>;
    return boost::asio::async_initiate<Token, void(std::shared_ptr<Answer>)>(
        [this](auto handler, Make make_it) {
          // A function has to be copyable, and a handler need not be.
          auto kept = std::make_shared<decltype(handler)>(std::move(handler));
          boost::asio::post(thread_, [this, kept, make_it = std::move(make_it)]() mutable {
            std::shared_ptr<Answer> made;
            try {
              made = std::make_shared<Answer>(make_it());
            } catch (const std::exception&) {
              // Nobody on this thread would catch it.
            }
            boost::asio::post(context_, [this, kept, made] {
              --under_way_;
              std::move (*kept)(made);
            });
          });
          ++under_way_;
        },
        token, std::move(to_make));
  }

  /// Frees an object on the thread, unless another place has it too.
  void free(std::shared_ptr<const void> old) {
    boost::asio::post(thread_, [old = std::move(old)]() mutable { old.reset(); });
  }

 private:
  boost::asio::io_context& context_;
  std::size_t under_way_ = 0;
  boost::asio::thread_pool thread_{1};
};

class LiveComparison {
 public:
  /// A comparison is made of minutes, so figures that are so old tell the same. To copy the samples
  /// for them holds up the control thread, which accepts connections.
  static constexpr std::chrono::seconds every{15};

  /// The arguments outlive the object.
  LiveComparison(History& history, SlowAnswers& slow) : history_(history), slow_(slow) {}

  /// Begins to compare if it is time and a shadow is on that has been sent requests. A shadow that is off is not
  /// compared, but what leaves of its requests is kept. While nothing can be added to its minutes, they stay as they
  /// are, without what leaves meanwhile. To be called often.
  void tick(const fleet::Snapshot& snapshot, metrics::Moment now);

  /// Returns what the last comparison said of each shadow that is on.
  std::vector<live::ComparisonNow> latest(const fleet::Snapshot& snapshot) const;

  /// Returns what is known of the shadows that are on.
  std::vector<metrics::series::ComparisonGauges> gauges(const fleet::Snapshot& snapshot) const;

 private:
  /// The findings about a shadow that was first sent a request at `began`; a shadow that is switched on begins anew.
  struct Found {
    metrics::Moment began{};
    std::vector<metrics::series::ComparisonGauges::Effect> effects;
    std::vector<metrics::series::ComparisonGauges::Fault> faults;
    metrics::compare::pairs::Alike answers = metrics::compare::pairs::Alike::unknown;
    live::ComparisonNow row;
  };
  struct Question {
    const fleet::ShadowState* state;
    bool is_on;
    metrics::Moment began;
    metrics::compare::comparison::Options options;
    std::vector<std::optional<config::Slo>> slos;  ///< Of its pool; none is one as well.
  };
  struct Answer {
    std::map<const fleet::ShadowState*, Found> found;
    std::vector<std::shared_ptr<const metrics::compare::table::Table>> tables;
  };
  std::vector<Question> questions(const fleet::Snapshot& snapshot, metrics::compare::samples::Names& names) const;
  std::vector<metrics::compare::samples::Sample> samples_of(const fleet::Snapshot& snapshot,
                                                            metrics::compare::samples::Names& names) const;

  History& history_;
  SlowAnswers& slow_;
  metrics::Moment next_{};
  bool under_way_ = false;
  std::map<const fleet::ShadowState*, Found> found_;  ///< The pointers are only compared.
};

// Shadows as a snapshot has them: how each is compared, its gate and its switch; and the gate of a rollout's split.

/// Returns the shadow of this name; null if there is none.
const fleet::ShadowRuntime* shadow_of(const fleet::Snapshot& snapshot, std::string_view name);

/// True if the shadow is on.
bool is_on(const fleet::ShadowRuntime& shadow);
/// True if it has been sent a request since it was last switched on.
bool has_begun(const fleet::ShadowRuntime& shadow);

/// Returns what the figures of a shadow that has been sent requests are: it is compared with its control, if one runs,
/// or else with its primary.
metrics::compare::comparison::Options options_of(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot,
                                                 const History& history, metrics::compare::samples::Names& names);

/// Switches a shadow, and says so in the log. One that is switched on begins anew. Returns false if it was so before.
bool switch_shadow(const fleet::ShadowRuntime& shadow, bool on, History& history, metrics::Moment now);

/// After a reload: a shadow that gets other requests, or runs elsewhere, is cold again.
void begin_anew(const fleet::Snapshot& before, const fleet::Snapshot& after, History& history, metrics::Moment now);

/// Returns how many tokens the KV caches of the shadows' replicas hold, where that is set or the engine tells it: by
/// the replica's name, and by configuration where the addresses of a name are found.
std::map<std::string, std::uint64_t, std::less<>> kv_tokens_of_shadows(const fleet::Snapshot& snapshot);

// The gate of a running weir: what it says of a shadow, and of a rollout's split, by the last requests. A function made
// here holds a copy of the samples it needs, and is to be called once, on the thread of slow answers.

using balancer::rollout::Judged;

/// Compares a shadow as the gauges on /metrics do: with its control, or with its primary. `slo` names the objective
/// whose misses count; "" is the first one of the pool.
std::function<Judged()> gate_of_shadow(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot,
                                       const History& history, std::string_view slo = {});

/// Compares the candidate's side of a pool with its stable side, by the clients' requests that ended since then.
std::function<Judged()> gate_of_split(const fleet::PoolRuntime& pool, const fleet::Snapshot& snapshot,
                                      const History& history, metrics::Moment since);

}  // namespace weir::proxy::shadows
