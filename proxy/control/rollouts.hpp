// Runs the rollouts of the settings: each second it tells their machines (balancer/rollout/follower.hpp) what is known
// of the candidates, gives the pools the shares that these want, switches their shadows, keeps their standing on disk
// and logs each move. A candidate gets more only once that is on the disk, and less at once. The control thread uses
// it; comparisons are made on the thread of slow answers, and the file is written on a thread of its own.
#pragma once

#include <array>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "balancer/rollout/follower.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/control/api.hpp"
#include "proxy/control/gates.hpp"
#include "proxy/control/history.hpp"
#include "proxy/control/rollout_file.hpp"
#include "proxy/control/rollout_writer.hpp"
#include "proxy/control/slow_answers.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/live/now.hpp"
#include "proxy/net/completion.hpp"

namespace weir::proxy::control {

class Rollouts {
 public:
  static constexpr std::chrono::seconds every{1};
  /// The file is written after each move, and so often while a rollout is under way: a crash costs no more of its time.
  static constexpr std::chrono::seconds keep_every{15};

  /// The references outlive the object. `kept` is what an earlier process left. What has been written is told on the
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
  /// Does what an operator wants, and completes with the answer: void(ApiAnswer). A wish that gives the candidate more
  /// is answered once that is on the disk; any other is carried out within this call. `body` is empty or a JSON object;
  /// that of a promotion may have "from" and "to", which name steps (balancer::rollout::Machine::promote).
  /// {"name","reason","move"}, or an error that says why not.
  template <class Token>
  auto carry_out(std::string_view name, Wish wish, metrics::Moment now, std::string_view body, Token&& token) {
    return boost::asio::async_initiate<Token, void(ApiAnswer)>(
        [=, this](auto handler) {
          net::Completion<ApiAnswer> completion;
          completion.keep(std::move(handler));
          if (auto answer = begin(name, wish, now, body, completion)) completion.tell(std::move(*answer));
        },
        token);
  }
  /// True while the file is behind, or the control thread has not heard that it is not.
  bool is_writing() const { return writer_.is_busy(); }
  /// {"rollouts":[...],"state_error"}
  ApiAnswer list() const;
  std::vector<metrics::series::RolloutGauges> gauges() const;
  std::vector<live::RolloutNow> rows() const;

 private:
  using Completion = net::Completion<ApiAnswer>;
  /// Makes a machine move; nothing, or a sentence, if it does not.
  using Push = std::function<balancer::rollout::Answer(balancer::rollout::Machine&, metrics::Moment now)>;

  /// A move that gives the candidate more. The file is to have it first; meanwhile the machine stays where it is.
  struct Pending {
    balancer::rollout::Machine after;
    Push push;
    std::uint64_t write = 0;  ///< The first write that has it.
    Completion completion;    ///< Empty where no operator waits.
  };
  struct Running {
    explicit Running(const config::Rollout& settings) : follower(settings) {}

    balancer::rollout::Machine& machine() { return follower.machine; }
    const balancer::rollout::Machine& machine() const { return follower.machine; }

    balancer::rollout::Follower follower;
    std::optional<Pending> pending{};
    std::array<std::uint64_t, balancer::rollout::reason_names.size()> moves{};
    std::shared_ptr<fleet::ShadowState> switched{};  ///< The shadow's state when the rollout last switched it.
  };

  std::optional<ApiAnswer> begin(std::string_view name, Wish wish, metrics::Moment now, std::string_view body,
                                 Completion& completion);
  void tick(const std::string& name, Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  void ask_gate(const std::string& name, Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  void propose(Running& one, Push push, Completion completion);
  void give_up(Running& one, const ApiAnswer& answer);
  void moved(Running& one, const balancer::rollout::Move& move, const fleet::Snapshot& snapshot, metrics::Moment now);
  void apply(Running& one, const fleet::Snapshot& snapshot, metrics::Moment now);
  void switch_shadows(Running& one, bool mirrors, const fleet::Snapshot& snapshot);
  void drop_all_but(const std::vector<config::Rollout>& wanted);
  static std::optional<balancer::rollout::Move> follow(Running& one, const config::Rollout& settings,
                                                       metrics::Moment now);
  static std::optional<balancer::rollout::Move> restore(Running& one, const KeptRollouts& left, metrics::Moment now);
  std::uint64_t keep();
  void written(const RolloutWriter::Written& written);
  static const fleet::PoolRuntime* pool_of(const Running& one, const fleet::Snapshot& snapshot);

  fleet::Fleet& fleet_;
  History& history_;
  SlowAnswers& slow_;
  const std::optional<metrics::SipKey> conversation_key_;
  KeptRollouts left_;  ///< By an earlier process, until the first adopt().
  std::map<std::string, Running, std::less<>> running_;  ///< By name.
  bool ended_ = false;
  std::string state_error_;  ///< Why the file could not be written last, or "".
  std::string directory_;    ///< In which it was written last.
  metrics::Moment now_{}, next_tick_{}, next_keep_{};
  RolloutWriter writer_;
};

}  // namespace weir::proxy::control
