// Sends a copy of a request to a shadow's replica, measures the answer as a client's answer is measured, and throws it
// away. It runs on the shadows' thread, and nobody waits for it.
//
// The relay and all behind it are the same as for a primary, so the two sides are measured alike; only the client's
// channel takes everything at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "metrics/record/request_record.hpp"
#include "metrics/wire/request/edits.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/mirror_job.hpp"
#include "proxy/exchange/relay.hpp"
#include "proxy/net/awaitable.hpp"
#include "proxy/net/sink_channel.hpp"

namespace weir::proxy::exchange {

/// The members of a request that a shadow sets, as edits of its body. The texts of the edits are its own and the
/// shadow's.
struct SetEdits {
  std::vector<std::string> wholes;  ///< `"key":json,` of each member.
  std::vector<metrics::wire::RequestEdit> edits;
};

/// Returns nothing if a member cannot be set: see metrics::wire::edits_that_set.
std::optional<SetEdits> set_edits(const fleet::ShadowRuntime& shadow, const MirrorJob& job);

class Mirror {
 public:
  Mirror(Loop& loop, std::shared_ptr<const MirrorJob> job, std::shared_ptr<const fleet::ShadowRuntime> shadow,
         SetEdits set, balancer::Lease lease);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Runs to the answer's end, and counts it.
  net::Awaitable<void> run();
  /// Gives up, as if its client had left.
  void leave() { sink_.hang_up(); }
  const MirrorJob& job() const { return *job_; }
  const fleet::ShadowRuntime& shadow() const { return *shadow_; }

 private:
  enum class Next : std::uint8_t { again, end };

  net::Awaitable<void> attempt();
  bool connect();
  void make_request();
  AnswerHandler::Options attempt_options() const;
  Next after(AttemptResult result);
  void not_connected(int error);
  void finish(AttemptResult result);

  Loop& loop_;
  const std::shared_ptr<const MirrorJob> job_;
  const std::shared_ptr<const fleet::ShadowRuntime> shadow_;
  balancer::Lease lease_;
  std::shared_ptr<const fleet::Replica> replica_;
  const balancer::ReplicaKey key_;
  const std::optional<std::uint64_t> prompt_estimate_;
  const std::string id_;
  http::RequestHead head_;
  net::SinkChannel sink_;
  std::string unread_, upstream_head_;
  ClientWatch client_{sink_, unread_};
  const SetEdits set_;
  std::vector<metrics::wire::RequestEdit> edits_;
  std::vector<std::string_view> spans_;
  std::uint64_t body_length_ = 0;
  std::unique_ptr<net::Channel> channel_;
  std::unique_ptr<AttemptResult> result_;
  net::Destination connected_to_;
  metrics::Nanoseconds connect_time_{};
  metrics::wire::Ask asked_ = metrics::wire::Ask::nothing;
  std::uint32_t attempts_ = 0;
  bool reused_ = false, stale_ = false, refused_injection_ = false;
};

/// The record of a request that `shadow` was spared.
metrics::record::RequestRecord record_of_dropped(const MirrorJob& job, const fleet::ShadowRuntime& shadow,
                                                 std::string id, std::string reason);

}  // namespace weir::proxy::exchange
