#include "proxy/exchange/attempt_runner.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>
#include <variant>

#include "metrics/memory.hpp"
#include "proxy/exchange/failure_answers.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using Clock = std::chrono::steady_clock;
using story::Command;

/// Most requests do not wait, and leave the loop's waiter to the next one.
std::shared_ptr<Waiter> waiter_of(Loop& loop) {
  auto& waiter = loop.free_waiter;
  if (!waiter || waiter.use_count() > 1) waiter = std::make_shared<Waiter>(Waiter{loop});
  return waiter;
}

}  // namespace

/// The objects that an attempt keeps while its answer streams. The compiler gives a place in the frame to whatever
/// stands in the coroutine itself, so the beginning and the end of an attempt are functions that it may not inline.
struct AttemptRunner::Running : metrics::Recycled<Running> {
  [[gnu::noinline]] Running(AttemptRunner& runner, Connection&& connection, Outgoing&& outgoing)
      : handler(runner.options(connection.reused), runner.story_.take_lease(),
                runner.replica().series->shard(runner.loop_.index)),
        relay(runner.loop_, runner.client_, *runner.replica().state, std::move(connection.channel), connection.reused,
              std::move(outgoing.spans), handler, runner.limits_, runner),
        body_size(outgoing.body_size),
        connected_to(std::move(connection.to)) {}

  AnswerHandler handler;
  Relay relay;
  const std::uint64_t body_size;
  net::Destination connected_to;
};

net::Awaitable<void> AttemptRunner::run(Command command) {
  while (command != Command::done) {
    if (command == Command::connect) {
      if (const auto* const before = story_.plan().repeats) count(*before);
      int error = 0;
      const auto running = begin_attempt(error);
      if (!running) {
        command = not_begun(error);
        continue;
      }
      co_await running->relay.run(net::use_awaitable);
      command = ended(*running);
      continue;
    }
    if (command == Command::ask_pool) {
      command = ask();
      continue;
    }
    co_await wait_->wait(net::use_awaitable);
    command = end_wait();
  }
  if (const auto limit = story_.ending().limit_hit)
    if (const auto hit = limit_of(*limit, pool_.settings)) loop_.shard.limit_hits.add(*hit);
}

/// Asks the pool for a replica.
Command AttemptRunner::ask() {
  const auto now = Clock::now();
  auto placement = story_.placement();
  std::shared_ptr<Waiter> waiter;
  if (pool_.settings.queue.requests > 0 && !cutting()) placement.waiter = waiter = waiter_of(loop_);
  auto offered = pool_.balancer->offer(placement, now);
  if (const auto* const waiting = std::get_if<balancer::Waiting>(&offered)) {
    waiter->wait = wait_ =
        std::make_shared<QueueWait>(loop_, client_, *pool_.balancer, *waiting, sender_.key_use(), sender_.early_head());
    return story_.resume(*waiting, now);
  }
  if (auto* const admitted = std::get_if<balancer::Admitted>(&offered)) return leased(std::move(admitted->lease), now);
  return story_.resume(std::get<balancer::Refused>(offered), now);
}

Command AttemptRunner::leased(balancer::Lease&& lease, Moment now) {
  if (story_.wants_identity()) sender_.identify();
  auto* const usage = &replica_of(lease).state->usage;
  return story_.resume(story::Leased{std::move(lease), usage}, now);
}

Command AttemptRunner::end_wait() {
  const auto wait = std::move(wait_);
  const auto now = Clock::now();
  switch (wait->end()) {
    case QueueWait::End::admitted:
      return leased(wait->lease(), now);
    case QueueWait::End::refused:
      return story_.resume(wait->refused(), now);
    case QueueWait::End::client_left:
      return story_.resume(story::ClientLeft{}, now);
    default:
      return story_.resume(story::CutInQueue{}, now);
  }
}

/// Returns null if there is no connection; `error` says why.
std::unique_ptr<AttemptRunner::Running> AttemptRunner::begin_attempt(int& error) {
  auto connection = connect();
  error = connection.error;
  return connection.channel ? std::make_unique<Running>(*this, std::move(connection), prepare()) : nullptr;
}

/// Makes what goes out.
Outgoing AttemptRunner::prepare() {
  sender_.begins(replica());
  auto outgoing = sender_.outgoing(replica(), wanted());
  asked_ = outgoing.asked;
  return outgoing;
}

Command AttemptRunner::ended(Running& running) {
  const auto now = Clock::now();
  auto& state = *replica().state;
  if (running.handler.report().sent) replica().series->shard(loop_.index).bytes[0].add(running.body_size);
  auto result = running.relay.take_over();
  if (auto left = running.relay.take_connection())
    loop_.keep_idle(state, std::move(running.connected_to), std::move(left), now);
  return over(std::move(result), now);
}

/// Returns what the replica is asked to report in addition.
metrics::wire::Ask AttemptRunner::wanted() const {
  if (!story_.plan().may_add_option) return metrics::wire::Ask::nothing;
  return replica().state->usage.ask({replica().inject_usage, replica().inject_continuous_usage},
                                    story_.request().facts->api);
}

/// Returns an idle connection to the replica, or one that begins to connect.
AttemptRunner::Connection AttemptRunner::connect() {
  auto destination = replica().destination();
  if (!destination) return {.to = {}, .channel = nullptr, .error = net::name_unknown};
  Connection connection{.to = std::move(*destination), .channel = nullptr};
  if (story_.plan().may_reuse_connection) {
    connection.channel = loop_.idle.take(*replica().state, connection.to, story_.attempts().back().started);
    connection.reused = connection.channel != nullptr;
    if (connection.reused) return connection;
  }
  connection.channel = loop_.connector->connect(connection.to);
  if (!connection.channel) connection.error = errno;
  return connection;
}

Command AttemptRunner::not_begun(int error) {
  story::AttemptOver result;
  result.end = story::End::unconnected;
  result.connect_error = error;
  result.connect_failure = connect_failure_of(error);
  result.lease = story_.take_lease();
  return over(std::move(result), Clock::now());
}

AnswerHandler::Options AttemptRunner::options(bool reused) {
  const auto& facts = *story_.request().facts;
  AnswerHandler::Options options{.replica = {.limits = limits_}};
  auto& to_replica = options.replica;
  to_replica.api = facts.api;
  to_replica.stream = facts.stream;
  to_replica.asked = asked_;
  to_replica.injection_proven = replica().state->usage.was_taken(facts.api);
  to_replica.reused = reused;
  to_replica.handed_out = story_.plan().handed_out;
  to_replica.choices = facts.n;
  to_replica.prompts = facts.prompts;
  to_replica.started = story_.attempts().back().started;
  options.client.api = facts.api;
  if (story_.request().leaves_hung) options.leaves = &replica().state->leaves;
  options.keep_errors = story_.request().keeps_errors();
  options.doubted = story_.replica().doubted;
  options.client.early = sender_.early_head();
  sender_.describe(options, replica());
  return options;
}

void AttemptRunner::answer_accepted(unsigned status) {
  const bool added = asked_ != metrics::wire::Ask::nothing;
  if (story_.answer_accepted(status, added, Clock::now())) note_option_refused(replica());
  sender_.answer_accepted();  // Last: until then an exception is answered, and not a reset.
}

bool AttemptRunner::spend_retry_on_error(unsigned status) { return story_.spend_retry_on_error(status, Clock::now()); }

Command AttemptRunner::over(story::AttemptOver over, Moment now) {
  over.replica_cut = over.end == story::End::cut || replica().state->cut.load(std::memory_order_relaxed);
  note(over, now);
  const bool was_poison = story_.is_poison();
  const auto& name = replica().settings.name;
  const auto command = story_.resume(std::move(over), now);
  if (!was_poison && story_.is_poison()) note_poison(loop_.shared.told.poison, sender_.id(), name, now);
  return command;
}

/// Logs and counts what concerns the replica, or weir itself, beside this request.
void AttemptRunner::note(const story::AttemptOver& over, Moment now) {
  if (over.end == story::End::unconnected) {
    replica().state->connect_failed.store(true, std::memory_order_relaxed);
    const int error = over.connect_error;
    if (over.connect_failure == story::ConnectFailure::local_shortage) {
      using metrics::series::Limit;
      loop_.shard.limit_hits.add(error == EMFILE || error == ENFILE ? Limit::descriptors : Limit::sockets);
      note_local_shortage(loop_.shared.local_shortages, error, now);
    } else if (!cutting()) {
      note_unconnected(replica(), error, now);
    }
    return;
  }
  if (!cutting()) note_attempt(replica(), over, now);
  note_local_recovery(loop_.shared.local_shortages, now);
}

/// Every repeat counts as the replica's that had a part in it.
void AttemptRunner::count(const story::Attempt& repeated) const {
  replica_of(repeated.replica).series->shard(loop_.index).retries.add(*repeated.why);
}

namespace {

void deliver(const std::shared_ptr<Waiter>& waiter) {
  boost::asio::post(waiter->loop.context, [waiter] {
    auto what = *std::exchange(waiter->granted, std::nullopt);
    if (const auto wait = waiter->wait.lock()) wait->granted(std::move(what));
  });
}

}  // namespace

QueueWait::QueueWait(Loop& loop, ClientWatch& client, balancer::Pool& pool, const balancer::Waiting& waiting,
                     std::shared_ptr<keys::KeyUse> key_use, EarlyHead* early)
    : loop_(loop),
      client_(client),
      pool_(pool),
      ticket_(waiting.ticket),
      deadline_(waiting.deadline),
      since_(Clock::now()),
      key_use_(std::move(key_use)),
      early_(early) {
  if (key_use_) key_use_->waiting.fetch_add(1, std::memory_order_relaxed);
  loop_.deadlines.attach(*this);
  client_.listen(this);
  if (client_.gone()) client_gone();
}

QueueWait::~QueueWait() {
  if (end_ == End::none) client_gone();
}

void QueueWait::ended(End end) {
  end_ = end;
  if (key_use_) {
    const metrics::Nanoseconds waited = Clock::now() - since_;
    key_use_->waiting.fetch_sub(1, std::memory_order_relaxed);
    key_use_->waits.fetch_add(1, std::memory_order_relaxed);
    key_use_->waited_nanoseconds.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
  }
  client_.listen(nullptr);
  unlink();
  if (completion_) completion_.tell();
}

void QueueWait::granted(std::variant<balancer::Lease, balancer::Refused> what) {
  if (end_ != End::none) return;
  if (auto* lease = std::get_if<balancer::Lease>(&what)) {
    lease_ = std::move(*lease);
    return ended(End::admitted);
  }
  refused_ = std::get<balancer::Refused>(what);
  ended(End::refused);
}

metrics::Moment QueueWait::deadline() const {
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return metrics::Moment::min();
  return early_ != nullptr ? std::min(deadline_, early_->due()) : deadline_;
}

/// A client takes all of these few bytes or nothing, unless it has long stopped to read.
void QueueWait::show_life(metrics::Moment now) {
  const std::string_view bytes = early_->bytes();
  const auto sent = client_.channel().write({&bytes, 1}, 0);
  if (sent == static_cast<ssize_t>(bytes.size())) return early_->written(now);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return early_->put_off(now);
  client_gone();
}

void QueueWait::deadline_passed(metrics::Moment now) {
  if (early_ != nullptr && now < deadline_ && !loop_.shared.cutting.load(std::memory_order_relaxed))
    return show_life(now);
  const auto refused = pool_.leave(ticket_, now);
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return ended(End::cut);
  if (!refused) {
    deadline_ = metrics::Moment::max();  // The grant is on its way.
    return;
  }
  refused_ = *refused;
  ended(End::refused);
}

void QueueWait::client_gone() {
  static_cast<void>(pool_.leave(ticket_, Clock::now()));
  ended(End::client_left);
}

void GrantPoster::grant(std::vector<balancer::Granted> granted) noexcept {
  if (closed_.load(std::memory_order_acquire)) return;
  for (auto& [waiting, what] : granted) {
    const auto waiter = std::static_pointer_cast<Waiter>(std::move(waiting));
    waiter->granted = std::move(what);
    deliver(waiter);
  }
}

}  // namespace weir::proxy::exchange
