// Sends a copy of a request to a shadow's replica, measures the answer as a client's answer is measured, and throws it
// away. It runs on the shadows' thread, and nobody waits for it.
//
// The story, its runner and the relay are those of a primary, so the two sides are measured alike; only the client's
// channel takes everything at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "metrics/record/request_record.hpp"
#include "metrics/wire/request/edits.hpp"
#include "proxy/exchange/attempt_runner.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/mirror_job.hpp"
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

class Mirror final : Sender {
 public:
  Mirror(Loop& loop, std::shared_ptr<const MirrorJob> job, std::shared_ptr<const fleet::ShadowRuntime> shadow,
         SetEdits set);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Runs under this lease to the answer's end, and counts it.
  net::Awaitable<void> run(balancer::Lease lease);
  /// Gives up, as if its client had left.
  void leave() { sink_.hang_up(); }
  const MirrorJob& job() const { return *job_; }
  const fleet::ShadowRuntime& shadow() const { return *shadow_; }

 private:
  const std::string& id() const override { return id_; }
  void begins(const fleet::Replica&) override {}
  Outgoing outgoing(const fleet::Replica& replica, metrics::wire::Ask wanted) override;
  void describe(AnswerHandler::Options& options, const fleet::Replica& replica) override;
  void answer_accepted() override {}
  void request_sent() override { std::string().swap(upstream_head_); }
  void finish();

  Loop& loop_;
  const std::shared_ptr<const MirrorJob> job_;
  const std::shared_ptr<const fleet::ShadowRuntime> shadow_;
  const std::string id_;
  http::RequestHead head_;
  net::SinkChannel sink_;
  std::string unread_, upstream_head_;
  ClientWatch client_{sink_, unread_};
  const SetEdits set_;
  story::Story story_;
  AttemptRunner runner_;
};

/// Records a request that was not sent to `shadow`.
metrics::record::RequestRecord record_of_dropped(const MirrorJob& job, const fleet::ShadowRuntime& shadow,
                                                 std::string id, std::string reason);

}  // namespace weir::proxy::exchange
