// Runs the rollouts of the settings: each second it tells their machines (balancer/rollout/machine.hpp) what is known
// of the candidates, gives the pools the shares that these want, switches their shadows, keeps their standing on disk
// and logs each move. A candidate gets more only once that is on the disk, and less at once. The control thread uses
// it; comparisons are made on the thread of slow answers.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "balancer/rollout/machine.hpp"
#include "balancer/split.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/control/api.hpp"
#include "proxy/control/gates.hpp"
#include "proxy/control/history.hpp"
#include "proxy/control/rollout_file.hpp"
#include "proxy/control/slow_answers.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/live/now.hpp"

namespace weir::proxy::control {

class Rollouts {
 public:
  static constexpr std::chrono::seconds every{1};
  /// A gate copies the samples of its step on the control thread.
  static constexpr std::chrono::seconds gate_every{5};
  /// The file is written after each move, and so often while a rollout is under way: a crash costs no more of its time.
  static constexpr std::chrono::seconds keep_every{15};

  /// The stable side's first tokens of so long a time, if so many came, say how long a stream may wait for one; never
  /// less than the least wait.
  static constexpr std::chrono::minutes wait_window{5};
  static constexpr std::size_t least_waits = 20;
  static constexpr config::Seconds least_wait{10};

  /// The references outlive the object. `kept` is what an earlier process left.
  Rollouts(fleet::Fleet& fleet, History& history, SlowAnswers& slow, KeptRollouts kept);

  /// Follows the settings of the fleet's snapshot, at the start and after each reload.
  void adopt(metrics::Moment now);
  /// Does what is due. To be called often.
  void tick(metrics::Moment now);

  /// weir drains: nothing moves any more, and the file is left to the next weir. Pools keep their shares.
  void end();

  enum class Wish : unsigned char { start, pause, promote, abort };
  /// Does what an operator wants. `body` is empty or a JSON object; that of a promotion may have "from" and "to", which
  /// name steps (balancer::rollout::Machine::promote). {"name","reason","move"}, or an error that says why not.
  ApiAnswer carry_out(std::string_view name, Wish wish, metrics::Moment now, std::string_view body = {});
  /// {"rollouts":[...],"state_error"}
  ApiAnswer list() const;
  std::vector<metrics::series::RolloutGauges> gauges() const;
  std::vector<live::RolloutNow> rows() const;

 private:
  struct Running {
    explicit Running(const config::Rollout& settings) : machine(settings) {}

    balancer::rollout::Machine machine;
    balancer::SplitFigures counted;  ///< The pool's counts at the last tick.
    metrics::Moment judged{};        ///< The samples until then have been judged by the objective.
    metrics::Moment step_began{};
    std::uint64_t step = 0;  ///< Grows with each move and reload: a gate of another step says nothing.
    std::optional<balancer::rollout::Word> gate{};  ///< Nothing until it has been asked.
    std::string gate_why;
    metrics::Moment next_gate{};
    std::optional<config::Seconds> wait{};  ///< The longest wait for a first token, as last looked up.
    metrics::Moment next_wait{};
    std::array<std::uint64_t, balancer::rollout::reason_names.size()> moves{};
    std::shared_ptr<fleet::ShadowState> switched{};  ///< The shadow's state when the rollout last switched it.
  };

  void tick(const std::string& name, Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  void ask_gate(const std::string& name, Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  std::optional<config::Seconds> longest_wait(Running& one, metrics::Moment now);
  balancer::rollout::Counts judge(Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  void moved(Running& one, const balancer::rollout::Move& move, const fleet::Snapshot& snapshot, metrics::Moment now);
  bool move(Running& one, const balancer::rollout::Machine& before, const balancer::rollout::Move& move,
            const fleet::Snapshot& snapshot, metrics::Moment now);
  void ask_anew(Running& one, metrics::Moment next);
  void apply(Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  std::optional<std::string> keep();
  bool keep_and_tell();
  static const fleet::PoolRuntime* pool_of(const Running& one, const fleet::Snapshot& snapshot);

  fleet::Fleet& fleet_;
  History& history_;
  SlowAnswers& slow_;
  KeptRollouts kept_;  ///< As a restart finds them.
  std::map<std::string, Running, std::less<>> running_;  ///< By name.
  bool ended_ = false;
  std::string state_error_;  ///< Why the file could not be written last, or "".
  metrics::Moment next_tick_{}, next_keep_{};
};

}  // namespace weir::proxy::control
