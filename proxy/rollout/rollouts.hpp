// Runs the rollouts of the settings: each second it tells their machines (balancer/rollout/follower.hpp) what is known
// of the candidates, gives the pools the shares that these want, switches their shadows, keeps their standing on disk
// and logs each move. While the last write of the file has failed, no candidate gets more; less it gets at once. The
// control thread uses it; comparisons are made on the thread of slow answers, and the file is written on a thread of
// its own.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/rollout/follower.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/live/now.hpp"
#include "proxy/rollout/rollout_file.hpp"
#include "proxy/shadows/history.hpp"
#include "proxy/shadows/live_comparison.hpp"

namespace weir::proxy::rollout {

using http::ApiAnswer;
using shadows::History;
using shadows::SlowAnswers;

class Rollouts {
 public:
  static constexpr std::chrono::seconds every{1};
  /// The file is written after each move, and so often while a rollout is under way: a crash costs no more of its time.
  static constexpr std::chrono::seconds keep_every{15};

  /// The references outlive the object. `kept` is what an earlier process left. The outcome of a write is told on the
  /// context.
  Rollouts(boost::asio::io_context& context, fleet::Fleet& fleet, History& history, SlowAnswers& slow,
           KeptRollouts kept);

  /// Follows the settings of the fleet's snapshot, at the start and after each reload. Where these name another
  /// directory, it waits for the file there.
  void adopt(metrics::Moment now);
  /// Does what is due. To be called often.
  void tick(metrics::Moment now);

  /// weir drains: nothing moves any more, and the file is left to the next weir. Pools keep their shares. The
  /// destructor waits for the file.
  void end();

  enum class Wish : unsigned char { start, pause, promote, abort };
  /// Does what an operator wants. `body` is empty or a JSON object; that of a promotion may have "from" and "to", which
  /// name steps (balancer::rollout::Machine::promote). Returns {"name","reason","move"}, or an error that says why not.
  ApiAnswer carry_out(std::string_view name, Wish wish, metrics::Moment now, std::string_view body);
  /// {"rollouts":[...],"state_error"}
  ApiAnswer list() const;
  std::vector<metrics::series::RolloutGauges> gauges() const;
  std::vector<live::RolloutNow> rows() const;

 private:
  struct Running {
    explicit Running(const config::Rollout& settings) : follower(settings) {}

    balancer::rollout::Machine& machine() { return follower.machine; }
    const balancer::rollout::Machine& machine() const { return follower.machine; }

    balancer::rollout::Follower follower;
    std::array<std::uint64_t, balancer::rollout::reason_names.size()> moves{};
    std::shared_ptr<fleet::ShadowState> switched{};  ///< The shadow's state when the rollout last switched it.
  };

  void tick(const std::string& name, Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  void ask_gate(const std::string& name, Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  void moved(Running& one, const balancer::rollout::Move& move, const fleet::Snapshot& snapshot, metrics::Moment now);
  void apply(Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  void switch_shadows(Running& one, bool mirrors, const fleet::Snapshot& snapshot, metrics::Moment now);
  void drop_all_but(const std::vector<config::Rollout>& wanted);
  static std::optional<balancer::rollout::Move> follow(Running& one, const config::Rollout& settings,
                                                       metrics::Moment now);
  static std::optional<balancer::rollout::Move> restore(Running& one, const KeptRollouts& left, metrics::Moment now);
  void keep();
  void written(const std::string& error);
  static const fleet::PoolRuntime* pool_of(const Running& one, const fleet::Snapshot& snapshot);

  fleet::Fleet& fleet_;
  History& history_;
  SlowAnswers& slow_;
  const std::optional<metrics::SipKey> conversation_key_;
  KeptRollouts left_;                                    ///< By an earlier process, until the first adopt().
  std::map<std::string, Running, std::less<>> running_;  ///< By name.
  bool ended_ = false;
  std::string state_error_;  ///< Why the file could not be written last, or "".
  std::string directory_;    ///< In which it was written last.
  metrics::Moment next_tick_{}, next_keep_{};
  RolloutWriter writer_;
};

}  // namespace weir::proxy::rollout
