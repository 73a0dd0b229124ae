// An attempt at a request: what it leaves, its verdict and blame, evidence of health.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "balancer/evidence.hpp"
#include "balancer/health.hpp"
#include "balancer/placement.hpp"
#include "balancer/pool_health.hpp"
#include "balancer/story/retries.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::balancer::story {

/// How the replica's side of an attempt ended.
enum class End : std::uint8_t {
  // An answer came.
  whole,      ///< The answer came to the end of its framing.
  marked,     ///< The connection ended or stood still behind the stream's end marker, so nothing is missing.
  truncated,  ///< A stream ended with its connection and without a sign of its end.
  // The replica broke off, within an answer or before one.
  reset,        ///< The connection was reset.
  closed,       ///< The connection was closed.
  bad_framing,  ///< The bytes are no HTTP answer.
  timed_out,    ///< The replica took too long.
  // The replica's work was no longer wanted.
  cut,          ///< The time to drain (limits.drain) is over.
  client_left,  ///< The client has gone.
  given_up,     ///< The answer is an error that was left, because another replica is asked.
  // The replica's work did not begin, and the lease comes back unused.
  stale,           ///< A connection that had served before died before a byte was read.
  option_refused,  ///< The replica refused the usage option that weir had added; the original request is sent next.
  unconnected,     ///< No connection came about, and nothing was sent.
};

/// The consequences of an end by itself.
struct EndFacts {
  metrics::Outcome outcome;  ///< Of an answer that is not whole, and that reported no error of the replica's.
  /// Why another replica may do better before an answer reached the client. Time that ran out: see AnswerHandler.
  std::optional<metrics::Retry> retry;
  std::string_view sentence;  ///< Tells the client of a stream why it is cut; "" where nothing is.
};

/// In the order of End.
inline constexpr auto facts_of_ends = [] {
  using metrics::Outcome, metrics::Retry;
  constexpr std::string_view lost = "the replica was lost: the answer is incomplete";
  return std::array<EndFacts, 13>{{
      {Outcome::ok, {}, ""},
      {Outcome::ok, {}, ""},
      {Outcome::truncated, {}, "the replica closed the stream before its end: the answer is incomplete"},
      {Outcome::upstream_reset, Retry::reset, lost},
      {Outcome::upstream_reset, Retry::reset, lost},
      {Outcome::upstream_error, Retry::reset, lost},
      {Outcome::timeout, {}, "the replica stopped sending: the answer is incomplete"},
      {Outcome::rejected, Retry::drain, "the time to drain (limits.drain) is over: the answer is incomplete"},
      {Outcome::client_abort, {}, lost},
      {Outcome::client_abort, {}, lost},
      {Outcome::upstream_reset, Retry::stale_connection, lost},
      {Outcome::upstream_reset, Retry::injection_refused, lost},
      {Outcome::upstream_reset, Retry::connect, lost},
  }};
}();
constexpr const EndFacts& facts_of(End end) { return facts_of_ends[static_cast<std::size_t>(end)]; }

/// True for an end within an answer, or before one, that a client of the answer has to see as a cut.
constexpr bool breaks_off(End end) { return !facts_of(end).sentence.empty(); }

/// Whether an answer reached the client.
enum class Reply : std::uint8_t {
  none,     ///< There is nothing to send to the client.
  relayed,  ///< The client has got the answer, or as much of it as there was.
  error,    ///< The answer is an error that another replica may better. Nothing of it was sent.
};

/// Why no connection came about.
enum class ConnectFailure : std::uint8_t {
  refused,         ///< No process listens there.
  timed_out,       ///< limits.connect is over.
  backlog_full,    ///< The system says at once that too many connections wait there (Unix-domain sockets).
  no_address,      ///< The replica's host name has not been resolved.
  local_shortage,  ///< weir itself lacks descriptors, ports or memory.
  other,
};

// Judges an attempt by what was seen of it, as a pure table. Nothing here knows a socket, a clock or a client.

/// The facts of an attempt when its replica's work has ended.
struct AttemptFacts {
  End end = End::client_left;
  unsigned status = 0;  ///< 0 if no head was read.
  metrics::Api api = metrics::Api::other;
  bool body_is_read = false;    ///< The form of the body is known, so that tokens in it show.
  bool sent = false;            ///< A byte of the request was sent.
  bool client_has_all = false;  ///< The client left once the end marker, and all before it, had been written to it.
  bool is_json = false;         ///< The body was read as one JSON document of an API that weir knows.
  bool is_page = false;         ///< The content type is that of an HTML page, and the API is known.
};

struct Verdict {
  metrics::Outcome outcome = metrics::Outcome::upstream_error;
  std::optional<metrics::Phase> phase{};  ///< Set with client_abort, and where a drain cut the request.
  Blame blame = Blame::nobody;            ///< Whatever counts against a replica derives from it.
};

/// Judges an attempt. The first cause wins: an error that the replica reported in its stream is not undone by what came
/// later.
Verdict verdict_of(const AttemptFacts& facts, const metrics::record::Answer& answer);

/// Judges an attempt without a connection.
Verdict verdict_of_connecting(ConnectFailure failure);

/// Returns why the attempt's lease ends.
EndCause cause_of(const Verdict& verdict);

/// Judges an attempt whose error answer was given up for another replica's.
Verdict verdict_of_given_up_error(unsigned status);

/// Returns whose fault such an end was. `status` is the replica's; 0 if it gave none. A second replica may prove this
/// wrong: see HealthEvidence and Evidence.
Blame blame_of(metrics::Outcome outcome, unsigned status);

/// The replica of an attempt.
struct ReplicaRef {
  std::shared_ptr<void> subject{};  ///< The driver's replica, from ReplicaSpec::subject; keeps `usage` alive.
  ReplicaKey key{};                 ///< Names the replica in its pool's books.
  UsageOption* usage = nullptr;     ///< weir's knowledge of how this replica reports usage.
  bool doubted = false;             ///< See Lease::doubted.
};

/// Everything that an attempt leaves behind but the answer, however it ended. The parts of the attempt fill it while it
/// runs, and the story moves what the record has of it there.
struct AttemptReport {
  Lease lease{};  ///< The replica's work ends it. With stale, option_refused and unconnected it comes back unused.
  End end = End::closed;
  Reply reply = Reply::none;
  ConnectFailure connect_failure = ConnectFailure::other;  ///< Set with End::unconnected.
  int connect_error = 0;                                   ///< The errno or TLS error behind it, for a sentence.
  /// With Reply::none and Reply::error: why another replica may do better. Absent: a retry would take as long, so none
  /// is made.
  std::optional<metrics::Retry> retry_reason{};
  Verdict verdict{};
  unsigned status = 0;                                ///< The status of the replica's head; 0 if none was read.
  std::optional<std::chrono::seconds> retry_after{};  ///< The replica's head asked to be left alone so long.
  bool replica_cut = false;  ///< The replica's time to drain was over, or it sleeps: nothing counts against it.
  bool accepted = false;     ///< The client got the replica's head.
  /// With Reply::error: the answer as it would have been relayed; null if it was not kept. Its bytes count against
  /// limits.buffer_memory while anyone holds it.
  std::shared_ptr<std::string> kept{};
  std::optional<Moment> sent{}, head{};
  Moment ended{};  ///< The client had taken everything by then.
  metrics::Nanoseconds connect{}, paused{};
  std::optional<metrics::Nanoseconds> overhead_max{};
  Concurrency concurrency{};
  std::uint64_t bytes_out = 0;
  bool client_keep_alive = false;  ///< The client's connection may serve another request.
  bool client_reset = false;       ///< The body was cut where only a reset shows it, or for a client that stood still.
  bool replica_reusable = false;   ///< Head, body and framing came whole from the replica, and nothing after them.
};

/// The report of an attempt that has ended, with the answer, which its meter had until then.
struct AttemptOver : AttemptReport {
  metrics::record::Answer answer{};

  /// The status that the answer stands for: an error inside a 200 answer may name one.
  unsigned told_status() const { return answer.in_band_status != 0 ? answer.in_band_status : status; }
};

/// The replica had the request and broke off.
inline bool was_lost(const AttemptOver& over) {
  return over.sent && over.verdict.outcome == metrics::Outcome::upstream_reset && over.reply != Reply::error;
}

/// An attempt as the story's list has it.
struct Attempt {
  ReplicaRef replica;
  Moment started{};
  std::optional<Moment> sent{}, head{}, first_token{};
  std::optional<metrics::Nanoseconds> connect{};  ///< How long connecting took; absent for an idle connection.
  Moment ended{};
  End end = End::closed;                ///< Meaningful once `ended` is set.
  unsigned status = 0;                  ///< 0 if no head was read.
  std::optional<metrics::Retry> why{};  ///< Why another attempt followed.
};

// Classifies the statuses of replicas' error answers: which of them another replica may better, and which of two tells
// the client more.

/// The replica has no room now (408, 429, 503): another one may have.
bool another_may_have_room(unsigned status);

/// The replica says that it has no room now, and not that this request took too long (429, 503).
bool has_no_room(unsigned status);

/// The replica failed at its work: a 5xx, and 424, with which TGI says that a generation failed.
bool is_failure(unsigned status);

/// The replica works, and does not take such a request: another 4xx, or 501 where it lacks the route. Its health is
/// another matter.
bool refuses_the_request(unsigned status);

/// The replica does not take what the request asks (400, 404, 413, 422 and the like). A key, a time or a rate that it
/// refuses (401, 403, 408, 429), and a client that left (499), say nothing of that.
bool refuses_the_content(unsigned status);

/// The client may have erred, or this replica may be the wrong one (401, 403, 404, 501): another one tells.
bool needs_second_opinion(unsigned status);

/// True if another replica may better such an error, so that it is kept while one is asked. `doubted`: Lease::doubted.
bool may_be_bettered(unsigned status, bool doubted);

/// Orders error answers for the client, most useful last: a failure; 401, 403, 404 and 501; 408 and 503; 429. An error
/// inside a 200 stream is a failure.
int error_rank(unsigned status);

// Reports to a pool what the attempts of one request show of their replicas' health.

/// Returns nothing where the attempt says nothing of the replica: the client left, weir lacked something of its own,
/// the replica refused what weir had added.
std::optional<Sign> sign_of(const AttemptOver& over);

/// True if the replica answered with an error of its own. If a second replica fails the request, too, the request is to
/// blame, and no such error of it counts.
bool may_be_the_requests_fault(const AttemptOver& over);

/// Reports to a pool what the attempts of one request show.
class HealthEvidence {
 public:
  /// `may_be_empty`: the request asks for a token at most. The caller outlives this.
  explicit HealthEvidence(const Caller& caller, bool may_be_empty = false)
      : caller_(caller), may_be_empty_(may_be_empty) {}

  /// Returns true if the attempt speaks against its replica, and the replica is out now.
  bool report(PoolHealth& health, const ReplicaKey& replica, const AttemptOver& over, Moment now);
  /// No second replica has failed the request: the one that did is to blame.
  void settle(PoolHealth& health, Moment now);

 private:
  const Caller& caller_;
  const bool may_be_empty_;
  boost::container::small_vector<Serial, 1> failed_by_;  ///< One request speaks once against a replica.
  bool request_is_to_blame_ = false;                     ///< Two replicas have failed it.
  ReplicaKey blamed_;  ///< The replica that answered with an error of its own, until that counts. A serial of 0: none.
};

}  // namespace weir::balancer::story
